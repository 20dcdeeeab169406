/** A server before the store: the same workflow() by `https://` in place of the store's own URL. */

import assert from 'node:assert/strict';
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, cpSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { afterEach, type TestContext, test } from 'node:test';
import { Fail, KeyReused, Misuse, Retry, Store, StoreUnavailable, WeirError, Worker, workflow } from 'weir';
import { cleanUp, makeFolder, makeWorker, Program, SOURCE, silent, waitForFile, waitUntil } from './support';

const PACKAGE = dirname(require.resolve('weir/package.json'));
const WEIR = join(PACKAGE, 'bin', 'weir.js');
const VARIABLES = ['WEIR_TOKEN', 'WEIR_TOKEN_FILE', 'WEIR_CA_FILE', 'WEIR_STORE'];

interface Case {
  name: string;
  workflow?: object;
  cancel?: boolean;
  stop?: boolean;
  progress?: { fraction: number | null; text: string | null };
  acts: object[];
  expect: Record<string, unknown>;
}
const { cases } = JSON.parse(readFileSync(join(SOURCE, 'tests', 'workers', 'cases.json'), 'utf8')) as { cases: Case[] };

afterEach(() => {
  for (const name of VARIABLES) {
    delete process.env[name];
  }
});

function environment(more: NodeJS.ProcessEnv = {}): NodeJS.ProcessEnv {
  return { ...Object.fromEntries(Object.entries(process.env).filter(([name]) => !VARIABLES.includes(name))), ...more };
}

/** A node with a listener, and its store, in a folder. start() again has the same address. */
class Server {
  readonly folder: string;
  #port = 0;
  #process: ChildProcess | undefined;

  constructor(
    test: TestContext,
    readonly scheme = 'http',
    settings = '',
    taskLease = '30s', // no loaded machine ends it
  ) {
    this.folder = makeFolder(test);
    writeFileSync(join(this.folder, 'weir.yaml'), `http.task_lease: ${taskLease}\nnode.lease: 30s\n${settings}`);
    this.run('store', 'init', '-q');
    this.run('workspace', 'set', 'acme', '--plan', 'enterprise', '-q');
    cleanUp(test, () => this.kill());
  }

  get url(): string {
    return `${this.scheme}://127.0.0.1:${this.#port}`;
  }

  run(...words: string[]): string {
    const options = { cwd: this.folder, env: environment(), encoding: 'utf8' as const };
    return execFileSync(process.execPath, [WEIR, ...words], options);
  }

  token(name: string, role: string): string {
    return this.run('token', 'create', name, '--role', role, '--all-workspaces', '-q').trim();
  }

