// Children and parents, business keys and labels: on the page of an execution, and as conditions of the list.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { after, before, test } from 'node:test';
import { closeBrowser, closePage, openBrowser, openPage, Scene, show } from './scene.js';

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const scene = new Scene();
let parent;
let children;
before(async () => {
  await Promise.all([openBrowser(), scene.start()]);
  scene.fill();
  scene.write(
    'family.yaml',
    // biome-ignore lint/suspicious/noTemplateCurlyInString: an expression of weir
    'name: family\nsteps:\n  each:\n    start: {workflow: hold, for_each: "${.input.files}"}\n',
  );
  scene.weir('workflow', 'apply', 'family.yaml', '-q');
  parent = scene.enqueue(
    'initech',
    'family',
    '-p',
    '{"files": [1, 2, 3]}',
    '--business-key',
    'order 42',
    '--label',
    'tier=gold',
  );
  const listed = () => scene.json('list', '--where', `parent=${parent}`).items;
  scene.until(() => listed().length === 3);
  children = listed().map((row) => row.id);
});
after(async () => {
  await closeBrowser();
  await scene.end();
});

test('a parent shows its children with their states, and each leads there and back', async () => {
  const page = await openPage(`${scene.address}#/execution/${parent}`);
  const panel = page.locator('section.panel', { hasText: 'each: 3 children' });
  await panel.locator('tbody tr').nth(2).waitFor();
  for (const id of children) await panel.locator(`tbody tr:has(a.id[title="${id}"]) .state`).waitFor();
  await panel.locator(`a.id[title="${children[1]}"]`).click();
  await page.locator('h1 code', { hasText: children[1] }).waitFor();
  await page.locator('dd', { hasText: 'step each, child' }).locator(`a.id[title="${parent}"]`).click();
  await page.locator('h1 code', { hasText: parent }).waitFor();
  await panel.getByRole('link', { name: 'Show all' }).click();
  await page.getByText('3 executions', { exact: true }).waitFor();
  assert.equal(await page.getByLabel('Filter').inputValue(), `parent=${parent}`);
  await closePage(page);
});

test('an execution without children has no such part', async () => {
  const page = await openPage(`${scene.address}#/execution/${children[0]}`);
  await page.locator('h2', { hasText: 'Steps' }).waitFor();
  assert.equal(await page.locator('h2', { hasText: 'Children' }).count(), 0);
  await closePage(page);
});

test('a child that ends changes the page of its parent', async () => {
  const page = await openPage(`${scene.address}#/execution/${parent}`);
  const row = page.locator(`tbody tr:has(a.id[title="${children[2]}"])`);
  await row.locator('.state', { hasText: 'running' }).waitFor();
  scene.weir('cancel', children[2], '-q');
  await row.locator('.state', { hasText: 'cancelled' }).waitFor();
  await page.getByText('1 failed, cancelled or lost').waitFor();
  await closePage(page);
});

test('the actions of a workflow with states have the logs of their states', async () => {
  scene.write(
    'paper.json',
    JSON.stringify({ name: 'paper', states: { read: { type: 'manual' }, end: { type: 'end' } }, initial: 'read' }),
  );
  scene.weir('workflow', 'apply', 'paper.json', '-q');
  const id = scene.enqueue('initech', 'paper');
  scene.until(() => scene.json('show', id).waiting_for === 'manual');
  scene.weir('update', id, '--state', 'read', '--reason', 'again', '-q');
  // Handlers are functions of a program: two actions of them are put into the answer of the node, and the logs of a run that
  // was interrupted and of one that goes on.
  const run = { next_state: 'read', fence: 1, node: 'one', actor: null, variables: {}, error_code: null, error: null };
  const at = '2026-11-27T10:00:00Z';
  const actions = [7, 8].map((seq) => ({ ...run, seq, state: 'charge', outcome: 'next', started_at: at, finished_at: at }));
  const logs = [7, 8, 9, 10].map((attempt) => ({ step: 'charge', attempt, last_position: 1 }));
  const page = await openPage(`${scene.address}#/execution/${id}`, {
    prepare: async (opened) => {
      await opened.route(`**/v1/executions/${id}`, async (route) => {
        const answer = await route.fetch();
        const execution = await answer.json();
        await route.fulfill({
          response: answer,
          json: { ...execution, status: 'DISPATCHED', state: 'charge', actions: [...actions, ...execution.actions] },
        });
      });
      await opened.route(`**/v1/executions/${id}/logs`, (route) => route.fulfill({ json: { items: logs } }));
      const pieces = [{ at, stream: 'stdout', text: 'card charged' }];
      await opened.route('**/logs/charge/9', (route) =>
        route.fulfill({ json: { items: [{ position: 1, pieces }], next_cursor: null } }),
      );
    },
  });
  const rows = page.locator('section.panel', { has: page.getByRole('heading', { name: 'Actions' }) }).locator('tbody tr');
  await rows.filter({ hasText: 'update' }).waitFor();
  await rows.filter({ hasText: 'no answer' }).waitFor();
  assert.deepEqual([await rows.count(), await rows.getByRole('button', { name: 'Log' }).count()], [5, 4]);
  await rows.filter({ hasText: 'running' }).waitFor();
  await rows.filter({ hasText: 'no answer' }).getByRole('button', { name: 'Log' }).click();
  await page.getByRole('log').getByText('card charged').waitFor();
  assert.equal(await page.locator('h2', { hasText: 'Steps' }).count(), 0);
  await closePage(page);
});

