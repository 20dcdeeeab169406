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
