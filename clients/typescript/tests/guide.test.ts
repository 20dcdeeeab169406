/**
 * The examples of docs/typescript.md, as they are printed there. The compiler checks all of them. Those that need a store
 * alone run as well; quickstart.test.ts, express.test.ts and sqlite.test.ts run the others.
 */

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { Registry, type Store, workflow } from 'weir';
import { cleanUp, makeStore, makeWorker, SOURCE, waitUntil } from './support';

const GUIDE = readFileSync(join(SOURCE, 'docs', 'typescript.md'), 'utf8');

interface Example {
  heading: string;
  text: string;
}

const EXAMPLES: Example[] = GUIDE.split(/^## /m)
  .slice(1)
  .flatMap((section) => {
    const heading = section.split('\n')[0] ?? '';
    return [...section.matchAll(/```ts\n([\s\S]*?)```/g)].map(([, text]) => ({ heading, text: text ?? '' }));
  });

/** The names that an example takes from the program of its reader, and imports that an earlier example shows. */
const OWN = {
  bank: 'async function bankIsBusy(_signal: AbortSignal): Promise<boolean> {\n  return false;\n}\n',
  tasks: "import { sendInvoice } from './tasks.js';\n",
  store: "import { defaultStore } from 'weir';\n",
  id: 'declare const id: string;\n',
  orders: 'const orders = [8, 9];\n',
};

const WORKER = "import { Worker } from 'weir';\nconst worker = new Worker();\nawait worker.start();\n";
const STOP = '\nawait worker.stop();\n';

interface Frame {
  name: string;
  before: string;
  after?: string;
  /** A call of the example that needs a state of its execution, and what comes before it. */
  waits?: [string, string];
}

/** In the order of the guide. */
const FRAMES: Frame[] = [
  { name: 'tasks', before: OWN.bank },
  { name: 'first', before: OWN.tasks + WORKER, after: `${STOP}console.log(JSON.stringify(result));\n` },
  { name: 'sqlite', before: OWN.tasks },
  {
    name: 'express',
    before: `import express from 'express';\nimport pg from 'pg';\n${OWN.tasks}const pool = new pg.Pool();\n`,
  },
  {
    name: 'steps',
    before:
      "import { defaultStore, workflow } from 'weir';\nconst nothing = async () => undefined;\n" +
      ['book-hotel', 'cancel-hotel', 'tell-support']
        .map((name) => `const ${camel(name)} = workflow({ name: '${name}' }, nothing);\n`)
        .join(''),
    after: 'for await (const row of defaultStore().workflows()) console.log(row.name);\n',
  },
  {
    name: 'states',
    before: `${OWN.store}import { Worker, workflow } from 'weir';\nworkflow({ name: 'send-mail' }, async () => undefined);\n`,
    waits: [
      'await defaultStore().update(',
      'const worker = new Worker();\nawait worker.start();\n' +
        "while ((await defaultStore().count({ waitingFor: 'manual' })) === 0);\n",
    ],
    after: `console.log(JSON.stringify(await defaultStore().result(id)));${STOP}`,
  },
  { name: 'acts', before: OWN.store + OWN.id },
  {
    name: 'production',
    before: "import { Worker, workflow } from 'weir';\nworkflow({ name: 'here' }, async () => undefined);\n",
    after: "setTimeout(() => process.kill(process.pid, 'SIGTERM'), 100);\n",
  },
  { name: 'many', before: OWN.store + OWN.tasks + OWN.id + OWN.orders },
  {
    name: 'inline',
    before:
      "import assert from 'node:assert/strict';\nimport { test } from 'node:test';\n" +
      `${OWN.tasks}async function placeOrder(order: number) {\n` +
      "  await sendInvoice.enqueue({ workspace: 'acme', params: { order } });\n}\n",
  },
];

function camel(name: string): string {
  return name.replace(/-(.)/g, (_, letter: string) => letter.toUpperCase());
}

const PROJECT = join(__dirname, '..');
const OPTIONS = {
  target: 'ES2022',
  module: 'node16',
  moduleResolution: 'node16',
  lib: ['ES2023', 'ESNext.Decorators'],
  types: ['node'],
  strict: true,
  skipLibCheck: true,
  rootDir: '.',
  outDir: 'out',
};

const STEPS = {
  nap: { sleep: '1h' },
  ask: { approve: {} },
  mail: { signal: 'approved' },
  short: { sleep: '1ms' },
  wrong: { exec: ['false'] },
};

/** The id of an execution that the call can act on. */
async function prepare(store: Store, call: string): Promise<string> {
  const kinds: Record<string, keyof typeof STEPS> = { approve: 'ask', signal: 'mail', wait: 'short', dismiss: 'wrong' };
  const kind = kinds[call] ?? 'nap';
  const delay = call === 'release' ? { delay: '1h' } : {};
  const id = await store.enqueue({ workspace: 'acme', workflow: kind, ...delay });
  const wanted = { release: 'PENDING', wait: 'COMPLETED', dismiss: 'FAILED' }[call] ?? 'WAITING';
  await waitUntil(async () => (await store.show(id)).status === wanted, `${wanted} for ${call}`);
  if (call === 'retry') {
    await store.cancel(id);
  }
  for (const timeout of call === 'migrateExecution' ? ['2h', '3h'] : []) {
    await store.publish(JSON.stringify({ name: 'nap', timeout, steps: { one: STEPS.nap } }));
  }
  return id;
}

/** A folder with each example as a module, compiled. The compiler fails for an example that is wrong. */
function compile(t: TestContext): string {
  const folder = join(PROJECT, `guide-${process.pid}`);
  cleanUp(t, () => rmSync(folder, { recursive: true, force: true }));
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, 'package.json'), '{"type": "module"}');
  for (const [at, { name, before, after, waits }] of FRAMES.entries()) {
    const [call, wait] = waits ?? ['', ''];
    const text = EXAMPLES[at]?.text.replace(call, wait + call);
    writeFileSync(join(folder, `${name}.ts`), `${before}\n${text}${after ?? ''}`);
  }
  writeFileSync(join(folder, 'untyped.d.ts'), "declare module 'better-sqlite3';\n");
  writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify({ compilerOptions: OPTIONS, include: ['*.ts'] }));
  const tsc = join(dirname(require.resolve('typescript/package.json')), 'bin', 'tsc');
  try {
    execFileSync(process.execPath, [tsc, '-p', folder], { encoding: 'utf8' });
  } catch (problem) {
    assert.fail((problem as { stdout: string }).stdout);
  }
  return folder;
}

