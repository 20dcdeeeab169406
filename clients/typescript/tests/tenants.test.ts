/** Workspaces that are deleted, workflows that are disabled and deleted. */

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
