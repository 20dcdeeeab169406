/**
 * Enqueue inside the caller's own transaction on PostgreSQL: one call of weir.try_enqueue(), by the query function of the
 * caller's library. It takes part in the transaction as every other statement does.
 */

import { Misuse, makeError } from './errors';
import { KEY_MODES } from './native';
import { type Request, requestArguments, type Store } from './store';

/** A statement with $1 to $14 and its values, run in the transaction; returns its rows. */
export type QueryFunction = (sql: string, values: (string | null)[]) => Promise<readonly object[]>;

/**
 * A Client or PoolClient of pg, a transaction of Knex, Drizzle or Prisma, or a function that runs one statement.
 * The types of those libraries are not imported, so that none of them has to be installed.
 */
export type Transaction = object | QueryFunction;

const NAMES = [
  'workspace',
  'workflow',
  'params',
  'idempotency_key',
  'executor_group',
  'priority',
  'run_at',
  'execution_id',
  'traceparent',
  'business_key',
  'labels',
  'key_mode',
  'debounce',
  'debounce_max',
];
const TYPES = [
  'text',
  'text',
  'text',
  'text',
  'text',
  'integer',
  'timestamptz',
  'uuid',
  'text',
  'text',
  'jsonb',
  'text',
  'interval',
  'interval',
];

interface Row {
  code: string;
  id: string | null;
  message: string | null;
  hint: string | null;
}

// biome-ignore lint/suspicious/noExplicitAny: the shapes of four libraries, told apart at run time
type Any = any;

/** The schema that the store's URL names. */
export function schemaOf(store: Store): string {
  if (!store.isPostgres) {
    const kind = store.isServer ? 'behind a server' : 'a SQLite file';
    throw new Misuse(`the store is ${kind}: an execution in it cannot be part of your transaction`, {
      hint: 'enqueue after your commit, with a key, so that a repeated call makes no second execution',
    });
  }
  const query = store.url.split('?')[1] ?? '';
  const schema = new URLSearchParams(query).getAll('schema').pop() ?? 'weir';
  if (!/^[a-z_][a-z0-9_]{0,62}$/.test(schema)) {
    throw new Misuse(`${JSON.stringify(schema)} is no name of a schema`);
  }
  return schema;
}

/** Every value goes as text, because libraries and servers infer types of parameters in different ways. */
function makeStatement(schema: string, marker: (number: number) => string): string {
  const places = NAMES.map((name, at) => `${name} => CAST(CAST(${marker(at + 1)} AS text) AS ${TYPES[at]})`);
  return `SELECT code, id::text, message, hint FROM ${schema}.try_enqueue(${places.join(', ')})`;
}

function rowsOf(answer: Any): readonly object[] {
  return Array.isArray(answer) ? answer : (answer?.rows ?? []);
}

function refuse(what: string, hint: string): never {
  throw new Misuse(`using: ${what}`, { hint });
}

async function loadDrizzle(): Promise<Any> {
  try {
    return await import('drizzle-orm');
  } catch {
    return refuse(
      'drizzle-orm cannot be loaded by weir',
      'install drizzle-orm beside weir, or give a function (sql, values)',
    );
  }
}

/** Drizzle has no query function with numbered parameters: its `sql` objects are joined to the same statement. */
async function queryDrizzle(transaction: Any, schema: string, values: (string | null)[]): Promise<readonly object[]> {
  const { sql } = await loadDrizzle();
  const parts = makeStatement(schema, () => '?').split('?');
  const chunks = parts.flatMap((part, at) => (at < values.length ? [sql.raw(part), sql`${values[at]}`] : [sql.raw(part)]));
  return rowsOf(await transaction.execute(sql.join(chunks)));
}

function query(using: Any, schema: string, values: (string | null)[]): Promise<readonly object[]> {
  const numbered = makeStatement(schema, (number) => `$${number}`);
  if (typeof using?.raw === 'function' && typeof using?.queryBuilder === 'function') {
    if (!using.isTransaction) {
      return refuse('this is Knex without a transaction', 'knex.transaction(async (trx) => ... using: trx)');
    }
    return using
      .raw(
        makeStatement(schema, () => '?'),
        values,
      )
      .then(rowsOf);
  }
  if (typeof using?.$queryRawUnsafe === 'function') {
    if (typeof using.$connect === 'function') {
      return refuse('this is a PrismaClient, not a transaction', 'prisma.$transaction(async (tx) => ... using: tx)');
    }
    return using.$queryRawUnsafe(numbered, ...values).then(rowsOf);
  }
  if (typeof using?.execute === 'function' && typeof using?.select === 'function') {
    if (typeof using.rollback !== 'function') {
      return refuse('this is a database of Drizzle, not a transaction', 'db.transaction(async (tx) => ... using: tx)');
    }
    return queryDrizzle(using, schema, values);
  }
  if (typeof using?.query === 'function') {
    if ('totalCount' in using && typeof using.connect === 'function') {
      return refuse('a Pool of pg has no transaction', 'give the client that pool.connect() returned, after BEGIN');
    }
    return using.query(numbered, values).then(rowsOf);
  }
  if (typeof using?.prepare === 'function') {
    return refuse(
      'a transaction of SQLite ends before a promise does',
      'call enqueueSync() with this connection, or enqueue after your commit, with a key',
    );
  }
  if (typeof using === 'function') {
    return using(numbered, values);
  }
  return refuse(
    'this is no transaction that weir knows',
    'give one of pg, Knex, Drizzle or Prisma, or a function (sql, values) => rows',
  );
}

export async function enqueueUsing(using: Transaction, store: Store, request: Request): Promise<string> {
  const schema = schemaOf(store);
  const [workspace, workflow, params, key, group, priority, atUs, id, ...more] = requestArguments(request);
  const runAt = atUs === 0 ? null : new Date(atUs / 1000).toISOString();
  const [trace, about, labels, mode, ...windows] = more;
  const spans = windows.map((us) => (us === 0 ? null : `${us} microseconds`));
  const values = [workspace, workflow, params, key, group, String(priority), runAt, id, trace, about, labels];
  values.push(KEY_MODES[mode] as string, ...spans);
  const [row] = (await query(using, schema, values)) as Row[];
  if (row === undefined) {
    return refuse('the query function returned no row', 'it must return the rows of the statement');
  }
  if (row.code !== 'ok') {
    throw makeError(row.code, 'permanent', row.message ?? row.code, row.hint ?? '');
  }
  return String(row.id);
}
