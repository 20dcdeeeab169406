/** The warning of an enqueue that no worker serves. */

import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { Registry, Store, workflow } from 'weir';
import { cleanUp, makeStore, makeWorker, waitUntil } from './support';

const register = new Registry();
const late = workflow({ name: 'served-late', register }, async () => null);
const NAP = 'name: nap\nsteps:\n  only: {sleep: 10ms}\n';

interface Warned extends Error {
  code?: string;
}

/** The warnings of the process from now on. */
function warnings(test: TestContext): Warned[] {
  const found: Warned[] = [];
  const keep = (warning: Warned) => warning.name === 'WeirWarning' && found.push(warning);
  process.on('warning', keep);
  cleanUp(test, () => process.off('warning', keep));
  return found;
}

/** Each call passes so much time for the package. */
function passTime(test: TestContext): (ms: number) => void {
  const now = performance.now.bind(performance);
  let passed = 0;
  performance.now = () => now() + passed;
  cleanUp(test, () => {
    performance.now = now;
  });
  return (ms) => {
    passed += ms;
  };
}

test('an enqueue that no worker serves warns once', async (t) => {
  const found = warnings(t);
  const pass = passTime(t);
  const store = await makeStore(t);
  await store.publish(NAP);
  const first = await late.enqueue({ workspace: 'acme' });
  await waitUntil(() => found.length === 1, 'the warning');
  pass(61_000);
  const nap = { workspace: 'acme', workflow: 'nap' };
  await store.enqueueMany([{ workspace: 'acme', workflow: late }, nap, nap]);
  await waitUntil(() => found.length === 2, 'the warning of the other workflow');
  await store.close(); // what it waits for could warn again
  const lack = `no live worker of the group default has the handler served-late: execution ${first} waits for one`;
  assert.equal(found[0]?.message, `workflow served-late: ${lack}; start it with: npx weir worker APP`);
  assert.match(String(found[1]?.message), /^workflow nap: no live node serves the group default: execution /);
  assert.deepEqual(
    found.map((warning) => warning.code),
    ['WEIR_NO_WORKER', 'WEIR_NO_WORKER'],
  );
});

test('an enqueue that a worker serves does not warn, and asks again after a minute', async (t) => {
  const found = warnings(t);
  const pass = passTime(t);
  const store = await makeStore(t);
  const worker = await makeWorker(t, { store, workflows: [late] });
  await late.result(await late.enqueue({ workspace: 'acme' }), { timeout: 60 });
  await worker.stop();
  const again = new Store(store.url);
  await late.enqueue({ workspace: 'acme', store: again });
  await again.close();
  assert.deepEqual(found, []);
  pass(61_000);
  await late.enqueue({ workspace: 'acme' });
  await waitUntil(() => found.length === 1, 'the warning');
});

test('close() waits for the question', async (t) => {
  const found = warnings(t);
  const store = await makeStore(t);
  await late.enqueue({ workspace: 'acme' });
  await store.close();
  await waitUntil(() => found.length === 1, 'the warning');
});
