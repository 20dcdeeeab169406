/** The addon frees each call: the memory of the process does not grow with the number of calls. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Registry, workflow } from 'weir';
import { makeStore, makeWorker } from './support';

/** 100,000 by WEIR_TEST_LONG=1, where a leak of a hundred bytes for each call is seen. */
const CALLS = process.env.WEIR_TEST_LONG === '1' ? 100_000 : 4_000;
const BATCH = 2_000;
const GROWTH_MOST_MIB = 40;

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
  await run(BATCH);
  const before = process.memoryUsage().rss;
  for (let calls = BATCH; calls < CALLS; calls += BATCH) {
    await run(BATCH);
  }
  const grownMib = (process.memoryUsage().rss - before) / 2 ** 20;
  t.diagnostic(`the resident memory has grown by ${grownMib.toFixed(1)} MiB`);
  assert.ok(grownMib < GROWTH_MOST_MIB, `${grownMib} MiB`);
});
