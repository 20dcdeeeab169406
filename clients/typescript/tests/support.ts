/** Stores, workers and servers of the tests. */

import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { TestContext } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { configure, type Store, type StoreOptions, Worker, type WorkerOptions } from 'weir';

/** The checkout, whose helpers start servers. */
export const SOURCE = process.env.WEIR_SOURCE ?? join(__dirname, '../../../..');
const DEADLINE_MS = 120_000;

const cleanups = new WeakMap<TestContext, (() => unknown)[]>();

/** At the end of the test, the last one first. */
export function cleanUp(test: TestContext, act: () => unknown): void {
  const known = cleanups.get(test);
  if (known !== undefined) {
    known.push(act);
    return;
  }
  const acts = [act];
  cleanups.set(test, acts);
  test.after(async () => {
    while (acts.length > 0) {
      await acts.pop()?.();
    }
  });
}

export function makeFolder(test: TestContext): string {
  const folder = mkdtempSync(join(tmpdir(), 'weir-node-'));
  cleanUp(test, () => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** A SQLite store with the workspace acme; the default store of the process. */
export async function makeStore(test: TestContext, options?: StoreOptions): Promise<Store> {
  const store = configure(`sqlite:${makeFolder(test)}/weir.db`, options);
  await store.migrate();
  await store.setWorkspace('acme', { plan: 'enterprise' });
  cleanUp(test, () => store.close());
  return store;
}

export const silent = { debug() {}, info() {}, warn() {}, error() {} };

export async function makeWorker(test: TestContext, options: WorkerOptions = {}): Promise<Worker> {
  const worker = new Worker({ logger: silent, ...options });
  await worker.start();
  cleanUp(test, () => worker.stop(0));
  return worker;
}

export async function waitUntil(condition: () => boolean | Promise<boolean>, what = 'it'): Promise<void> {
  const until = performance.now() + DEADLINE_MS;
  while (!(await condition())) {
    if (performance.now() > until) {
      throw new Error(`${what} did not happen`);
    }
    await sleep(5);
  }
}

export async function waitForFile(path: string): Promise<string> {
  await waitUntil(() => existsSync(path) && readFileSync(path, 'utf8') !== '', `the file ${path}`);
  return readFileSync(path, 'utf8');
}

const SQLITE_WRITE_LOCK = ['120', '120']; // the byte of the -shm file that the writer of a WAL database locks

function holdsWriteLock(pid: number): boolean {
  const rows = readFileSync('/proc/locks', 'utf8').split('\n');
  return rows.some((row) => {
    const words = row.trim().split(/\s+/);
    return words[3] === 'WRITE' && words[4] === String(pid) && words.slice(6).join() === SQLITE_WRITE_LOCK.join();
  });
}

/** Stops a process outside of a commit: inside of one it would keep all others from writing to its SQLite file. */
export async function freeze(child: ChildProcess): Promise<void> {
  const pid = child.pid as number;
  await waitUntil(async () => {
    child.kill('SIGSTOP');
    await waitUntil(() => / T /.test(readFileSync(`/proc/${pid}/stat`, 'utf8')), 'the stop of the process');
    if (holdsWriteLock(pid)) {
      child.kill('SIGCONT');
      return false;
    }
    return true;
  }, 'a stop outside of a commit');
}

/** A process whose output is collected. It is killed after the test. */
export class Program {
  output = '';
  readonly child: ChildProcess;
  readonly #exit: Promise<unknown[]>;

  constructor(test: TestContext, file: string, words: string[], folder: string, environment: NodeJS.ProcessEnv = {}) {
    this.child = spawn(file, words, {
      cwd: folder,
      env: { ...process.env, ...environment },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    for (const stream of [this.child.stdout, this.child.stderr]) {
      stream?.setEncoding('utf8').on('data', (text) => {
        this.output += text;
      });
    }
    this.#exit = once(this.child, 'close');
    cleanUp(test, async () => {
      if (this.child.exitCode === null && this.child.signalCode === null) {
        this.child.kill('SIGCONT');
        this.child.kill('SIGKILL');
        await this.#exit;
      }
    });
  }

  /** The exit code, or the name of the signal that ended it. */
  async ended(): Promise<number | string> {
    const [code, signal] = await this.#exit;
    return (code ?? signal) as number | string;
  }
}

/** A server of PostgreSQL for one file of tests; database() gives the URL of a new database. */
export class PostgresServer {
  readonly #child = spawn('python3', [join(SOURCE, 'tests', 'end_to_end', 'serve_postgres.py')], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  readonly #lines = createInterface(this.#child.stdout)[Symbol.asyncIterator]();

  async database(): Promise<string> {
    this.#child.stdin.write('database\n');
    const { value, done } = await this.#lines.next();
    if (done) {
      throw new Error('the server of PostgreSQL did not start');
    }
    return value as string;
  }

  async stop(): Promise<void> {
    this.#child.stdin.end();
    await once(this.#child, 'close');
  }
}
