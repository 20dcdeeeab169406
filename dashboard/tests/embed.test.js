// The box of a workspace on pages of other sites: one that may frame it and one that may not.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import http from 'node:http';
import { createRequire } from 'node:module';
import { after, before, test } from 'node:test';
import { closeBrowser, closePage, openBrowser, openPage, Scene } from './scene.js';

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const scene = new Scene();
const servers = [];
let framed = '';
const token = (name, ...words) => scene.weir('token', 'create', name, '-q', ...words);
const ofAcme = ['--role', 'read', '-w', 'acme'];
let allowed;
let other;
let ids;
let secret;

/** The page of a customer, by another server: another port is another origin. */
async function serveSite() {
  const server = http.createServer((_, answer) => {
    const page = `<!doctype html><html lang="en"><title>Customer</title><link rel="icon" href="data:,">
      <main><h1>Your work</h1><iframe title="Your work" width="320" height="600" style="border: 0" src="${framed}"></iframe></main>`;
    answer.setHeader('Content-Type', 'text/html; charset=utf-8').end(page);
  });
  servers.push(server);
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  return `http://127.0.0.1:${server.address().port}`;
}

before(async () => {
  [allowed, other] = await Promise.all([serveSite(), serveSite(), openBrowser()]);
  scene.settings['http.embed_origins'] = `https://app.example.com, ${allowed}`;
  await scene.start();
  ids = scene.fill();
  secret = token('customer', ...ofAcme, '--expires-at', '1h');
});
after(async () => {
  for (const server of servers) server.close();
  await closeBrowser();
  await scene.end();
});

const boxOf = (fragment, workspace = 'acme') => `${scene.address}embed/workspaces/${workspace}#${fragment}`;
async function frameBy(site, address, options = {}) {
  framed = address;
  const page = await openPage(`${site}/`, { origins: [scene.address, 'data:'], ...options });
  return [page, page.frameLocator('iframe')];
}
const frameOf = (page) => page.frames().find((frame) => frame.url().startsWith(scene.address));

test('a site that the setting names shows slots, what runs and what waits, with the reasons', async () => {
  for (const theme of ['light', 'dark']) {
    const [page, box] = await frameBy(allowed, boxOf(`token=${secret}`), { theme, width: 700 });
    await box.getByRole('heading', { name: 'acme' }).waitFor();
    await box.getByText('1/1').waitFor();
    const waiting = box.locator('section', { hasText: 'Waits, newest first' }).locator('li');
    await waiting.getByText('Its workspace uses all its slots').waitFor();
    assert.equal(await box.locator('section', { hasText: 'Runs now' }).locator('li').count(), 1);
    await waiting.locator('summary').focus();
    await page.keyboard.press('Enter');
    await box.getByText(scene.json('why', ids.waiting).because).waitFor();
    const frame = frameOf(page);
    await frame.evaluate(axe);
    const found = await frame.evaluate(() => globalThis.axe.run(document, { resultTypes: ['violations'] }));
    assert.deepEqual(
      found.violations.map((rule) => `${rule.id} ${rule.nodes[0].failureSummary}`),
      [],
      theme,
    );
    const wide = await frame.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    assert.ok(wide <= 0, `the box is ${wide} pixels too wide`);
    const ground = await frame.evaluate(() => getComputedStyle(document.body).backgroundColor);
    assert.equal(ground, theme === 'dark' ? 'rgb(13, 20, 19)' : 'rgb(244, 246, 244)');
    assert.deepEqual(await page.context().cookies(), []);
    assert.ok(!page.requests.some((request) => request.includes(secret)), 'the token is in no address that is asked for');
    await closePage(page);
  }
});

test('the box follows the queue while it is shown, and asks nothing while it is hidden', async () => {
  const [page, box] = await frameBy(allowed, boxOf(`token=${secret}`), { prepare: (made) => made.clock.install() });
  await box.getByText('1/1').waitFor();
  const hide = (isHidden) =>
    frameOf(page).evaluate((value) => {
      Object.defineProperty(document, 'hidden', { value, configurable: true });
      document.dispatchEvent(new Event('visibilitychange'));
    }, isHidden);
  await hide(true);
  const id = scene.enqueue('acme', 'quick');
  const before = page.requests.length;
  await page.clock.runFor(600_000);
  assert.equal(page.requests.length, before);
  await hide(false);
  await box.locator(`code[title="${id}"]`).waitFor({ state: 'attached' });
  await closePage(page);
});

test('a site that the setting does not name gets no box', async () => {
  const refusal = new Promise((resolve) => {
    void frameBy(other, boxOf(`token=${secret}`), {
      allowed: [/frame-ancestors/],
      prepare: async (page) => page.on('console', (message) => resolve([page, message.text()])),
    });
  });
  const [page, text] = await refusal;
  assert.match(text, /frame-ancestors/);
  assert.equal(await page.frameLocator('iframe').getByText('acme').count(), 0);
  await closePage(page);
});

test('a token of another workspace, of more rights, without an end, and one that has ended are refused', async () => {
  const wrong = [
    [token('globex', '--role', 'read', '-w', 'globex', '--expires-at', '1h'), 'is of another workspace'],
    [token('operator', '--role', 'operate', '-w', 'acme', '--expires-at', '1h'), 'has more rights'],
    [token('everything', '--role', 'read', '--all-workspaces', '--expires-at', '1h'), 'has more rights'],
    [token('endless', ...ofAcme), 'has more rights'],
    ['weir_wrong', 'it has expired, or it was revoked'],
    ['', 'This box has no token'],
  ];
  const [page, box] = await frameBy(allowed, boxOf(''), { allowed: [/401/] });
  const give = (text) =>
    page.evaluate(
      (to) => {
        document.querySelector('iframe').src = to;
      },
      boxOf(`token=${text}`),
    );
  for (const [text, said] of wrong) {
    await give('');
    await box.getByRole('alert').getByText('This box has no token').waitFor();
    await give(text);
    await box.getByRole('alert').getByText(said).waitFor();
    assert.equal(await box.locator('section').count(), 0);
  }
  await give(token('short', ...ofAcme, '--expires-at', '3s')); // the page gives another token without a reload
  await box.getByText('1/1').waitFor();
  await box.getByRole('alert').getByText('it has expired, or it was revoked').waitFor();
  assert.equal(await box.locator('section').count(), 0);
  await give(secret);
  await box.getByText('1/1').waitFor();
  await closePage(page);
});

test('a search that has not ended is no empty list', async () => {
  const [page, box] = await frameBy(allowed, boxOf(`token=${secret}`), {
    prepare: (page) =>
      page.route('**/v1/executions?*', (route) =>
        route.fulfill({ json: { items: [], next_cursor: 'x', count: 0, count_is_exact: false } }),
      ),
  });
  await box.getByText('None among the newest executions').first().waitFor();
  assert.equal(await box.getByText('Nothing waits.').count(), 0);
  await closePage(page);
});
