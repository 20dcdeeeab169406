/** A function or its process may do what it should not: nothing is lost, nothing runs twice, and the worker goes on. */

import assert from 'node:assert/strict';
import { cpSync, existsSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { after, type TestContext, test } from 'node:test';
import { ExecutionFailed, Store, WorkflowNotFound } from 'weir';
import { cleanUp, makeFolder, PostgresServer, Program, waitForFile, waitUntil } from './support';

const PACKAGE = dirname(require.resolve('weir/package.json'));
const WEIR = join(PACKAGE, 'bin', 'weir.js');
const STORES = ['sqlite', 'postgres'] as const;
let server: PostgresServer | undefined;

after(() => server?.stop());

interface Scene {
  folder: string;
  store: Store;
  run: (...words: string[]) => Program;
  enqueue: (workflow: string, params?: object) => Promise<string>;
}

async function setUp(test: TestContext, kind: (typeof STORES)[number], environment = {}): Promise<Scene> {
  const folder = makeFolder(test);
  cpSync(join(__dirname, 'apps'), folder, { recursive: true });
  symlinkSync(dirname(PACKAGE), join(folder, 'node_modules'));
  server ??= kind === 'postgres' ? new PostgresServer() : undefined;
  const url = kind === 'postgres' ? await (server as PostgresServer).database() : `sqlite:${folder}/weir.db`;
  const store = new Store(url);
  await store.migrate();
  await store.setWorkspace('acme', { plan: 'enterprise' });
  cleanUp(test, () => store.close());
  const run = (...words: string[]) => {
    const words_ = [WEIR, 'worker', './faulty.js', '--store', url, '--lease', '60s', ...words];
    return new Program(test, process.execPath, words_, folder, environment);
  };
  const enqueue = async (workflow: string, params: object = {}) => {
    let id = '';
    await waitUntil(async () => {
      try {
        id = await store.enqueue({ workspace: 'acme', workflow, params: params as Record<string, unknown> });
      } catch (problem) {
        assert.ok(problem instanceof WorkflowNotFound, String(problem)); // the worker has not started yet
      }
      return id !== '';
    });
    return id;
  };
  return { folder, store, run, enqueue };
}

async function codeOf(store: Store, id: string): Promise<string> {
  try {
    return `result ${JSON.stringify(await store.result(id, { timeout: 180 }))}`;
  } catch (problem) {
    assert.ok(problem instanceof ExecutionFailed, String(problem));
    return String(problem.code);
  }
}

test('whatever is thrown is an answer', async (t) => {
  const { store, run, enqueue } = await setUp(t, 'sqlite');
  const worker = run();
  const wanted = {
    empty: 'exception',
    number: '42',
    getter: 'error',
    stack: 'error',
    text: 'exception',
    proxy: 'exception',
    symbol: 'exception',
    nothing: 'exception',
    nul: 'error',
    fail: '5',
    retry: 'co de',
  };
  const found: Record<string, string> = {};
  const ids = await Promise.all(
    Object.keys(wanted).map(async (what) => [what, await enqueue('throws', { what })] as const),
  );
  for (const [what, id] of ids) {
    found[what] = await codeOf(store, id);
  }
  assert.deepEqual(found, wanted, worker.output);
  assert.doesNotMatch(worker.output, /nothing awaited it/);
});

test('a result that cannot be recorded fails in words', async (t) => {
  const { store, run, enqueue } = await setUp(t, 'sqlite');
  const worker = run();
  const wanted = {
    circle: 'result_not_json',
    deep: 'result_not_json',
    hostile: 'result_not_json',
    bigint: 'result_not_json',
    map: 'result_not_json',
    large: 'handler_bad_output',
    surrogate: 'handler_bad_output',
    thenable: 'error',
  };
  const found: Record<string, string> = {};
  for (const what of Object.keys(wanted)) {
    found[what] = await codeOf(store, await enqueue('gives', { what }));
  }
  assert.deepEqual(found, wanted, worker.output);
});

for (const kind of STORES) {
  test(`a function that ends its process runs again in another one, on ${kind}`, async (t) => {
    const heap = process.env.WEIR_HEAP_MIB ?? '48'; // 1024 for a full campaign
    const { folder, store, run, enqueue } = await setUp(t, kind, { NODE_OPTIONS: `--max-old-space-size=${heap}` });
    const worker = run('--processes', '2');
    for (const how of ['exit', 'abort', 'memory']) {
      assert.equal(await codeOf(store, await enqueue('ends', { how })), 'result "lived"', `${how}: ${worker.output}`);
      assert.ok(existsSync(join(folder, `ended-${how}`)));
    }
    // Another process may have taken the work while the one that dies still writes its last lines.
    await waitUntil(() => (worker.output.match(/of the worker ended with/g)?.length ?? 0) >= 3, 'the three ends');
    worker.child.kill('SIGTERM');
    assert.equal(await worker.ended(), 0, worker.output);
  });

  test(`SIGTERM awaits twenty running functions, on ${kind}`, async (t) => {
    const { folder, store, run, enqueue } = await setUp(t, kind);
    const worker = run();
    const ids: string[] = [];
    await store.setWorkspace('acme', { maxConcurrent: 20 });
    for (let number = 0; number < 20; number++) {
      ids.push(await enqueue('waits', { number }));
    }
    for (let number = 0; number < 20; number++) {
      await waitForFile(join(folder, `began-${number}`));
    }
    worker.child.kill('SIGTERM');
    writeFileSync(join(folder, 'go'), '');
    assert.equal(await worker.ended(), 0, worker.output);
    for (const id of ids) {
      assert.equal(await store.result(id, { timeout: 0 }), 1);
    }
  });
}

test('a process whose event loop never comes back is killed by its supervisor', async (t) => {
  const { folder, store, run, enqueue } = await setUp(t, 'sqlite');
  const worker = run('--processes', '2', '--grace', '100ms');
  const id = await enqueue('endless');
  await waitForFile(join(folder, 'endless-1'));
  worker.child.kill('SIGTERM');
  assert.equal(await worker.ended(), 1, worker.output);
  assert.match(worker.output, /does not end: it is killed/);
  writeFileSync(join(folder, 'go'), '');
  run();
  assert.ok(Number(await store.result(id, { timeout: 180 })) > 1);
});

test('a store that is away at a start is no mistake of the program', async (t) => {
  const { run } = await setUp(t, 'sqlite');
  const away = run('--store', 'postgres://nobody@127.0.0.1:1/none');
  assert.equal(await away.ended(), 1, away.output);
  assert.match(away.output, /refused/);
});
