/** Enqueue inside the transaction of the caller, with the libraries that people use, on a real PostgreSQL. */

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, type TestContext, test } from 'node:test';
import { PrismaPg } from '@prisma/adapter-pg';
import { drizzle } from 'drizzle-orm/node-postgres';
import createKnex from 'knex';
import pg from 'pg';
import {
  configure,
  ExecutionNotFound,
  Misuse,
  Registry,
  type Store,
  Store as StoreClass,
  WorkspaceNotFound,
  workflow,
} from 'weir';
import { cleanUp, makeStore, makeWorker, PostgresServer } from './support';

const ship = workflow({ name: 'ship', register: new Registry() }, async (params: { order: number }) => params.order);
let server: PostgresServer;

before(() => {
  server = new PostgresServer();
});
after(() => server.stop());

async function makePostgres(test: TestContext): Promise<Store> {
  const store = configure(await server.database());
  await store.migrate();
  await store.setWorkspace('acme');
  await ship.publish(store);
  cleanUp(test, () => store.close());
  return store;
}

async function connect(test: TestContext, store: Store): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: store.url });
  await client.connect();
  cleanUp(test, () => client.end());
  return client;
}

async function exists(store: Store, id: string): Promise<boolean> {
  try {
    return (await store.show(id)).workspace === 'acme';
  } catch (problem) {
    assert.ok(problem instanceof ExecutionNotFound, String(problem));
    return false;
  }
}

function enqueue(
  using: object,
  order = 1,
  more: Omit<Partial<Parameters<typeof ship.enqueue>[0]>, 'params' | 'using'> = {},
): Promise<string> {
  return ship.enqueue({ workspace: 'acme', params: { order }, using, ...more });
}

test('pg', async (t) => {
  const store = await makePostgres(t);
  const client = await connect(t, store);
  await client.query('BEGIN');
  const id = await enqueue(client, 1, { key: 'a' });
  assert.equal(await exists(store, id), false);
  await client.query('COMMIT');
  assert.equal(await exists(store, id), true);
  await client.query('BEGIN');
  assert.equal(await enqueue(client, 1, { key: 'a' }), id);
  const traceparent = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01';
  const kept = await enqueue(client, 7, { traceparent, businessKey: 'order-7', labels: { tier: 'gold' } });
  await client.query('COMMIT');
  const shown = await store.show(kept);
  assert.deepEqual([shown.traceparent, shown.business_key, shown.labels], [traceparent, 'order-7', { tier: 'gold' }]);
  await client.query('BEGIN');
  const first = await enqueue(client, 1, { key: 'm', keyMode: 'debounce', debounce: '1h', debounceMax: '2h' });
  const newest = await enqueue(client, 2, { key: 'm', keyMode: 'replace' });
  assert.equal(await enqueue(client, 3, { key: 'm', keyMode: 'one_active' }), newest);
  await client.query('COMMIT');
  assert.equal((await store.show(first)).status, 'CANCELLED');
  const again = { workspace: 'acme', workflow: ship, params: { order: 4 }, key: 'm', keyMode: 'replace' as const };
  const replacing = [await store.enqueue(again), ...(await store.enqueueMany([again]))];
  assert.deepEqual(await Promise.all([newest, ...replacing].map(async (one) => (await store.show(one)).status)), [
    'CANCELLED',
    'CANCELLED',
    'PENDING',
  ]);
  await assert.rejects(store.enqueue({ ...again, keyMode: 'newest' as never }), /is not a mode of a key/);
  await client.query('BEGIN');
  const other = await enqueue(client, 2);
  await client.query('ROLLBACK');
  assert.equal(await exists(store, other), false);
  await client.query('BEGIN');
  await assert.rejects(enqueue(client, 1, { workspace: 'nobody' }), WorkspaceNotFound);
  const third = await enqueue(client, 3, { delay: '1h' }); // the refusal left the transaction as it was
  await client.query('COMMIT');
  assert.equal((await store.why(third)).pending_reason, 'scheduled');
});

test('a client of a pool of pg', async (t) => {
  const store = await makePostgres(t);
  const pool = new pg.Pool({ connectionString: store.url });
  cleanUp(t, () => pool.end());
  await assert.rejects(enqueue(pool), /a Pool of pg has no transaction/);
  const client = await pool.connect();
  await client.query('BEGIN');
  const id = await enqueue(client);
  await client.query('ROLLBACK');
  client.release();
  assert.equal(await exists(store, id), false);
});

test('Knex', async (t) => {
  const store = await makePostgres(t);
  const knex = createKnex({ client: 'pg', connection: store.url });
  cleanUp(t, () => knex.destroy());
  await assert.rejects(enqueue(knex), /Knex without a transaction/);
  const id = await knex.transaction(async (trx) => {
    const made = await enqueue(trx);
    assert.equal(await exists(store, made), false);
    return made;
  });
  assert.equal(await exists(store, id), true);
  let lost = '';
  const rollback = knex.transaction(async (trx) => {
    lost = await enqueue(trx, 2);
    throw new Error('roll back');
  });
  await assert.rejects(rollback, /roll back/);
  assert.equal(await exists(store, lost), false);
});

