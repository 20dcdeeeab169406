/** Enqueue inside the caller's transaction on SQLite, with better-sqlite3 and, where Node has it, node:sqlite. */

import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { isBuiltin } from 'node:module';
import { type TestContext, test } from 'node:test';
import {
  configure,
  Misuse,
  ParamsError,
  Registry,
  type SqliteDatabase,
  Store,
  StoreUnavailable,
  WorkflowNotFound,
  WorkspaceNotFound,
  workflow,
} from 'weir';
import { runInline } from 'weir/testing';
import { cleanUp, makeFolder, makeStore, waitForFile } from './support';

const ship = workflow({ name: 'ship', register: new Registry() }, async (params: { order: number }) => params.order);
const unknown = workflow({ name: 'unknown', register: new Registry() }, async () => 1);

interface Connection extends SqliteDatabase {
  close(): unknown;
  prepare(sql: string): { get(...values: unknown[]): unknown; run(...values: unknown[]): unknown };
  /** Of better-sqlite3. */
  transaction(act: (order: number) => string): { immediate(order: number): string };
}
type ConnectionClass = new (path: string, options?: object) => Connection;
const Database = require('better-sqlite3') as ConnectionClass;
const KINDS: [string, (path: string) => Connection][] = [['better-sqlite3', (path) => new Database(path)]];
if (isBuiltin('node:sqlite')) {
  const { DatabaseSync } = require('node:sqlite') as { DatabaseSync: ConnectionClass };
  KINDS.push(['node:sqlite', (path) => new DatabaseSync(path, { allowExtension: true })]);
}

/** A store with the workflow, which is closed; what was enqueued is read by opening it between two connections. */
async function makeClosed(test: TestContext): Promise<{ store: Store; path: string }> {
  const store = await makeStore(test);
  await ship.publish(store);
  await store.close();
  return { store, path: store.url.slice('sqlite:'.length) };
}

async function statesOf(store: Store, ...ids: string[]): Promise<string[]> {
  const states = [];
  for (const id of ids) {
    states.push(
      await store.show(id).then(
        (shown) => shown.status,
        () => 'none',
      ),
    );
  }
  await store.close();
  return states;
}

for (const [name, connect] of KINDS) {
  test(`${name}: an enqueue takes part in the transaction`, async (t) => {
    const { store, path } = await makeClosed(t);
    const db = connect(path);
    const enqueue = (order: number, more: Omit<Partial<Parameters<typeof ship.enqueueSync>[0]>, 'params' | 'using'> = {}) =>
      ship.enqueueSync({ workspace: 'acme', params: { order }, using: db, ...more });
    db.exec('CREATE TABLE orders (number INTEGER); BEGIN; INSERT INTO orders VALUES (1)');
    const kept = enqueue(1, { key: 'a' });
    db.exec('COMMIT; BEGIN IMMEDIATE');
    assert.equal(enqueue(1, { key: 'a' }), kept);
    const lost = enqueue(2);
    db.exec('ROLLBACK; BEGIN');
    assert.throws(
      () => enqueue(3, { workspace: 'acmee' }),
      (problem: unknown) => problem instanceof WorkspaceNotFound && /did you mean "acme"/.test(problem.hint),
    );
    const later = enqueue(3, { delay: '1h' }); // the refusal left the transaction as it was
    assert.throws(() => unknown.enqueueSync({ workspace: 'acme', using: db }), WorkflowNotFound);
    assert.throws(() => enqueue(4n as never), ParamsError);
    db.exec('COMMIT');
    const traceparent = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01';
    const alone = enqueue(5, { traceparent, businessKey: 'order-5', labels: { tier: 'gold' } });
    const first = enqueue(6, { key: 'm', keyMode: 'debounce', debounce: '1h' });
    const newest = enqueue(7, { key: 'm', keyMode: 'replace' });
    db.close();
    assert.deepEqual(await statesOf(store, first, newest), ['CANCELLED', 'PENDING']);
    const shown = await store.show(alone);
    assert.deepEqual([shown.traceparent, shown.business_key, shown.labels], [traceparent, 'order-5', { tier: 'gold' }]);
    assert.deepEqual(await statesOf(store, kept, lost, later, alone), ['PENDING', 'none', 'PENDING', 'PENDING']);
    assert.equal((await store.why(later)).pending_reason, 'scheduled');
  });

  test(`${name}: a file that is open in a store is refused, in either order`, async (t) => {
    const { store, path } = await makeClosed(t);
    const db = connect(path);
    await store.metrics(); // opens the store
    const enqueue = () => ship.enqueueSync({ workspace: 'acme', params: { order: 1 }, using: db, store });
    assert.throws(enqueue, (problem: unknown) => problem instanceof Misuse && /locks of the file/.test(problem.message));
    await store.close();
    const id = enqueue();
    for (const open of [() => store.metrics(), () => store.migrate(), () => new Store(path).why(id)]) {
      await assert.rejects(open, /locks of the file would be lost .*in another process/);
    }
    db.close();
    assert.deepEqual(await statesOf(store, id), ['PENDING']);
  });

  test(`${name}: a locked file and one that is no store are reported in words`, async (t) => {
    const { path } = await makeClosed(t);
    const holder = await lock(t, path);
    const db = connect(path);
    db.exec('PRAGMA busy_timeout = 0');
    const enqueue = (using: SqliteDatabase) => ship.enqueueSync({ workspace: 'acme', params: { order: 1 }, using });
    assert.throws(
      () => enqueue(db),
      (problem: unknown) => problem instanceof StoreUnavailable && problem.status === 'store_busy',
    );
    holder.kill();
    await once(holder, 'close');
    assert.match(enqueue(db), /^[0-9a-f-]{36}$/);
    db.close();
    const other = connect(`${makeFolder(t)}/other.db`);
    assert.throws(() => enqueue(other), /not a weir store/);
    other.close();
  });
}

