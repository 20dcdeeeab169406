/**
 * The first steps of the package's README, and the five commands of docs/typescript.md, as a reader takes them: an empty
 * folder, the built package (WEIR_PACKAGE), and a registry for Express alone.
 */

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { test } from 'node:test';
import { makeFolder, Program, SOURCE, waitUntil } from './support';

const { version: expressVersion } = JSON.parse(
  readFileSync(join(require.resolve('express'), '..', 'package.json'), 'utf8'),
) as { version: string };

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as { port: number };
  server.close();
  await once(server, 'close');
  return port;
}

const QUIET = '--no-audit --no-fund --loglevel=error';

test('the first steps of the README', async (t) => {
  const text = readFileSync(join(SOURCE, 'clients', 'typescript', 'README.md'), 'utf8');
  const steps = /```sh\n([\s\S]*?)```/.exec(text)?.[1]?.trim().split('\n') ?? [];
  const [install, work, make, enqueue, list] = steps.map((line) => line.replace(/ +#.*/, ''));
  assert.ok(install && work && make && enqueue && list);
  assert.equal(install, 'npm install weir');
  const folder = makeFolder(t);
  writeFileSync(join(folder, 'tasks.js'), /```js\n([\s\S]*?)```/.exec(text)?.[1] ?? '');
  writeFileSync(join(folder, 'package.json'), '{"private": true}');
  const environment = { ...process.env, WEIR_STORE: '' };
  const run = (line: string) => execFileSync('sh', ['-ec', line], { cwd: folder, env: environment, encoding: 'utf8' });
  run(`npm install --offline ${QUIET} ${process.env.WEIR_PACKAGE}`);
  const words = ['-c', `exec ${work.replace(/ &$/, '').replace('npx ', 'node_modules/.bin/')}`];
  const worker = new Program(t, 'sh', words, folder);
  await waitUntil(
    () => existsSync(join(folder, 'weir.db')) && run('npx weir worker list || true').includes('send-invoice'),
  );
  run(make);
  const id = run(enqueue).trim();
  run(`npx weir wait ${id} --timeout 60s`);
  assert.ok(run(list).includes(id.slice(0, 8)));
  assert.match(run(`npx weir show ${id} --json`), /"sent": ?42/);
  worker.child.kill('SIGTERM');
  assert.equal(await worker.ended(), 0);
});

test('five commands lead to a route of Express whose function runs', async (t) => {
  const packed = process.env.WEIR_PACKAGE;
  assert.ok(packed, 'WEIR_PACKAGE names the built package');
  const text =
    readFileSync(join(SOURCE, 'docs', 'typescript.md'), 'utf8').split('## How do I use it with Express?')[1] ?? '';
  const [install, make, worker, app, ask] = /```sh\n([\s\S]*?)```/.exec(text)?.[1]?.trim().split('\n') ?? [];
  assert.ok(install && make && worker && app && ask);
  const folder = makeFolder(t);
  const port = await freePort();
  for (const [, name, content] of text.matchAll(/```js (\S+)\n([\s\S]*?)```/g)) {
    writeFileSync(join(folder, name as string), (content as string).replace('3000', String(port)));
  }
  const environment = { ...process.env, WEIR_STORE: '' };
  const run = (line: string) => execFileSync('sh', ['-ec', line], { cwd: folder, env: environment, encoding: 'utf8' });

  assert.ok(install.endsWith('npm install weir express'));
  run(
    install.replace(
      'npm install weir express',
      `npm install --offline ${QUIET} ${packed} && npm install --prefer-offline ${QUIET} express@${expressVersion}`,
    ),
  );
  run(make);
  const programs = [worker, app].map(
    (line) => new Program(t, 'sh', ['-c', `exec ${line.replace(/ &$/, '').replace('npx ', 'node_modules/.bin/')}`], folder),
  );
  const { execution } = JSON.parse(run(ask.replace('3000', String(port)))) as { execution: string };
  run(`npx weir wait ${execution} --timeout 60s`);
  assert.ok(run('npx weir list').includes(execution.slice(0, 8)));
  assert.match(run(`npx weir show ${execution} --json`), /"sent": ?42/);
  for (const program of programs) {
    program.child.kill('SIGTERM');
  }
  assert.equal(await programs[0]?.ended(), 0);
});
