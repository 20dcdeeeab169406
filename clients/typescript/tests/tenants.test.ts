/** Workspaces that are deleted, workflows that are disabled and deleted, acts on executions. */

import assert from 'node:assert/strict';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { Store, WeirError } from 'weir';
import { cleanUp, makeFolder } from './support';

const DEFINITION = 'name: nap\nsteps:\n  only: {sleep: 10ms}\n';

async function openStore(t: TestContext): Promise<Store> {
  const store = new Store(`sqlite:${join(makeFolder(t), 'weir.db')}`);
  cleanUp(t, () => store.close());
  await store.migrate();
  await store.publish(DEFINITION);
  await store.setWorkspace('acme', { plan: 'pro' });
  return store;
}

function hasStatus(status: string): (problem: unknown) => boolean {
  return (problem) => problem instanceof WeirError && problem.status === status;
}

test('a workspace is deleted with what waits, and its history is erased', async (t) => {
  const store = await openStore(t);
  const id = await store.enqueue({ workspace: 'acme', workflow: 'nap' });
  await assert.rejects(store.deleteWorkspace('acme'), hasStatus('illegal_state'));
  assert.equal(await store.deleteWorkspace('acme', { failWaiting: true, reason: 'left us' }), 1);
  assert.equal((await store.show(id)).error_code, 'workspace_deleted');
  await assert.rejects(store.enqueue({ workspace: 'acme', workflow: 'nap' }), hasStatus('workspace_not_found'));
  assert.equal(await store.deleteWorkspace('acme', { erase: true }), 0);
  await assert.rejects(store.show(id), hasStatus('execution_not_found'));
});

test('a workflow is disabled, enabled and deleted', async (t) => {
  const store = await openStore(t);
  await store.disableWorkflow('nap');
  await assert.rejects(store.enqueue({ workspace: 'acme', workflow: 'nap' }), hasStatus('workflow_disabled'));
  await store.enableWorkflow('nap');
  const id = await store.enqueue({ workspace: 'acme', workflow: 'nap' });
  await assert.rejects(store.deleteWorkflow('nap'), hasStatus('illegal_state'));
  await store.cancel(id);
  await store.deleteWorkflow('nap');
  await assert.rejects(store.enqueue({ workspace: 'acme', workflow: 'nap' }), hasStatus('workflow_not_found'));
});

test('executions are retried, released and dismissed', async (t) => {
  const store = await openStore(t);
  const id = await store.enqueue({ workspace: 'acme', workflow: 'nap', runAt: new Date(Date.now() + 3_600_000) });
  await assert.rejects(store.retry(id), hasStatus('illegal_state'));
  await store.release(id, 'it is time');
  await assert.rejects(store.dismiss(id), hasStatus('illegal_state'));
  await store.cancel(id);
  const again = await store.retry(id, { keepFinished: true, reason: 'it was a mistake' });
  assert.equal((await store.show(again)).retry_of, id);
  await assert.rejects(store.retry(id), hasStatus('conflict'));
  await store.cancel(again);
  await assert.rejects(store.retry(again, { fromStep: 'no-step' }), /no such step/);
  const failed = await store.enqueue({ workspace: 'acme', workflow: 'nap' });
  await store.deleteWorkspace('acme', { failWaiting: true });
  await store.dismiss(failed, 'known');
  const events = (await store.show(failed)).events as { event: string; reason: string | null }[];
  assert.deepEqual(
    events.filter((row) => row.event === 'dismiss').map((row) => row.reason),
    ['known'],
  );
});

test('a report with a wrong token is refused', async (t) => {
  const store = await openStore(t);
  await assert.rejects(store.callBack('wrong', { output: { frames: 1 } }), hasStatus('not_found'));
  const failure = { failed: 'disk_full', error: 'no room', final: true };
  await assert.rejects(store.callBack('wrong', failure), hasStatus('not_found'));
  await assert.rejects(store.callBack('wrong', { failed: 'x'.repeat(65) }), hasStatus('invalid_argument'));
});

test('what waits is decided and woken', async (t) => {
  const store = await openStore(t);
  await store.publish(JSON.stringify({ name: 'ask', steps: { ask: { approve: {} } } }));
  const id = await store.enqueue({ workspace: 'acme', workflow: 'ask' });
  await assert.rejects(store.approve(id, { step: 'ask' }), hasStatus('illegal_state'));
  await assert.rejects(store.reject(id), /no such step/);
  await assert.rejects(store.wake(id), hasStatus('illegal_state'));
  await assert.rejects(store.migrateExecution(id, 1), /has version 1 already/);
  await assert.rejects(store.wake(id, { waitingFor: 'approval' }), hasStatus('invalid_argument'));
});