test('Drizzle', async (t) => {
  const store = await makePostgres(t);
  const database = drizzle(await connect(t, store));
  await assert.rejects(enqueue(database), /a database of Drizzle, not a transaction/);
  const id = await database.transaction(async (tx) => {
    const made = await enqueue(tx);
    assert.equal(await exists(store, made), false);
    return made;
  });
  assert.equal(await exists(store, id), true);
  let lost = '';
  const rollback = database.transaction(async (tx) => {
    lost = await enqueue(tx, 2);
    throw new Error('roll back');
  });
  await assert.rejects(rollback, /roll back/);
  assert.equal(await exists(store, lost), false);
});

/** What a test uses of a generated client. */
interface PrismaTransaction {
  $queryRawUnsafe(sql: string, ...values: unknown[]): Promise<{ note: string }[]>;
  $executeRawUnsafe(sql: string, ...values: unknown[]): Promise<number>;
}
interface Prisma extends PrismaTransaction {
  $transaction<T>(action: (tx: PrismaTransaction) => Promise<T>): Promise<T>;
  $extends(extension: object): Prisma;
  $disconnect(): Promise<void>;
}

/**
 * The generated client has to be beside node_modules. Its generator runs no engine, but it downloads one that it misses;
 * the variable names a program in its place.
 */
function generatePrisma(test: TestContext): new (options: object) => Prisma {
  const folder = mkdtempSync(join(__dirname, 'prisma-'));
  cleanUp(test, () => rmSync(folder, { recursive: true }));
  const generator = 'generator client {\n  provider = "prisma-client-js"\n  output = "./client"\n}\n';
  const model = 'model Note {\n  id Int @id\n}\n';
  writeFileSync(join(folder, 'schema.prisma'), `${generator}datasource db {\n  provider = "postgresql"\n}\n${model}`);
  const words = [require.resolve('prisma/build/index.js'), 'generate', '--schema', 'schema.prisma'];
  const env = { ...process.env, PRISMA_SCHEMA_ENGINE_BINARY: '/bin/false', CHECKPOINT_DISABLE: '1' };
  execFileSync(process.execPath, words, { cwd: folder, env, stdio: 'pipe' });
  return require(join(folder, 'client')).PrismaClient;
}

test('Prisma', async (t) => {
  const store = await makePostgres(t);
  const PrismaClient = generatePrisma(t);
  const prisma = new PrismaClient({ adapter: new PrismaPg({ connectionString: store.url }) });
  cleanUp(t, () => prisma.$disconnect());
  await prisma.$executeRawUnsafe('CREATE TABLE notes (note text)');
  await assert.rejects(enqueue(prisma), /a PrismaClient, not a transaction/);
  await assert.rejects(enqueue(prisma.$extends({})), /a PrismaClient, not a transaction/);
  const ofExtended = await prisma.$extends({}).$transaction((tx) => enqueue(tx));
  assert.equal(await exists(store, ofExtended), true);
  const id = await prisma.$transaction(async (tx) => {
    await tx.$executeRawUnsafe('INSERT INTO notes VALUES ($1)', 'kept');
    const made = await enqueue(tx, 1, { key: 'a', delay: '1h', labels: { tier: 'gold' }, priority: 3 });
    assert.equal(await exists(store, made), false);
    return made;
  });
  const shown = await store.show(id);
  assert.deepEqual([shown.status, shown.priority, shown.labels], ['PENDING', 3, { tier: 'gold' }]);
  let lost = '';
  const rollback = prisma.$transaction(async (tx) => {
    await tx.$executeRawUnsafe('INSERT INTO notes VALUES ($1)', 'lost');
    assert.equal(await enqueue(tx, 1, { key: 'a', delay: '1h', labels: { tier: 'gold' }, priority: 3 }), id);
    lost = await enqueue(tx, 2);
    throw new Error('roll back');
  });
  await assert.rejects(rollback, /roll back/);
  assert.equal(await exists(store, lost), false);
  await assert.rejects(
    prisma.$transaction((tx) => enqueue(tx, 1, { workspace: 'nobody' })),
    WorkspaceNotFound,
  );
  assert.deepEqual(await prisma.$queryRawUnsafe('SELECT note FROM notes'), [{ note: 'kept' }]);
});

test('a function that runs one statement', async (t) => {
  const store = await makePostgres(t);
  const client = await connect(t, store);
  await client.query('BEGIN');
  const id = await enqueue(async (sql: string, values: unknown[]) => (await client.query(sql, values)).rows);
  await client.query('COMMIT');
  assert.equal(await exists(store, id), true);
});

test('an object that is no transaction is refused', async (t) => {
  await makePostgres(t);
  await assert.rejects(enqueue({}), /no transaction that weir knows/);
  await assert.rejects(enqueue({ prepare: () => undefined }), /transaction of SQLite/);
});

test('a store on SQLite is refused with the remedy', async (t) => {
  await makeStore(t);
  await assert.rejects(enqueue({ query: () => undefined }), /after your commit/);
  const store = new StoreClass('postgres://localhost/x?schema=a;b');
  await assert.rejects(ship.enqueue({ workspace: 'acme', params: { order: 1 }, using: {}, store }), Misuse);
});

test('a worker on PostgreSQL runs what was committed', async (t) => {
  const store = await makePostgres(t);
  const client = await connect(t, store);
  await makeWorker(t, { workflows: [ship], store });
  await client.query('BEGIN');
  const id = await enqueue(client, 7);
  await client.query('COMMIT');
  assert.equal(await store.result(id, { timeout: 60 }), 7);
});
