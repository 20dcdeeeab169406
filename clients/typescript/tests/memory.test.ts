/** The addon frees each call: the memory of the process does not grow with the number of calls. And a call makes little garbage. */

import assert from 'node:assert/strict';
import { type HeapProfiler, Session } from 'node:inspector';
import { test } from 'node:test';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { Registry, workflow } from 'weir';
import { makeStore, makeWorker } from './support';

/** A leak of a kilobyte in each call is seen; of 200 bytes with WEIR_TEST_LONG=1. */
const CALLS = process.env.WEIR_TEST_LONG === '1' ? 40_000 : 8_000;
const ROUNDS = 5;
const BATCH = 2_000;
/** The library's caches fill up within this many calls. */
const WARM_UP = 20_000;
const GROWTH_MOST_MIB = 5;
/** Of a function that does nothing, with its promise. */
const BYTES_MOST = 1800;

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as () => void;

function keptMib() {
  collectGarbage();
  collectGarbage();
  const { rss, heapTotal, heapUsed } = process.memoryUsage();
  return { outside: (rss - heapTotal) / 2 ** 20, heap: heapUsed / 2 ** 20 };
}

/** V8 and malloc reserve 16 MiB and more at once when they like, and give them back: a leak is in every round, these are not. */
function median(values: number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] as number;
}

test(`calls leave no memory behind, in ${ROUNDS} rounds of ${CALLS}`, { timeout: 600_000 }, async (t) => {
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
  const kept = [keptMib()];
  for (let round = 0; round < ROUNDS; round++) {
    await repeat(CALLS);
    kept.push(keptMib());
  }
  for (const part of ['outside', 'heap'] as const) {
    const grown = kept.slice(1).map((now, round) => now[part] - (kept[round]?.[part] ?? 0));
    t.diagnostic(`grown, MiB ${part}: ${grown.map((mib) => mib.toFixed(1)).join(' ')}`);
    assert.ok(median(grown) < GROWTH_MOST_MIB, `${median(grown)} MiB ${part} in the middle round`);
  }
});

function bytesOf(node: HeapProfiler.SamplingHeapProfileNode): number {
  return node.children.reduce((sum, child) => sum + bytesOf(child), node.selfSize);
}

test(`a call takes at most ${BYTES_MOST} bytes of the heap`, { timeout: 600_000 }, async (t) => {
  const store = await makeStore(t);
  await store.setWorkspace('acme', { maxConcurrent: 200 });
  let ended = 0;
  let end = () => {};
  const all = new Promise<void>((resolve) => {
    end = resolve;
  });
  const nothing = workflow({ name: 'nothing', register: new Registry() }, async () => {
    if (++ended === WARM_UP) {
      end();
    }
  });
  await nothing.publish(store);
  for (let made = 0; made < WARM_UP; made += BATCH) {
    await nothing.enqueueMany(Array.from({ length: BATCH }, () => ({ workspace: 'acme' })));
  }
  const session = new Session();
  session.connect();
  session.post('HeapProfiler.startSampling', {
    samplingInterval: 512,
    includeObjectsCollectedByMajorGC: true,
    includeObjectsCollectedByMinorGC: true,
  } as HeapProfiler.StartSamplingParameterType);
  await makeWorker(t, { workflows: [nothing] });
  await all;
  const bytes = await new Promise<number>((resolve, reject) => {
    session.post('HeapProfiler.stopSampling', (problem, found) => {
      problem === null ? resolve(bytesOf(found.profile.head) / ended) : reject(problem);
    });
  });
  session.disconnect();
  t.diagnostic(`${bytes.toFixed(0)} bytes`);
  assert.ok(bytes < BYTES_MOST, `${bytes} bytes`);
});
