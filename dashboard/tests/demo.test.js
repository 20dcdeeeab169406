// The box of `weir demo`: a press of its button kills a node, and the page shows the takeover.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { after, before, test } from 'node:test';
import { closeBrowser, closePage, openBrowser, openPage, Scene, show } from './scene.js';

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const demo = new Scene();
const node = new Scene();
before(async () => {
  await Promise.all([openBrowser(), demo.startDemo(), node.start()]);
});
after(async () => {
  await closeBrowser();
  await Promise.all([demo.end(), node.end()]);
});

const button = (page) => page.getByRole('button', { name: 'Kill a node' });
const box = (page, name) => page.locator('.demo-nodes li', { has: page.getByText(name, { exact: true }) });

test('a press kills a node: it is shown dead, its executions are taken over and completed, and a new node comes', async () => {
  const page = await openPage(demo.address);
  await button(page).waitFor();
  await page.getByText('never pass their limit').waitFor();
  // An open page brings work; the two nodes that can be killed get what the first one has no room for.
  await box(page, 'demo-1').getByText('13 of 13 executions').waitFor();
  await button(page).click();
  const line = page.getByText(/^demo-[23] \(process \d+\) was killed while it held [1-9]/);
  const [, name, held] = /^(demo-\d).* held (\d+)/.exec(await line.textContent());
  await box(page, name).locator('.state', { hasText: 'dead' }).waitFor();
  await page
    .getByRole('status')
    .filter({ hasText: `${held} of ${held} taken over` })
    .waitFor();
  const ways = await page.locator('.demo-handover li').allTextContents();
  assert.equal(ways.length, Number(held));
  for (const way of ways) assert.match(way, new RegExp(`${name} → demo-\\d`));
  await page.evaluate(axe);
  const found = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ['violations'] }));
  assert.deepEqual(found.violations, []);
  await page
    .getByRole('status')
    .filter({ hasText: `${held} completed` })
    .waitFor();
  await box(page, 'demo-4').locator('.state', { hasText: 'alive' }).waitFor();
  for (const slots of await page.locator('tbody .slots .number').allTextContents()) {
    const [used, most] = slots.split('/').map(Number);
    assert.ok(used <= most, slots);
  }
  await closePage(page);
});

test('a refusal of the kill is shown, and the box fits a narrow screen', async () => {
  const page = await openPage(demo.address, { width: 360, allowed: [/409/] });
  await button(page).waitFor();
  await page.route('**/v1/demo/kill', (route) =>
    route.fulfill({
      status: 409,
      contentType: 'application/problem+json',
      body: JSON.stringify({ code: 'conflict', detail: 'no node of the demo can be killed now' }),
    }),
  );
  await button(page).click();
  await page.getByRole('alert').filter({ hasText: 'no node of the demo can be killed now' }).waitFor();
  const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  assert.ok(wide <= 0, `${wide} pixels too wide`);
  await closePage(page);
});

test('a node of weir serve has no such box', async () => {
  const page = await openPage(node.address);
  await show(page, '#/', 'Overview');
  await page.getByRole('button', { name: 'Pause the queue' }).waitFor();
  assert.equal(await button(page).count(), 0);
  assert.equal(await page.locator('.demo-nodes').count(), 0);
  await closePage(page);
});