/** Another process that holds the lock for writing. */
async function lock(test: TestContext, path: string): Promise<ChildProcess> {
  const program = `
    const db = new (require('better-sqlite3'))(${JSON.stringify(path)});
    db.exec('BEGIN IMMEDIATE');
    require('node:fs').writeFileSync(${JSON.stringify(`${path}.locked`)}, 'yes');
    setInterval(() => {}, 1000);`;
  const child = spawn(process.execPath, ['-e', program], { cwd: __dirname, stdio: 'inherit' });
  cleanUp(test, () => child.kill('SIGKILL'));
  await waitForFile(`${path}.locked`);
  return child;
}

test('a transaction function of better-sqlite3 commits and rolls back the enqueue', async (t) => {
  const { store, path } = await makeClosed(t);
  const db = new Database(path);
  db.exec('CREATE TABLE orders (number INTEGER)');
  let made = '';
  const placeOrder = db.transaction((order: number) => {
    db.prepare('INSERT INTO orders VALUES (?)').run(order);
    made = ship.enqueueSync({ workspace: 'acme', params: { order }, using: db });
    if (order < 0) throw new RangeError('no order');
    return made;
  });
  const kept = placeOrder.immediate(1);
  assert.throws(() => placeOrder.immediate(-1), RangeError);
  const lost = made;
  db.close();
  assert.deepEqual(await statesOf(store, kept, lost), ['PENDING', 'none']);
});

test('other connections are refused with what to do', async (t) => {
  const { path } = await makeClosed(t);
  const db = new Database(path);
  cleanUp(t, () => db.close());
  const options = { workspace: 'acme', params: { order: 1 } };
  await assert.rejects(ship.enqueue({ ...options, using: db, store: new Store('postgres://nowhere/x') }), /enqueueSync/);
  assert.throws(() => ship.enqueueSync({ ...options, using: {} as never }), /no connection of SQLite that weir knows/);
  configure('postgres://nowhere/x');
  assert.throws(() => ship.enqueueSync({ ...options, using: db }), /the store is on PostgreSQL/);
});

test('runInline() runs what enqueueSync() enqueues', async () => {
  const using = {} as never;
  const runs = await runInline(() => {
    const id = ship.enqueueSync({ workspace: 'acme', params: { order: 7 }, key: 'a', using });
    assert.equal(ship.enqueueSync({ workspace: 'acme', params: { order: 7 }, key: 'a', using }), id);
  });
  assert.deepEqual(
    runs.map((run) => run.result),
    [7],
  );
  const fails = workflow({ name: 'fails', register: new Registry() }, () => {
    throw new RangeError('out of range');
  });
  await assert.rejects(
    runInline(() => fails.enqueueSync({ workspace: 'acme', using })),
    RangeError,
  );
});
