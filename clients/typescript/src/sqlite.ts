/**
 * Enqueue inside the caller's own transaction on SQLite: one call of weir_enqueue(), a function of the loadable extension, on
 * the connection of better-sqlite3 or node:sqlite that the caller gives. It opens no store.
 *
 * Each of those libraries has a copy of SQLite of its own, and so has libweir. When one copy closes a file, the kernel drops
 * the locks that another copy in the process holds on it. So a file that is open in a store of this thread is refused here,
 * and a store refuses a file that was given here and is still open.
 */

import { realpathSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { Misuse, makeError, StoreUnavailable } from './errors';
import { FOLDER, KEY_MODES, type RequestArguments } from './native';

/** A Database of better-sqlite3, or a DatabaseSync of node:sqlite that was made with `allowExtension: true`. */
export interface SqliteDatabase {
  prepare(sql: string): { get(...values: never[]): unknown };
  exec(sql: string): unknown;
  loadExtension(path: string): unknown;
}

/** better-sqlite3 gives every number as a float. */
const ENQUEUE = 'SELECT weir_enqueue(?, ?, ?, ?, CAST(? AS INTEGER), ?, ?, ?, ?, ?, ?, ?, ?, ?) AS id';
/** The paths of the files that stores have open, each with their number. */
const openInStores = new Map<string, number>();
const given = new Set<{ path: string; database: WeakRef<SqliteDatabase> }>();

/** For loadExtension() of a library of SQLite. */
export function extensionPath(): string {
  return join(FOLDER, 'libweir_sqlite.so');
}

function realPath(path: string): string {
  try {
    return realpathSync(path);
  } catch {
    return resolve(path); // the file does not exist yet
  }
}

function pathOf(url: string): string {
  return realPath(url.replace(/^sqlite:/, ''));
}

function isOpen(database: SqliteDatabase): boolean {
  try {
    database.prepare('SELECT 1');
    return true;
  } catch {
    return false;
  }
}

function refuseBoth(path: string): never {
  throw new Misuse(
    `${path} is open in a store of this process and in a library with a copy of SQLite of its own: locks of the file would be lost`,
    { hint: 'run the worker, and all other calls of the store, in another process' },
  );
}

/** For a store that opens its file: returns the path, for one noteStoreClosed(). */
export function noteStoreOpened(url: string): string {
  refuseGiven(url);
  const path = pathOf(url);
  openInStores.set(path, (openInStores.get(path) ?? 0) + 1);
  return path;
}

export function noteStoreClosed(path: string): void {
  const left = (openInStores.get(path) ?? 0) - 1;
  if (left > 0) {
    openInStores.set(path, left);
  } else {
    openInStores.delete(path);
  }
}

/** Throws Misuse when a connection to the file was given to enqueueSync() and is still open. */
export function refuseGiven(url: string): void {
  const path = pathOf(url);
  for (const one of given) {
    const database = one.database.deref();
    if (database === undefined || !isOpen(database)) {
      given.delete(one);
    } else if (one.path === path) {
      refuseBoth(path);
    }
  }
}

/** Refuses the file of an open store, and keeps the connection in mind for refuseGiven(). */
function checkFile(database: SqliteDatabase): void {
  const row = database.prepare("SELECT file FROM pragma_database_list WHERE name = 'main'").get() as { file: string };
  const path = realPath(row.file);
  if (openInStores.has(path)) {
    refuseBoth(path);
  }
  if (![...given].some((one) => one.database.deref() === database)) {
    given.add({ path, database: new WeakRef(database) });
  }
}

function prepare(database: SqliteDatabase): { get(...values: never[]): unknown } {
  try {
    return database.prepare(ENQUEUE);
  } catch (problem) {
    if (!/no such function: weir_enqueue/.test(String(problem))) {
      throw problem;
    }
  }
  try {
    database.loadExtension(extensionPath());
  } catch (problem) {
    throw new Misuse(`the extension of weir cannot be loaded: ${(problem as Error).message}`, {
      hint: "node:sqlite: new DatabaseSync('app.db', { allowExtension: true })",
    });
  }
  return database.prepare(ENQUEUE);
}

/**
 * Takes the lock for writing by a write that changes nothing, as the first statement of a deferred transaction. It waits for
 * other writers as long as the busy timeout allows; the extension reads first, and SQLite lets no such transaction wait.
 */
function takeWriteLock(database: SqliteDatabase): void {
  try {
    database.exec('DELETE FROM main.news WHERE 0');
  } catch (problem) {
    if (!/no such table/.test(String(problem))) {
      throw problem; // else weir_enqueue() reports that the file is no store
    }
  }
}

/** Of the text "status: message; hint" of the functions of the extension. */
function toRefusal(problem: unknown): unknown {
  if (problem instanceof Misuse || !(problem instanceof Error)) {
    return problem;
  }
  const [, status, message, hint] = /^([a-z_]+): (.*?)(?:; (.*))?$/s.exec(problem.message) ?? [];
  if (status !== undefined && message !== undefined) {
    return makeError(status, status === 'store_busy' ? 'transient' : 'permanent', message, hint ?? '');
  }
  const isLocked = problem.message.includes('locked');
  return new StoreUnavailable(`SQLite: ${problem.message}`, {
    hint: isLocked ? 'begin with BEGIN IMMEDIATE, and set a busy timeout' : 'repeat the transaction',
    kind: 'transient',
    ...(isLocked ? { status: 'store_busy' } : {}),
  });
}

export function enqueueOnSqlite(using: unknown, request: RequestArguments): string {
  const database = using as SqliteDatabase;
  if (typeof database?.prepare !== 'function' || typeof database.loadExtension !== 'function') {
    throw new Misuse('using: this is no connection of SQLite that weir knows', {
      hint: 'give a Database of better-sqlite3 or a DatabaseSync of node:sqlite',
    });
  }
  const [workspace, workflow, params, key, group, priority, atUs, id, trace, about, labels, mode, ...windows] = request;
  const runAt = atUs === 0 ? null : new Date(atUs / 1000).toISOString();
  try {
    checkFile(database);
    const statement = prepare(database);
    takeWriteLock(database);
    const spans = windows.map((us) => (us === 0 ? null : `${Math.floor(us / 1000)}ms`));
    const named = [workspace, workflow, params, key, priority, runAt, group, id, trace, about, labels, KEY_MODES[mode]];
    const values = [...named, ...spans] as never[];
    return String((statement.get(...values) as { id: unknown }).id);
  } catch (problem) {
    throw toRefusal(problem);
  }
}
