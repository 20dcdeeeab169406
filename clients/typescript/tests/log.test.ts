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

/** Runs the calls to their end in a worker, whose stop writes the last lines; returns their ids. */
async function run(test: TestContext, store: Store, ...calls: [AnyWorkflow, object?][]): Promise<string[]> {
  const worker = await makeWorker(test, { workflows: new Set(calls.map(([workflow]) => workflow)), store });
  const ids: string[] = [];
  for (const [workflow, params] of calls) {
    ids.push(await workflow.enqueue({ workspace: 'acme', params, store }));
  }
  for (const id of ids) {
    await store.wait(id, { timeout: 30 });
  }
  await worker.stop();
  return ids;
}

/** By the program of the package. It is another process, so that the locks of SQLite hold. */
function lines(store: Store, id: string | undefined, ...options: string[]): string[] {
  const words = [WEIR, 'logs', id ?? '', '--raw', '--store', store.url, ...options];
  return execFileSync(process.execPath, words, { encoding: 'utf8' }).split('\n').slice(0, -1);
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
    assert.deepEqual(await store.result(done, { timeout: 20 }), { key: '***', password: 13 });
    const failed: string = await pays.enqueue({ workspace: 'acme', params: { fails: true } });
    await assert.rejects(store.result(failed, { timeout: 20 }), ExecutionFailed);
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
  assert.deepEqual(await store.result(id, { timeout: 20 }), { key: '***', password: 27 });
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