  async start(): Promise<this> {
    const address = `${this.scheme === 'https' ? 'https://' : ''}127.0.0.1:${this.#port}`;
    const binary = join(PACKAGE, 'native', `${process.platform}-${process.arch}`, 'bin', 'weir');
    this.#process = spawn(binary, ['serve', '--listen', address], {
      cwd: this.folder,
      env: environment(),
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    const lines = createInterface(this.#process.stderr as NodeJS.ReadableStream);
    for await (const line of lines) {
      const found = /http at \S*127\.0\.0\.1:(\d+)/.exec(line);
      if (found !== null) {
        this.#port = Number(found[1]);
        break;
      }
    }
    this.#process.stderr?.resume();
    assert.ok(this.#port > 0, 'the server does not listen');
    return this;
  }

  async kill(): Promise<void> {
    const killed = this.#process;
    this.#process = undefined;
    if (killed !== undefined && killed.exitCode === null) {
      killed.kill('SIGKILL');
      await once(killed, 'exit');
    }
  }
}

async function serve(test: TestContext, scheme?: string, settings?: string, taskLease?: string): Promise<Server> {
  return new Server(test, scheme, settings, taskLease).start();
}

function openStore(test: TestContext, server: Server): Store {
  const store = new Store(server.url);
  cleanUp(test, () => store.close());
  return store;
}

/** A worker process with the workflows of a file in tests/apps. */
function runWorker(test: TestContext, server: Server, folder: string, more: NodeJS.ProcessEnv = {}): Program {
  return new Program(test, process.execPath, [WEIR, 'worker', './tasks.js', '--store', server.url], folder, more);
}

function makeAppFolder(test: TestContext): string {
  const folder = makeFolder(test);
  cpSync(join(__dirname, 'apps'), folder, { recursive: true });
  symlinkSync(dirname(PACKAGE), join(folder, 'node_modules'));
  return folder;
}

async function enqueueWaits(store: Store, name = 'waits'): Promise<string> {
  let id = '';
  await waitUntil(async () => {
    id = await store.enqueue({ workspace: 'acme', workflow: name }).catch(() => ''); // not published yet
    return id !== '';
  });
  return id;
}

// --- the cases of all clients ---

let begun: () => void = () => undefined;

interface Value {
  code: string;
  error: string;
  after_us?: number;
  fraction: number | null;
  text: string | null;
  repeat?: number;
}

const scripted = workflow({ name: 'scripted' }, async (params: { acts: Record<string, unknown>[] }, ctx) => {
  const act = params.acts[Math.min(ctx.attempt, params.acts.length) - 1] as Record<string, unknown>;
  const [[name, value]] = Object.entries(act) as [[string, Value]];
  begun();
  switch (name) {
    case 'complete':
      return value;
    case 'raise':
      throw new Error(String(value));
    case 'report_progress':
      ctx.progress(value.fraction, value.text?.repeat(value.repeat ?? 1));
      await once(ctx.signal, 'abort');
      return null;
    case 'await_cancel':
      await once(ctx.signal, 'abort');
      return null;
    case 'await_stop':
      await once(ctx.signal, 'abort');
      throw new Error('stopped');
    case 'fail':
      throw new Fail(value.code, value.error);
    default: {
      const after = value.after_us === undefined ? {} : { after: value.after_us / 1e6 };
      throw new Retry(value.code, { message: value.error, ...after });
    }
  }
});

test('the cases of all clients', async (t) => {
  const server = await serve(t);
  const store = openStore(t, server);
  let worker = await makeWorker(t, { store, workflows: [scripted] });
  for (const one of cases) {
    const began = new Promise<void>((resolve) => {
      begun = resolve;
    });
    const step = { handler: 'scripted', ...one.workflow };
    await store.publish(JSON.stringify({ name: 'case', steps: { only: step } }));
    const id = await store.enqueue({ workspace: 'acme', workflow: 'case', params: { acts: one.acts } });
    if (one.progress !== undefined) {
      await waitUntil(async () => {
        const [report] = (await store.show(id)).progress as Value[];
        return report?.fraction === one.progress?.fraction && report?.text === one.progress?.text;
      }, 'the progress');
    }
    if (one.cancel) {
      await began;
      await store.cancel(id);
    }
    let stopped = Number.POSITIVE_INFINITY;
    if (one.stop) {
      await began;
      stopped = Date.now();
      assert.equal(await worker.stop(0), false);
      worker = await makeWorker(t, { store, workflows: [scripted] });
    }
    const shown = await store.wait(id, { timeout: 60 });
    assert.ok(Date.now() - stopped < 20_000, one.name);
    const [only] = shown.steps as Record<string, unknown>[];
    const { status, error_code: code = null, ...rest } = one.expect;
    assert.deepEqual([shown.status, shown.error_code], [status, code], one.name);
    assert.deepEqual(Object.fromEntries(Object.keys(rest).map((key) => [key, only?.[key]])), rest, one.name);
  }
});

// --- servers and workers that end ---

test('a killed worker leaves its execution to another', async (t) => {
  const server = await serve(t, 'http', '', '15s');
  const store = openStore(t, server);
  const folder = makeAppFolder(t);
  const first = runWorker(t, server, folder);
  const id = await enqueueWaits(store, 'claims');
  const pid = Number(await waitForFile(join(folder, 'began-1')));
  process.kill(pid, 'SIGKILL');
  await first.ended();
  const second = runWorker(t, server, folder);
  await waitForFile(join(folder, 'began-2'));
  writeFileSync(join(folder, 'go'), '');
  assert.match(String(await store.result(id, { timeout: 60 })), /^by /);
  second.child.kill('SIGTERM');
  assert.equal(await second.ended(), 0, second.output);
});

test('a run outlives its server', async (t) => {
  const server = await serve(t);
  const store = openStore(t, server);
  const folder = makeAppFolder(t);
  const worker = runWorker(t, server, folder);
  const id = await enqueueWaits(store);
  await waitForFile(join(folder, 'began-1'));
  await server.kill();
  await server.start();
  writeFileSync(join(folder, 'go'), '');
  assert.equal(await store.result(id, { timeout: 60 }), 'went');
  await assert.rejects(async () => readFileSync(join(folder, 'began-2')), /ENOENT/);
  worker.child.kill('SIGTERM');
  assert.equal(await worker.ended(), 0, worker.output);
});

test('a stopped worker delivers its result', async (t) => {
  const server = await serve(t);
  const store = openStore(t, server);
  const folder = makeAppFolder(t);
  const worker = runWorker(t, server, folder);
  const id = await enqueueWaits(store, 'claims');
  await waitForFile(join(folder, 'began-1'));
  worker.child.kill('SIGTERM');
  await waitUntil(async () => {
    writeFileSync(join(folder, 'go'), '');
    return worker.child.exitCode !== null;
  });
  assert.equal(await worker.ended(), 0, worker.output);
  assert.equal((await store.show(id)).status, 'COMPLETED');
});

// --- tokens, TLS ---

function isRefused(problem: unknown): boolean {
  return problem instanceof WeirError && problem.status === 'not_permitted';
}

test('a wrong token is refused in words', async (t) => {
  const server = await serve(t);
  server.token('any', 'admin');
  process.env.WEIR_TOKEN = 'weir_wrong';
  const store = openStore(t, server);
  await assert.rejects(store.enqueue({ workspace: 'acme', workflow: 'scripted' }), (problem) => {
    assert.ok(isRefused(problem), String(problem));
    return /WEIR_TOKEN/.test((problem as WeirError).hint);
  });
  await assert.rejects(new Worker({ workflows: [scripted], store, logger: silent }).start(), isRefused);
});

test('a token that may not publish runs what the server knows', async (t) => {
  const server = await serve(t);
  process.env.WEIR_TOKEN = server.token('publisher', 'admin');
  await scripted.publish(openStore(t, server));
  process.env.WEIR_TOKEN = server.token('worker', 'operate');
  const store = openStore(t, server);
  const warnings: string[] = [];
  const logger = { ...silent, warn: (message: string) => warnings.push(message) };
  await makeWorker(t, { store, workflows: [scripted], logger });
  const id = await scripted.enqueue({ workspace: 'acme', params: { acts: [{ complete: 7 }] }, store });
  assert.equal(await store.result(id, { timeout: 60 }), 7);
  assert.match(warnings.join(), /scripted is not published by this worker/);
});

test('a revoked token ends the worker', async (t) => {
  const server = await serve(t);
  const admin = server.token('publisher', 'admin');
  const worker = runWorker(t, server, makeAppFolder(t), { WEIR_TOKEN: server.token('worker', 'admin') });
  process.env.WEIR_TOKEN = admin;
  const store = openStore(t, server);
  await store.result(await enqueueWaits(store, 'pid'), { timeout: 60 });
  server.run('token', 'revoke', 'worker', '-q');
  assert.notEqual(await worker.ended(), 0, worker.output);
  assert.match(worker.output, /token/);
});

test('a server with TLS is known by its authority', async (t) => {
  const folder = makeFolder(t);
  const key = join(folder, 'server.key');
  const certificate = join(folder, 'server.pem');
  const words = ['req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-days', '2', '-subj', '/CN=test', '-addext'];
  execFileSync('openssl', [...words, 'subjectAltName=IP:127.0.0.1', '-out', certificate, '-keyout', key], {
    stdio: 'ignore',
  });
  chmodSync(key, 0o600);
  const server = await serve(t, 'https', `http.tls:\n  certificate_file: ${certificate}\n  key_file: ${key}\n`);
  await assert.rejects(openStore(t, server).show('x'), (problem) => {
    return problem instanceof StoreUnavailable && /certificate/.test(problem.message);
  });
  process.env.WEIR_CA_FILE = certificate;
  process.env.WEIR_TOKEN = server.token('worker', 'admin');
  const store = openStore(t, server);
  await makeWorker(t, { store, workflows: [scripted] });
  const id = await scripted.enqueue({ workspace: 'acme', params: { acts: [{ complete: 7 }] }, store });
  assert.equal(await store.result(id, { timeout: 60 }), 7);
});

// --- the store ---

test('the calls of a store work through a server', async (t) => {
  const store = openStore(t, await serve(t));
  await scripted.publish(store);
  const request = { workspace: 'acme', workflow: 'scripted', params: { acts: [{ complete: 1 }] }, key: 'one' };
  const [first] = (await store.enqueueMany([request])) as [string];
  assert.equal(await store.enqueue(request), first);
  await assert.rejects(store.enqueue({ ...request, params: {} }), KeyReused);
  // A scheduler says it, which is elected first.
  await waitUntil(async () => (await store.why(first)).pending_reason === 'no_worker', 'the reason');
  await store.publish(JSON.stringify({ name: 'ask', steps: { ask: { signal: 'approved' } } }));
  const asks = await store.enqueue({ workspace: 'acme', workflow: 'ask' });
  assert.equal(await store.signal(asks, 'approved', { by: 'eve' }, { key: 'mail-7' }), 1);
  assert.equal(await store.signal(asks, 'approved', { by: 'eve' }, { key: 'mail-7' }), 1);
  await assert.rejects(store.signal(asks, 'approved', null, { key: 'mail-7' }), KeyReused);
  assert.deepEqual(((await store.show(asks)).signals as { data: unknown }[])[0]?.data, { by: 'eve' });
  await store.cancel(first, 'no need');
  assert.equal((await store.wait(first, { timeout: 60 })).status, 'CANCELLED');
  await store.pauseWorkspace('acme');
  await store.resumeWorkspace('acme');
  await store.disableWorkflow('scripted');
  await store.enableWorkflow('scripted');
  assert.match(await store.metrics(), /weir_/);
});

test('what needs the store itself says so', async (t) => {
  const store = openStore(t, await serve(t));
  await assert.rejects(store.migrate(), /does not make a store/);
  await scripted.publish(store);
  const using = async () => [];
  const params = { acts: [] };
  await assert.rejects(scripted.enqueue({ workspace: 'acme', params, using, store }), (problem) => {
    return problem instanceof Misuse && /behind a server/.test(problem.message);
  });
  const database = {} as Parameters<typeof scripted.enqueueSync>[0]['using'];
  assert.throws(() => scripted.enqueueSync({ workspace: 'acme', params, using: database, store }), /behind a server/);
});