function run(folder: string, words: string[], url: string): string {
  const environment: NodeJS.ProcessEnv = { ...process.env, WEIR_STORE: url };
  delete environment.NODE_TEST_CONTEXT; // of this test: a child that has it prints no words
  return execFileSync(process.execPath, words, { cwd: folder, env: environment, encoding: 'utf8' });
}

test('every example is right for the compiler, and those that need only a store run', async (t) => {
  assert.equal(EXAMPLES.length, FRAMES.length, EXAMPLES.map((example) => example.heading).join('\n'));
  const folder = compile(t);
  const store = await makeStore(t);
  const runModule = (name: string) => run(folder, [`out/${name}.js`], store.url);
  assert.match(runModule('first'), /{"sent":42,"for":"acme"}/);
  assert.match(runModule('steps'), /trip/);
  assert.match(runModule('states'), /{"limit":5000}/);
  assert.equal(runModule('production'), '');
  assert.match(run(folder, ['--test', 'out/inline.js'], store.url), /pass 1\n/);
});

test('the acts of the guide work, each on an execution in the state that it needs', async (t) => {
  const lines = EXAMPLES.filter(({ heading }) => /find executions|enqueue many/.test(heading)).flatMap(({ text }) =>
    text.split('\n').filter((line) => /^await store\.\w+\(id/.test(line)),
  );
  assert.ok(lines.length > 10, lines.join('\n'));
  const store = await makeStore(t);
  for (const [name, step] of Object.entries(STEPS)) {
    await store.publish(JSON.stringify({ name, steps: { one: step } }));
  }
  await makeWorker(t, { workflows: [workflow({ name: 'idle', register: new Registry() }, async () => undefined)] });
  for (const line of lines) {
    const call = /store\.(\w+)/.exec(line)?.[1] ?? '';
    const id = await prepare(store, call);
    const act = new Function('store', 'id', `return (async () => { ${line.replace(/\/\/.*/, '')} })()`);
    await assert.doesNotReject(act(store, id), line);
  }
});
