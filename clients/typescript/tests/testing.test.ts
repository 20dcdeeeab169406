/** runInline() of weir/testing, and the extension of SQLite that comes with the package. */

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { test } from 'node:test';
import { Fail, Misuse, ParamsError, Registry, Retry, sqliteExtensionPath, workflow } from 'weir';
import { runInline } from 'weir/testing';
import { makeStore } from './support';

const register = new Registry();
const sends = workflow({ name: 'sends', register }, async (params: { order: number; at?: Date }, ctx) => {
  ctx.heartbeat();
  return { sent: params.order, for: ctx.workspace, at: typeof params.at };
});
const fails = workflow({ name: 'fails', register }, (params: { how: string }) => {
  if (params.how === 'retry') throw new Retry('later');
  if (params.how === 'fail') throw new Fail('never', 'no');
  if (params.how === 'no json') return Number.NaN;
  throw new TypeError('a mistake');
});
const parsed = workflow(
  {
    name: 'parsed',
    register,
    parse: (params) => {
      if (!Number.isInteger((params as { order: unknown }).order)) throw new Error('order is no number');
      return params as { order: number };
    },
  },
  (params) => params.order,
);
const outer = workflow({ name: 'outer', register }, async (_params: Record<string, never>, ctx) =>
  sends.enqueue({ workspace: ctx.workspace, params: { order: 1 } }),
);

test('what is enqueued runs at once, with params as JSON and a context', async () => {
  let id = '';
  const runs = await runInline(async (seen) => {
    id = await sends.enqueue({ workspace: 'acme', params: { order: 42, at: new Date(0) }, priority: 3 });
    assert.equal(seen.length, 1);
  });
  assert.deepEqual(runs[0]?.result, { sent: 42, for: 'acme', at: 'string' });
  assert.deepEqual([runs[0]?.id, runs[0]?.status, runs[0]?.options.priority], [id, 'COMPLETED', 3]);
});

test('a known key runs nothing again, and a set runs one after another', async () => {
  const runs = await runInline(async () => {
    const first = await sends.enqueue({ workspace: 'acme', params: { order: 1 }, key: 'a' });
    assert.equal(await sends.enqueue({ workspace: 'acme', params: { order: 1 }, key: 'a' }), first);
    await sends.enqueue({ workspace: 'other', params: { order: 1 }, key: 'a' });
    const ids = await sends.enqueueMany([2, 3].map((order) => ({ workspace: 'acme', params: { order } })));
    assert.equal(ids.length, 2);
  });
  assert.deepEqual(
    runs.map((run) => (run.params as { order: number }).order),
    [1, 1, 2, 3],
  );
});

test('a function may enqueue another one', async () => {
  const runs = await runInline(() => outer.enqueue({ workspace: 'acme' }));
  assert.deepEqual(
    runs.map((run) => run.workflow),
    ['outer', 'sends'],
  );
  assert.equal(runs[0]?.result, runs[1]?.id);
});

test('outcomes become codes, mistakes are thrown', async () => {
  const runs = await runInline(async (seen) => {
    for (const how of ['retry', 'fail', 'no json']) {
      await fails.enqueue({ workspace: 'acme', params: { how } });
    }
    await assert.rejects(fails.enqueue({ workspace: 'acme', params: { how: 'x' } }), TypeError);
    await assert.rejects(parsed.enqueue({ workspace: 'acme', params: { order: 'x' as unknown as number } }), ParamsError);
    assert.equal(seen.length, 4);
  });
  assert.deepEqual(
    runs.map((run) => [run.status, run.errorCode]),
    [
      ['FAILED', 'later'],
      ['FAILED', 'never'],
      ['FAILED', 'result_not_json'],
      ['FAILED', ''],
    ],
  );
});

test('a second runInline() is refused, and after an error enqueue() uses the store again', async (t) => {
  await makeStore(t);
  await assert.rejects(
    runInline(async () => {
      await assert.rejects(
        runInline(() => undefined),
        Misuse,
      );
      throw new RangeError('out of the test');
    }),
    RangeError,
  );
  const id = await sends.enqueue({ workspace: 'acme', params: { order: 1 } });
  assert.match(id, /^[0-9a-f-]{36}$/);
});

test('the extension has the SQL functions, in the transaction of the caller', async (t) => {
  assert.ok(existsSync(sqliteExtensionPath()));
  const store = await makeStore(t);
  await sends.publish();
  const path = store.url.slice('sqlite:'.length);
  await store.close();
  const sql = (end: string) => `.load ${sqliteExtensionPath()}
BEGIN IMMEDIATE;
SELECT weir_enqueue('acme', 'sends', '{"order": 1}');
${end};`;
  const ask = (text: string) => execFileSync('sqlite3', [path], { input: text, encoding: 'utf8' }).trim();
  const kept = ask(sql('COMMIT'));
  const lost = ask(sql('ROLLBACK'));
  assert.equal((await store.show(kept)).status, 'PENDING');
  await assert.rejects(store.show(lost));
});

test('a worker ends its own run and no other', async (t) => {
  const store = await makeStore(t);
  await store.publish(JSON.stringify({ name: 'outside', temporal: { task_queue: 'q' } }));
  const id = await store.enqueue({ workspace: 'acme', workflow: 'outside' });
  await assert.rejects(store.complete(id, 'own'), { status: 'illegal_state' }); // it has not been started
  // A run on record, as a node on Temporal writes it.
  const sql = `BEGIN IMMEDIATE;
UPDATE workflow_execution_queue SET status = 'DISPATCHED', phase = 2, fence = 7, claimed_at = created_at,
  dispatched_at = created_at WHERE id = '${id}';
INSERT INTO workflow_node_executions (execution_id, step, status, attempt, failures, started_at, node_id, fence, variables)
  VALUES ('${id}', 'workflow', 'RUNNING', 1, 0, 1, 1, 7, CAST('{"run_id":"own"}' AS BLOB));
COMMIT;`;
  execFileSync('sqlite3', [store.url.slice('sqlite:'.length)], { input: sql });
  await assert.rejects(store.complete(id, 'another', { result: 1 }), { status: 'conflict' });
  await assert.rejects(store.complete(id, 'own', { result: 1, fence: 8 }), { status: 'conflict' });
  await store.complete(id, 'own', { result: { n: 7 }, fence: 7 });
  assert.deepEqual(await store.result(id), { n: 7 });
});
