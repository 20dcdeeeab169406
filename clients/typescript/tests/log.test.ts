/** ctx.log() and ctx.secrets, as `weir logs` and the worker's own log show them. */

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, unlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { after, before, type TestContext, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { inspect } from 'node:util';
import {
  type AnyWorkflow,
  type Context,
  configure,
  DefinitionError,
  ExecutionFailed,
  Misuse,
  Registry,
  Retry,
  type Store,
  workflow,
} from 'weir';
import { runInline } from 'weir/testing';
import { cleanUp, makeFolder, makeStore, makeWorker, PostgresServer, silent, waitUntil } from './support';

const WEIR = join(dirname(require.resolve('weir/package.json')), 'bin', 'weir.js');
const register = new Registry();
const kept: Context[] = [];
let server: PostgresServer;

before(() => {
  server = new PostgresServer();
});
after(() => server.stop());

async function makePostgres(test: TestContext): Promise<Store> {
  const store = configure(await server.database());
  await store.migrate();
  await store.setWorkspace('acme', { plan: 'enterprise' });
  cleanUp(test, () => store.close());
  return store;
}

const logs = workflow({ name: 'logs', register }, async (_params, ctx) => {
  kept.push(ctx);
  ctx.log('sending %d', 42, { to: 'acme' });
  await sleep(1);
  ctx.log('two\nlines');
  ctx.log();
  ctx.log('a NUL \0 and a lone \ud800');
  ctx.log({
    [inspect.custom]() {
      throw new Error('no text');
    },
  });
});
const stumbles = workflow({ name: 'stumbles', register, retry: { attempts: 2, backoff: '1ms' } }, async (_params, ctx) => {
  ctx.log(`run ${ctx.attempt}`);
  if (ctx.attempt === 1) throw new Retry('later', { after: '1ms' });
  throw new RangeError('no such order');
});
const sideBySide = workflow({ name: 'side-by-side', register }, async (params: { name: string }, ctx) => {
  for (let number = 0; number < 20; number++) {
    ctx.log(params.name, number);
    await sleep(0);
  }
});
const pays = workflow(
  { name: 'pays', register, retry: { attempts: 1 }, secrets: ['stripe-key', 'mail.password'] },
  async (params: { fails: boolean }, ctx) => {
    ctx.log(`key ${ctx.secrets['stripe-key']}`, ctx.secrets, JSON.stringify(ctx.secrets));
    if (params.fails) throw new TypeError(`bad key ${ctx.secrets['stripe-key']}`);
    return { key: ctx.secrets['stripe-key'], password: ctx.secrets['mail.password']?.length };
  },
);

const prints = workflow({ name: 'prints', register, secrets: ['stripe-key'] }, async (_params, ctx) => {
  console.log('to stdout', { order: 42 });
  console.error('to stderr');
  console.info('info');
  await sleep(1);
  console.warn('warned');
  ctx.log('logged');
  process.stdout.write('begun');
  process.stderr.write('between\n');
  process.stdout.write(', ended\nno line end');
  process.stdout.write(Buffer.from('é').subarray(0, 1));
  process.stdout.write(Buffer.from('é').subarray(1));
  await Promise.all([Promise.resolve().then(() => console.debug('in a promise'))]);
  await new Promise<void>((resolve) => setTimeout(() => resolve(console.log('in a timer')), 1));
  console.error(`key ${ctx.secrets['stripe-key']}`);
  process.stdout.write('7a0a', 'hex');
});
const printsSideBySide = workflow({ name: 'prints-side-by-side', register }, async (params: { name: string }) => {
  for (let number = 0; number < 20; number++) {
    process.stdout.write(`${params.name} `);
    await sleep(0);
    console.log(number);
    console.warn(params.name);
  }
});
const late = workflow({ name: 'late', register }, async () => {
  lingering = gate.then(() => console.log('after the end'));
  console.log('in time');
});
let gate: Promise<void>;
let lingering: Promise<void>;
const listens = workflow({ name: 'listens', register }, async (_params, ctx) => {
  const ended = new Promise<void>((resolve) => {
    ctx.signal.addEventListener('abort', () => resolve(console.log('told to end')));
  });
  console.log('began');
  listening.push(ctx.executionId);
  await ended;
});
const listening: string[] = [];

/** Runs the calls to their end in a worker, whose stop writes the last lines; returns their ids. */
async function run(test: TestContext, store: Store, ...calls: [AnyWorkflow, object?][]): Promise<string[]> {
  const worker = await makeWorker(test, { workflows: new Set(calls.map(([workflow]) => workflow)), store });
  const ids: string[] = [];
  for (const [workflow, params] of calls) {
    ids.push(await workflow.enqueue({ workspace: 'acme', params, store }));
  }
  for (const id of ids) {
    await store.wait(id, { timeout: 60 });
  }
  await worker.stop();
  return ids;
}

/** By the program of the package. It is another process, so that the locks of SQLite hold. */
function lines(store: Store, id: string | undefined, ...options: string[]): string[] {
  const words = [WEIR, 'logs', id ?? '', '--raw', '--store', store.url, ...options];
  return execFileSync(process.execPath, words, { encoding: 'utf8' }).split('\n').slice(0, -1);
}

/** Each line behind the name of its stream. */
function streams(store: Store, id: string | undefined): string[] {
  const words = [WEIR, 'logs', id ?? '', '--store', store.url];
  const shown = execFileSync(process.execPath, words, { encoding: 'utf8' }).split('\n');
  return shown.flatMap((line) => /^\S+ +(stdout|stderr|log) +(.*)$/.exec(line)?.slice(1).join(' ') ?? []);
}

for (const [name, make] of [
  ['SQLite', makeStore],
  ['PostgreSQL', makePostgres],
] as const) {
  test(`${name}: lines of ctx.log() are in the log of the attempt`, async (t) => {
    const store = await make(t);
    const [id] = await run(t, store, [logs]);
    const expected = ["sending 42 { to: 'acme' }", 'two', 'lines', '', 'a NUL   and a lone \ufffd'];
    assert.deepEqual(lines(store, id), [...expected, 'a value that has no text']);
    kept.pop()?.log('after the end'); // does nothing
    assert.equal(lines(store, id).length, 6);
  });

  test(`${name}: lines of the console have their stream`, async (t) => {
    const store = await make(t);
    process.env.WEIR_SECRET_STRIPE_KEY = 'hunter22';
    cleanUp(t, () => delete process.env.WEIR_SECRET_STRIPE_KEY);
    const writes = [process.stdout.write, process.stderr.write];
    const [id] = await run(t, store, [prints]);
    assert.deepEqual([process.stdout.write, process.stderr.write], writes);
    assert.deepEqual(streams(store, id), [
      'stdout to stdout { order: 42 }',
      'stderr to stderr',
      'stdout info',
      'stderr warned',
      'log logged',
      'stderr between',
      'stdout begun, ended',
      'stdout no line endéin a promise',
      'stdout in a timer',
      'stderr key ***',
      'stdout z',
    ]);
  });

  test(`${name}: functions side by side do not mix what they print`, async (t) => {
    const store = await make(t);
    const ids = await run(t, store, [printsSideBySide, { name: 'a' }], [printsSideBySide, { name: 'b' }]);
    for (const [at, id] of ids.entries()) {
      const own = 'ab'[at];
      const expected = [...Array(20).keys()].flatMap((number) => [`stdout ${own} ${number}`, `stderr ${own}`]);
      assert.deepEqual(streams(store, id), expected);
    }
  });

  test(`${name}: what a listener of the signal prints is in the log, and nothing after the end`, async (t) => {
    const store = await make(t);
    let open: () => void = () => undefined;
    gate = new Promise((resolve) => {
      open = resolve;
    });
    const worker = await makeWorker(t, { workflows: [late, listens], store });
    const first = await late.enqueue({ workspace: 'acme', store });
    await store.wait(first, { timeout: 60 });
    const second = await listens.enqueue({ workspace: 'acme', store });
    await waitUntil(() => listening.includes(second), 'the beginning');
    await store.cancel(second);
    await store.wait(second, { timeout: 60 });
    open();
    await lingering;
    await worker.stop();
    assert.deepEqual(streams(store, first), ['stdout in time']);
    assert.deepEqual(streams(store, second), ['stdout began', 'stdout told to end']);
  });

  test(`${name}: each attempt has its own log, with the stack of its error`, async (t) => {
    const store = await make(t);
    const [id] = await run(t, store, [stumbles]);
    assert.deepEqual(lines(store, id, '--attempt', '1'), ['run 1']);
    const [first, second, third] = lines(store, id, '--attempt', '2');
    assert.deepEqual([first, second], ['run 2', 'RangeError: no such order']);
    assert.match(third ?? '', /^ +at .*log\.test\.js/);
  });

  test(`${name}: functions side by side do not mix their lines`, async (t) => {
    const store = await make(t);
    const [one, other] = await run(t, store, [sideBySide, { name: 'a' }], [sideBySide, { name: 'b' }]);
    const numbers = [...Array(20).keys()];
    assert.deepEqual(
      lines(store, one),
      numbers.map((number) => `a ${number}`),
    );
    assert.deepEqual(
      lines(store, other),
      numbers.map((number) => `b ${number}`),
    );
  });

  test(`${name}: a function has its secrets and no other place has them`, async (t) => {
    const store = await make(t);
    const secretsDirectory = makeFolder(t);
    writeFileSync(join(secretsDirectory, 'mail.password'), 'correct horse\n');
    process.env.WEIR_SECRET_STRIPE_KEY = 'hunter22"x"';
    cleanUp(t, () => delete process.env.WEIR_SECRET_STRIPE_KEY);
    const errors: string[] = [];
    const logger = { ...silent, error: (message: string) => errors.push(message) };
    const worker = await makeWorker(t, { workflows: [pays], store, name: 'node-7', secretsDirectory, logger });
    const done: string = await pays.enqueue({ workspace: 'acme', params: { fails: false } });
    assert.deepEqual(await store.result(done, { timeout: 60 }), { key: '***', password: 13 });
    const failed: string = await pays.enqueue({ workspace: 'acme', params: { fails: true } });
    await assert.rejects(store.result(failed, { timeout: 60 }), ExecutionFailed);
    assert.equal((await store.show(failed)).error, 'TypeError: bad key ***');
    assert.match(errors[0] ?? '', /bad key \*\*\*/);
    assert.doesNotMatch(errors.join(), /hunter22/);
    unlinkSync(join(secretsDirectory, 'mail.password'));
    const waits: string = await pays.enqueue({ workspace: 'acme', params: { fails: false } });
    await waitUntil(async () => (await store.show(waits)).error_code === 'secret_missing', 'secret_missing');
    assert.match(String((await store.show(waits)).error), /node node-7, step run: the secret "mail.password" is missing/);
    await worker.stop();
    const found = lines(store, failed);
    assert.equal(found[0], 'key *** <secrets stripe-key, mail.password> {}');
    assert.equal(found[1], 'TypeError: bad key ***');
  });
}

test('the folder of secrets is that of WEIR_SECRETS_DIRECTORY without the option', async (t) => {
  const store = await makeStore(t);
  const folder = join(makeFolder(t), 'secrets');
  mkdirSync(folder);
  for (const name of ['mail.password', 'stripe-key']) writeFileSync(join(folder, name), `${name} of the folder`);
  process.env.WEIR_SECRETS_DIRECTORY = folder;
  cleanUp(t, () => delete process.env.WEIR_SECRETS_DIRECTORY);
  await makeWorker(t, { workflows: [pays], store });
  const id = await pays.enqueue({ workspace: 'acme', params: { fails: false } });
  assert.deepEqual(await store.result(id, { timeout: 60 }), { key: '***', password: 27 });
});

test('names of secrets are checked, and a name that is not listed throws', async () => {
  for (const secrets of ['key', ['a b'], ['../a'], [1]]) {
    const options = { name: 'wrong', register: new Registry(), secrets: secrets as string[] };
    assert.throws(() => workflow(options, () => undefined), DefinitionError);
  }
  const misspells = workflow({ name: 'misspells', register, secrets: ['then'] }, (_params, ctx) => ctx.secrets.than);
  await assert.rejects(
    runInline(() => misspells.enqueue({ workspace: 'acme' })),
    (problem: unknown) => problem instanceof Misuse && /no secret 'than'/.test(problem.message),
  );
});

test('runInline() collects the lines and reads secrets from the environment', async (t) => {
  process.env.WEIR_SECRET_STRIPE_KEY = 'of the test';
  cleanUp(t, () => delete process.env.WEIR_SECRET_STRIPE_KEY);
  const [made] = await runInline(() => logs.enqueue({ workspace: 'acme' }));
  assert.deepEqual(made?.log.slice(0, 4), ["sending 42 { to: 'acme' }", 'two', 'lines', '']);
  const reads = workflow({ name: 'reads', register, secrets: ['stripe-key'] }, (_params, ctx) => ctx.secrets['stripe-key']);
  const [read] = await runInline(() => reads.enqueue({ workspace: 'acme' }));
  assert.equal(read?.result, 'of the test');
});

test('a line that is too long is left out as a whole', () => {
  // A module of the package that it does not export.
  const { AttemptLog, LINE_CHARACTERS_MAX, NOTE, STREAM_STDERR, STREAM_STDOUT } = require(
    join(dirname(WEIR), '../dist/attempt_log.js'),
  );
  const taken: string[] = [];
  class Taken extends AttemptLog {
    pass(text: string, stream: number) {
      taken.push(`${stream} ${text}`);
    }
  }
  const log = new Taken();
  for (const text of ['x'.repeat(LINE_CHARACTERS_MAX), 'x', 'x\nnext ', 'one\n', 'y'.repeat(LINE_CHARACTERS_MAX + 1)]) {
    log.write(STREAM_STDOUT, text, 'utf8');
  }
  log.write(STREAM_STDERR, 'its own\n', undefined);
  log.write(STREAM_STDERR, 5, undefined); // the original write() throws
  log.close();
  log.write(STREAM_STDOUT, 'late\n', undefined);
  assert.deepEqual(taken, [`1 ${NOTE}`, '1 next one\n', '2 its own\n', `1 ${NOTE}`]);
});
