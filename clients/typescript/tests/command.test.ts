/** The command `weir`: workers as processes, and the program that comes with the package. */

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { cpSync, existsSync, readFileSync, renameSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { CommitUnknown, DefinitionError, Store, StoreUnavailable } from 'weir';
import { cleanUp, freeze, makeFolder, Program, waitForFile, waitUntil } from './support';

const PACKAGE = dirname(require.resolve('weir/package.json'));
const WEIR = join(PACKAGE, 'bin', 'weir.js');

async function setUp(test: TestContext): Promise<{ folder: string; store: Store; run: (...words: string[]) => Program }> {
  const folder = makeFolder(test);
  cpSync(join(__dirname, 'apps'), folder, { recursive: true });
  symlinkSync(dirname(PACKAGE), join(folder, 'node_modules'));
  const store = new Store(`sqlite:${folder}/weir.db`);
  await store.migrate();
  await store.setWorkspace('acme', { plan: 'enterprise' });
  cleanUp(test, () => store.close());
  const run = (...words: string[]) => new Program(test, process.execPath, [WEIR, 'worker', ...words], folder);
  return { folder, store, run };
}

async function enqueue(store: Store, name: string): Promise<string> {
  await store.publish(JSON.stringify({ name, steps: { run: { handler: name } } }));
  return store.enqueue({ workspace: 'acme', workflow: name });
}

test('the program of the package runs', () => {
  assert.match(execFileSync(process.execPath, [WEIR, 'version'], { encoding: 'utf8' }), /^weir 0\.1\.0/);
});

test('a worker runs an execution and stops gracefully', async (t) => {
  const { folder, store, run } = await setUp(t);
  const worker = run('./tasks.js');
  const id = await enqueue(store, 'waits');
  await waitForFile(join(folder, 'began-1'));
  worker.child.kill('SIGTERM');
  writeFileSync(join(folder, 'go'), '');
  assert.equal(await worker.ended(), 0, worker.output);
  assert.equal(await store.result(id, { timeout: 0 }), 'went');
});

test('after its grace a stopped worker gives back, and ends with 1', async (t) => {
  const { folder, store, run } = await setUp(t);
  const worker = run('./tasks', '--grace', '50ms', '--concurrency', '2');
  const id = await enqueue(store, 'waits');
  await waitForFile(join(folder, 'began-1'));
  worker.child.kill('SIGINT');
  assert.equal(await worker.ended(), 1, worker.output);
  assert.equal((await store.show(id)).node, null);
});

test('processes share the work, and one that dies is started again', async (t) => {
  const { store, run } = await setUp(t);
  const worker = run('tasks.mjs', '--processes', '2');
  assert.equal(typeof (await store.result(await enqueue(store, 'pid'), { timeout: 60 })), 'number');
  assert.equal(await store.result(await enqueue(store, 'dies'), { timeout: 60 }), 'lived');
  await waitUntil(() => worker.output.split('the worker runs').length > 3); // the third is the one that was started again
  worker.child.kill('SIGTERM');
  assert.equal(await worker.ended(), 0, worker.output);
});

test('a process ends with its supervisor', async (t) => {
  const { store, run } = await setUp(t);
  const worker = run('tasks.js', '--processes', '2');
  const child = Number(await store.result(await enqueue(store, 'pid'), { timeout: 60 }));
  worker.child.kill('SIGKILL');
  await worker.ended(); // the pipe ends with the last process that has it
  await waitUntil(() => !existsSync(`/proc/${child}/stat`) || / Z /.test(readFileSync(`/proc/${child}/stat`, 'utf8')));
});

for (const [words, text] of [
  [['nothing_here'], /there is no module 'nothing_here'/],
  [['./empty.js'], /there is no workflow/],
  [['./tasks.js', '--concurrency', 'many'], /--concurrency many is no number/],
  [['./tasks.js', '--grace', 'soon'], /"soon" is no duration/],
  [['./tasks.js', '--thread', '1'], /Unknown option '--thread'[\s\S]*usage: weir worker/],
  [['./tasks.js', '--store', 'mysql://x'], /mysql/],
  [['./twice.js'], /two workflows are named 'same': .*twice\.js:2 and .*twice\.js:3/],
  [['./broken.js'], /broken\.js:2/],
  [['./tasks.js', '--processes', '2', '--name', 'one'], /--name is the name of one node/],
  [[], /no module is named/],
] as const) {
  test(`a mistake is named: ${words.join(' ')}`, async (t) => {
    const { run } = await setUp(t);
    const worker = run(...words);
    assert.equal(await worker.ended(), 2, worker.output);
    assert.match(worker.output, text);
  });
}

test('a module in TypeScript runs where Node can, else the remedy is named', async (t) => {
  const { folder, run } = await setUp(t);
  const text =
    "const { workflow } = require('weir');\nworkflow({ name: 'typed' }, async (_params: object) => undefined);\n";
  writeFileSync(join(folder, 'typed.ts'), text);
  const absent = run('./typed.js');
  assert.equal(await absent.ended(), 2, absent.output);
  assert.match(absent.output, /there is no module '.\/typed.js' \(compile \/.*\/typed\.ts with tsc\)/);
  const worker = run('./typed.ts');
  if (!(process.features as { typescript?: unknown }).typescript) {
    assert.equal(await worker.ended(), 2, worker.output);
    assert.match(worker.output, /typed\.ts: Node \d+\.\d+\.\d+ runs no TypeScript \(compile it with tsc/);
    return;
  }
  await waitUntil(() => worker.output.includes('the worker runs typed'), worker.output);
  worker.child.kill('SIGTERM');
  assert.equal(await worker.ended(), 0, worker.output);
});

test('an event of the store is logged with what it is about and its error', () => {
  const { lineOfEvent } = require(join(PACKAGE, 'dist', 'command.js'));
  const none = { executionId: null, workspace: null, workflow: null, code: null, error: null, startNumber: 0 };
  const failed = { ...none, level: 'error', name: 'store.failed', message: 'Store call failed' };
  assert.equal(lineOfEvent(failed), 'store.failed: Store call failed');
  assert.equal(lineOfEvent({ ...failed, error: 'no space' }), 'store.failed: Store call failed: no space');
  const about = { executionId: '0198', workspace: 'acme', workflow: 'pay', code: 'timeout', error: 'too late' };
  assert.equal(
    lineOfEvent({ ...failed, ...about }),
    'store.failed: Store call failed (pay, acme, 0198): timeout: too late',
  );
});

test('a line that comes again and again is logged once in five seconds, with its number', () => {
  const { Repeats } = require(join(PACKAGE, 'dist', 'command.js'));
  const repeats = new Repeats();
  assert.equal(repeats.pass('away', 0), 'away');
  assert.equal(repeats.pass('away', 100), undefined);
  assert.equal(repeats.pass('away', 4999), undefined);
  assert.equal(repeats.pass('away', 5000), 'away (and 2 more since the last line)');
  assert.equal(repeats.pass('other', 5001), 'other');
  assert.equal(repeats.pass('away', 5002), 'away');
});

test('a worker logs why a server cannot be reached', async (t) => {
  const { run } = await setUp(t);
  const worker = run('./tasks.js', '--store', 'http://127.0.0.1:1');
  assert.equal(await worker.ended(), 1, worker.output);
  assert.match(worker.output, /ERROR store\.failed: Store call failed.*127\.0\.0\.1/);
});

test('a store that went away at the start is no mistake', () => {
  const { exitCodeOf } = require(join(PACKAGE, 'dist', 'command.js'));
  assert.equal(exitCodeOf(new StoreUnavailable('the server is away', { kind: 'transient' })), 1);
  assert.equal(exitCodeOf(new CommitUnknown('no answer to the commit', { kind: 'unknown' })), 1);
  assert.equal(exitCodeOf(new DefinitionError('tasks.js:1: no name')), 2);
  assert.equal(exitCodeOf(new TypeError('a mistake of the module')), 2);
});

test('with --watch a changed module is loaded again', async (t) => {
  const { folder, store, run } = await setUp(t);
  run('./tasks.js', '--watch');
  const first = Number(await store.result(await enqueue(store, 'pid'), { timeout: 60 }));
  const module = join(folder, 'tasks.js');
  const changed = join(folder, 'changed');
  writeFileSync(changed, readFileSync(module, 'utf8').replace('process.pid', '-process.pid'));
  utimesSync(changed, new Date(), new Date(Date.now() + 5000));
  renameSync(changed, module); // at once: nobody loads a half of it
  await waitUntil(async () => Number(await store.result(await enqueue(store, 'pid'), { timeout: 60 })) < 0, 'the reload');
  assert.ok(first > 0);
});

test('a rejection that nothing awaits is logged, and the worker goes on', async (t) => {
  const { store, run } = await setUp(t);
  const worker = run('./tasks.js');
  assert.equal(await store.result(await enqueue(store, 'stray-rejection'), { timeout: 60 }), 'done');
  await waitUntil(() => /nothing awaited it: Error: stray/.test(worker.output));
  assert.equal(typeof (await store.result(await enqueue(store, 'pid'), { timeout: 60 })), 'number');
});

test('an exception outside of all functions stops the worker gracefully with 1', async (t) => {
  const { store, run } = await setUp(t);
  const worker = run('./tasks.js');
  const id = await enqueue(store, 'stray-exception');
  assert.equal(await worker.ended(), 1, worker.output);
  assert.match(worker.output, /outside of all functions ends the worker: Error: stray/);
  assert.equal(await store.result(id, { timeout: 0 }), 'finished');
});

test('an event loop that is blocked beyond the lease keeps its executions', async (t) => {
  const { store, run } = await setUp(t);
  run('./tasks.js', '--lease', '1s');
  assert.equal(await store.result(await enqueue(store, 'blocks'), { timeout: 120 }), 1);
});

test('the result of a worker that was stopped beyond its lease is refused', async (t) => {
  const { folder, store, run } = await setUp(t);
  const frozen = run('./tasks.js', '--lease', '1s', '--name', 'frozen');
  const id = await enqueue(store, 'claims');
  await waitForFile(join(folder, 'began-1'));
  await waitUntil(async () => (await store.show(id)).status === 'DISPATCHED');
  await freeze(frozen.child);
  const heir = run('./tasks.js', '--lease', '1s', '--name', 'heir');
  await waitUntil(async () => (await store.show(id)).node === 'heir', 'the handover');
  writeFileSync(join(folder, 'go'), '');
  assert.equal((await store.result(id, { timeout: 60 })) as string, `by ${heir.child.pid}`);
  frozen.child.kill('SIGCONT');
  heir.child.kill('SIGTERM');
  assert.equal(await heir.ended(), 0, heir.output);
  assert.equal(await store.result(await enqueue(store, 'pid'), { timeout: 60 }), frozen.child.pid); // it has a lease again
  assert.equal((await store.result(id, { timeout: 60 })) as string, `by ${heir.child.pid}`);
  frozen.child.kill('SIGTERM');
  await frozen.ended();
});

test('a worker that is killed leaves its execution to another', async (t) => {
  const { folder, store, run } = await setUp(t);
  const killed = run('./tasks.js');
  const id = await enqueue(store, 'claims');
  await waitForFile(join(folder, 'began-1'));
  killed.child.kill('SIGKILL');
  await killed.ended();
  writeFileSync(join(folder, 'go'), '');
  const heir = run('./tasks.js');
  assert.equal((await store.result(id, { timeout: 60 })) as string, `by ${heir.child.pid}`);
});

test('a thread of worker_threads may have a worker; its end gives back running executions', async (t) => {
  const { folder, store } = await setUp(t);
  const id = await enqueue(store, 'never');
  const program = new Program(t, process.execPath, ['threads.js'], folder);
  assert.equal(await program.ended(), 0, program.output);
  assert.match(program.output, /the thread has ended/);
  assert.equal((await store.show(id)).node, null);
});
