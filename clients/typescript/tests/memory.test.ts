/** The addon frees each call: the memory of the process does not grow with the number of calls. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { Registry, workflow } from 'weir';
import { makeStore, makeWorker } from './support';

/** A leak of a kilobyte in each call is seen; of 200 bytes with WEIR_TEST_LONG=1. */
const CALLS = process.env.WEIR_TEST_LONG === '1' ? 100_000 : 20_000;
const BATCH = 2_000;
/** The library's caches fill up within this many calls. */
const WARM_UP = 20_000;
const GROWTH_MOST_MIB = 20;

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as () => void;

function residentMib(): number {
  collectGarbage();
  collectGarbage();
  return process.memoryUsage().rss / 2 ** 20;
}

test(`${CALLS} calls leave no memory behind`, { timeout: 600_000 }, async (t) => {
  const store = await makeStore(t);
  await store.setWorkspace('acme', { maxConcurrent: 200 });
  let ended = 0;
  const count = workflow({ name: 'count', register: new Registry() }, async (params: { text: string }) => {
    ended++;
    return params;
  });
  await makeWorker(t, { workflows: [count] });
  const run = async (calls: number) => {
    const until = ended + calls;
    const params = { text: 'x'.repeat(200) };
    const ids = await count.enqueueMany(Array.from({ length: calls }, () => ({ workspace: 'acme', params })));
    for (const id of ids.slice(-3)) {
      await store.result(id);
    }
    while (ended < until) {
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
  };
  const repeat = async (calls: number) => {
    for (let made = 0; made < calls; made += BATCH) {
      await run(BATCH);
    }
  };
  await repeat(WARM_UP);
  const before = residentMib();
  await repeat(CALLS);
  const grownMib = residentMib() - before;
  t.diagnostic(`the resident memory has grown by ${grownMib.toFixed(1)} MiB`);
  assert.ok(grownMib < GROWTH_MOST_MIB, `${grownMib} MiB`);
});
