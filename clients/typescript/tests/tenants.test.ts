/** Workspaces that are deleted, workflows that are disabled and deleted, acts on executions. */

import assert from 'node:assert/strict';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { type Act, Fail, type Filter, Misuse, Store, WeirError, Worker, workflow } from 'weir';
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

test('a workspace is renamed', async (t) => {
  const store = await openStore(t);
  const id = await store.enqueue({ workspace: 'acme', workflow: 'nap', key: 'order-1' });
  await assert.rejects(store.renameWorkspace('acm', 'x'), hasStatus('workspace_not_found'));
  await store.renameWorkspace('acme', 'acme-eu', { reason: 'moved' });
  assert.equal((await store.show(id)).workspace, 'acme-eu');
  await assert.rejects(
    store.enqueue({ workspace: 'acme', workflow: 'nap' }),
    (problem) => problem instanceof WeirError && problem.hint === 'the workspace was renamed to "acme-eu"',
  );
  assert.equal(await store.enqueue({ workspace: 'acme-eu', workflow: 'nap', key: 'order-1' }), id);
});

test('a full workspace refuses an enqueue', async (t) => {
  const store = await openStore(t);
  const request = { workspace: 'acme', workflow: 'nap' };
  await store.setPlanMaxPending('pro', 2);
  await store.setWorkspace('acme', { plan: 'pro' });
  await store.setMaxPending('acme', 1);
  await store.enqueue(request);
  await assert.rejects(store.enqueue(request), hasStatus('queue_full'));
  await store.setMaxPending('acme', null);
  await store.enqueue(request);
  await assert.rejects(store.enqueue(request), hasStatus('queue_full'));
  await store.setMaxPending('acme', 0);
  await store.enqueue(request);
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

async function all<Item>(rows: AsyncIterable<Item>): Promise<Item[]> {
  const items: Item[] = [];
  for await (const row of rows) {
    items.push(row);
  }
  return items;
}

test('executions are listed and counted by conditions, page by page', async (t) => {
  const store = await openStore(t);
  const labels = { tier: 'gold', area: 'eu' };
  const runAt = new Date(Date.now() + 3_600_000);
  const requests = Array.from({ length: 120 }, () => ({ workspace: 'acme', workflow: 'nap', runAt }));
  const ids = await store.enqueueMany(requests);
  const gold = await store.enqueue({ workspace: 'acme', workflow: 'nap', labels, businessKey: 'order-17', runAt });
  const found = (await all(store.executions({ workspace: 'acme' }))).map((row) => row.id);
  assert.deepEqual(found.sort(), [...ids, gold].sort());
  assert.equal(await store.count({ states: 'PENDING' }), 121);
  assert.equal(await store.count({ states: ['COMPLETED', 'FAILED'] }), 0);
  assert.equal(await store.count({ createdBefore: new Date(Date.now() - 3_600_000) }), 0);
  for (const filter of [{ labels }, { businessKey: 'order-17' }, { businessKeyPrefix: 'order-', reason: 'scheduled' }]) {
    assert.deepEqual(
      (await all(store.executions(filter))).map((row) => row.id),
      [gold],
    );
  }
  assert.deepEqual(
    (await all(store.events(gold))).map((row) => row.event),
    ['enqueue'],
  );
  assert.deepEqual(await all(store.steps(gold)), []);
  assert.deepEqual(await all(store.actions(gold)), []);
  assert.deepEqual(
    (await all(store.workspaces())).map((row) => row.name),
    ['acme'],
  );
  assert.ok((await all(store.plans())).some((row) => row.name === 'pro'));
  assert.deepEqual(
    (await all(store.workflows())).map((row) => row.name),
    ['nap'],
  );
  assert.deepEqual(await all(store.nodes()), []);
  assert.equal((await store.usage('acme')).pending, 121);
  await assert.rejects(store.usage('nobody'), hasStatus('workspace_not_found'));
});

test('an act is on all that meet the conditions, and a wrong one is refused', async (t) => {
  const store = await openStore(t);
  for (const key of ['a', 'b', 'c']) {
    await store.enqueue({ workspace: 'acme', workflow: 'nap', key });
  }
  assert.deepEqual(await store.act('cancel', { key: 'a', workspace: 'acme' }), { matched: 1, changed: 1, refused: 0 });
  const rest = await store.act('cancel', { workspace: 'acme', states: 'PENDING' }, { because: 'they left' });
  assert.deepEqual(rest, { matched: 2, changed: 2, refused: 0 });
  await assert.rejects(store.act('cancel', {}), hasStatus('invalid_argument'));
  await assert.rejects(store.act('fire' as Act, { workspace: 'acme' }), Misuse);
  assert.throws(() => store.executions({ workspce: 'acme' } as Filter), /workspce is no condition/);
  assert.throws(() => store.executions({ states: 'OPEN' } as unknown as Filter), /OPEN is no state/);
  assert.throws(() => store.executions({ createdSince: new Date('x') }), /createdSince/);
  const labels = Object.fromEntries(Array.from({ length: 17 }, (_, i) => [`l${i}`, 'x']));
  await assert.rejects(store.count({ labels }), hasStatus('invalid_argument'));
  await assert.rejects(store.count({ labels: { tier: 7 as unknown as string } }), TypeError);
});

test('failures are grouped until they are dealt with', async (t) => {
  const store = await openStore(t);
  const broken = workflow({ name: 'broken' }, async () => {
    throw new Fail('no_money', 'the card is empty');
  });
  const worker = new Worker({ workflows: [broken], store });
  cleanUp(t, () => worker.stop());
  await worker.start();
  for (let i = 0; i < 2; i++) {
    await store.wait(await broken.enqueue({ workspace: 'acme', params: {}, store }));
  }
  const [group, ...more] = await store.failures();
  assert.deepEqual([group?.error_code, group?.workflow, group?.count, more.length], ['no_money', 'broken', 2, 0]);
  assert.deepEqual(await store.failures({ workflow: 'nap' }), []);
  await store.act('dismiss', { errorCode: 'no_money' });
  assert.deepEqual(await store.failures(), []);
});
