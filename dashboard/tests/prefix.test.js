// Behind nginx, under a prefix that the node does not know: the pages, and those for a browser that has JavaScript switched off.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import net from 'node:net';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { closeBrowser, closePage, openBrowser, openPage, perform, Scene, show } from './scene.js';

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const styles = readFileSync(new URL('../dist/app.css', import.meta.url), 'utf8').replace(/url\([^)]*\)/g, 'url(data:,)');
const scene = new Scene();
let nginx;
let address;
let secret;
let ids;

async function freePort() {
  const server = net.createServer();
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address();
  await new Promise((resolve) => server.close(resolve));
  return port;
}

before(async () => {
  await openBrowser();
  scene.settings['http.behind_proxy'] = true;
  await scene.start();
  ids = scene.fill();
  secret = scene.weir('token', 'create', 'ada', '--role', 'admin', '--all-workspaces', '-q');
  const port = await freePort();
  const file = (name) => path.join(scene.folder, name);
  const folders = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map((name) => `${name}_temp_path ${file(name)};`);
  scene.write(
    'nginx.conf',
    `daemon off; master_process off; pid ${file('nginx.pid')}; error_log ${file('nginx.log')}; events {}
     http { access_log off; ${folders.join(' ')} server { listen 127.0.0.1:${port};
       location /tools/weir/ { proxy_pass ${scene.address}; proxy_http_version 1.1;
         proxy_set_header Connection ""; proxy_set_header Host $http_host; proxy_buffering off; } } }`,
  );
  nginx = spawn('/usr/sbin/nginx', ['-p', scene.folder, '-e', file('nginx.log'), '-c', file('nginx.conf')], {
    stdio: 'ignore',
  });
  address = `http://127.0.0.1:${port}/tools/weir/`;
  for (const end = Date.now() + 30_000; ; ) {
    const answer = await fetch(`${address}livez`).catch(() => null);
    if (answer?.ok) break;
    assert.ok(Date.now() < end && nginx.exitCode === null, 'nginx does not answer');
  }
});
after(async () => {
  const ended = new Promise((resolve) => nginx.once('close', resolve));
  nginx.kill('SIGTERM');
  await ended;
  await closeBrowser();
  await scene.end();
});

/** axe needs scripts: it looks at the same markup in a page that has them, in both themes. */
async function check(page, other, name) {
  await other.setContent(await page.content());
  await other.addStyleTag({ content: styles });
  await other.evaluate(axe);
  for (const colorScheme of ['light', 'dark']) {
    await other.emulateMedia({ colorScheme });
    const found = await other.evaluate(() => globalThis.axe.run(document, { resultTypes: ['violations'] }));
    assert.deepEqual(
      found.violations.map((rule) => `${rule.id} ${rule.nodes[0].html} ${rule.nodes[0].failureSummary}`),
      [],
      `${name} ${colorScheme}`,
    );
  }
  const wide = await other.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  assert.ok(wide <= 0, `${name} is ${wide} pixels too wide`);
}

test('without JavaScript a person signs in, and reads the overview, the executions and one of them', async () => {
  const page = await openPage(address, { width: 360, allowed: [/401/], context: { javaScriptEnabled: false } });
  const other = await openPage('about:blank', { width: 360, origins: ['data:', address], allowed: [/./] });
  const seen = async (heading) => {
    await page.locator('h1', { hasText: heading }).waitFor();
    await check(page, other, heading);
  };
  await page.getByRole('link', { name: 'plain pages' }).click();
  await seen('Sign in');
  await page.getByLabel('Token').fill('weir_wrong');
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByRole('alert').waitFor();
  await page.getByLabel('Token').fill(secret);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await seen('Overview');
  // Beside the key of the form, which stays.
  const session = async () =>
    (await page.context().cookies(`${address}plain/overview`)).filter(({ name }) => name !== 'weir_plain_key');
  const [cookie] = await session();
  assert.deepEqual([cookie.path, cookie.httpOnly, cookie.sameSite], ['/tools/weir/plain', true, 'Strict']);
  await page.getByRole('link', { name: 'acme' }).click();
  await seen('Executions');
  await page.getByLabel('Status').selectOption('PENDING');
  await page.getByRole('button', { name: 'Show' }).click();
  assert.equal(await page.locator('tbody tr').count(), 1);
  await page.getByRole('link', { name: ids.waiting }).click();
  await seen('Execution');
  await page.getByText(scene.json('why', ids.waiting).because).waitFor();
  await page.getByRole('button', { name: 'Sign out' }).click();
  await page.locator('h1', { hasText: 'Sign in' }).waitFor();
  assert.deepEqual(await session(), []);
  assert.ok(
    page.requests.every((request) => request.includes(' /tools/weir/')),
    page.requests.join('\n'),
  );
  await closePage(page);
  await closePage(other);
});

test('the page works under a prefix: sign-in, views, acts, changes, the cookie', async () => {
  const page = await openPage(address, { allowed: [/401/] });
  await page.getByLabel('Token').fill(secret);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.locator('main tbody tr', { hasText: 'acme' }).waitFor();
  const [cookie] = await page.context().cookies(`${address}v1/session`);
  assert.deepEqual([cookie.path, cookie.secure], ['/tools/weir/v1', false]);
  await page.reload();
  await page.locator('main tbody tr', { hasText: 'acme' }).waitFor();
  assert.ok(
    page.requests.every((request) => request.includes(' /tools/weir/')),
    page.requests.join('\n'),
  );
  await show(page, `#/execution/${ids.waiting}`, 'Execution');
  await perform(page, page.locator('main').getByRole('button', { name: 'Cancel', exact: true }), 'behind a proxy');
  await page.locator('section.why', { hasText: 'It was cancelled' }).waitFor();
  await show(page, '#/executions?where=workspace%3Dglobex', 'Executions');
  await page.getByText('1 execution', { exact: true }).waitFor();
  scene.enqueue('globex', 'quick');
  await page.getByText('2 executions', { exact: true }).waitFor(); // by the stream
  await show(page, '#/settings', 'Settings');
  for (const name of ['The HTTP API', 'Licenses of others']) {
    const target = await page.getByRole('link', { name }).evaluate((link) => link.href);
    const answer = await fetch(target);
    assert.equal(answer.status, 200, target);
  }
  await closePage(page);
});