test('the business key and the labels lead to the executions that have them', async () => {
  const page = await openPage(scene.address);
  for (const [name, filter] of [
    ['order 42', 'workspace=initech business_key="order 42"'],
    ['gold', 'workspace=initech label.tier=gold'],
  ]) {
    await show(page, `#/execution/${parent}`, 'Execution');
    await page.locator('.facts-list a', { hasText: name }).click();
    await page.getByText('1 execution', { exact: true }).waitFor();
    assert.equal(await page.getByLabel('Filter').inputValue(), filter);
    await page.locator(`tbody a.id[title="${parent}"]`).waitFor();
  }
  await closePage(page);
});

test('the filter suggests labels, business keys and parents of the rows', async () => {
  const page = await openPage(`${scene.address}#/executions?where=workflow%3Dfamily`);
  await page.locator(`tbody a.id[title="${parent}"]`).waitFor();
  for (const [typed, wanted] of [
    ['lab', 'label.'],
    ['label.t', 'label.tier='],
    ['label.tier=', 'label.tier=gold'],
    ['business_key=', 'business_key="order 42"'],
    ['parent=', `parent=${parent}`],
  ]) {
    await page.getByLabel('Filter').fill(`workspace=initech ${typed}`);
    await page.waitForFunction(
      (text) => [...document.querySelectorAll('#filter-words option')].some((option) => option.value === text),
      `workspace=initech ${wanted}`,
    );
  }
  await closePage(page);
});

test('a quoted label is no other condition', async () => {
  const page = await openPage(scene.address);
  const quoted = 'label.note="a status=FAILED"';
  await show(page, `#/executions?where=${encodeURIComponent(`${quoted} status=PENDING`)}`, 'Executions');
  assert.equal(await page.locator('.tabs a[aria-current]').textContent(), 'pending');
  await page.locator('.tabs a', { hasText: 'All' }).click();
  await page.waitForFunction((text) => document.querySelector('main input[list]').value === text, quoted);
  await closePage(page);
});

test('hostile keys and labels stay texts', async () => {
  const page = await openPage(scene.address);
  for (const text of ['<img src=x onerror=alert(1)>', `"><script>alert(2)</script>`, `both "kinds" of 'quotes'`]) {
    const id = scene.enqueue('globex', 'quick', '--business-key', text, '--label', `note=${text}`);
    await show(page, `#/execution/${id}`, 'Execution');
    const values = page.locator('.facts-list code.wrap');
    await values.nth(1).waitFor();
    assert.deepEqual(await values.allTextContents(), [text, text]);
    assert.equal(await page.locator('#app :is(img, iframe, script, b)').count(), 0, text);
    const link = page.locator('.facts-list a:has(code.wrap)');
    if (text.startsWith('both')) {
      assert.equal(await link.count(), 0);
      continue;
    }
    await link.first().click();
    await page.locator(`tbody a.id[title="${id}"]`).waitFor();
    await page.getByText('1 execution', { exact: true }).waitFor();
  }
  await closePage(page);
});

for (const theme of ['light', 'dark']) {
  for (const width of [360, 1440]) {
    test(`axe finds no violation, ${theme}, ${width} pixels`, async () => {
      const page = await openPage(scene.address, { theme, width });
      await page.evaluate(axe);
      for (const id of [parent, children[0]]) {
        await show(page, `#/execution/${id}`, 'Execution');
        const found = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ['violations'] }));
        assert.deepEqual(
          found.violations.flatMap((rule) => rule.nodes.map((node) => `${rule.id}: ${node.target} ${node.failureSummary}`)),
          [],
        );
        const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
        assert.ok(wide <= 0, `${wide} pixels too wide`);
      }
      await closePage(page);
    });
  }
}

test('a token of one workspace sees the children there', async () => {
  const text = scene.weir('token', 'create', 'only', '--role', 'read', '--workspace', 'initech', '-q');
  const page = await openPage(scene.address, { allowed: [/401/] });
  await page.getByLabel('Token').fill(text);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.locator('h1', { hasText: 'Overview' }).waitFor();
  await show(page, `#/execution/${parent}`, 'Execution');
  await page.locator('section.panel', { hasText: 'each: 3 children' }).locator('tbody tr').nth(2).waitFor();
  await page.getByRole('link', { name: 'Show all' }).click();
  await page.getByText('3 executions', { exact: true }).waitFor();
  await closePage(page);
});
