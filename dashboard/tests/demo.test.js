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

/** The number of the nodes that hold executions; the page may be some seconds old. */
async function nodesAtWork() {
  const { items } = await (await fetch(`${demo.address}v1/nodes?limit=1000`)).json();
  return items.filter((row) => row.holds > 0).length;
}

/** Presses until the killed node had work: a wave may be over by then. */
async function killBusyNode(page) {
  for (;;) {
    while ((await nodesAtWork()) < 3);
    await button(page).click();
    const text = await page.getByText(/^demo-\d+ \(process \d+\) was killed while it held/).textContent();
    const [, name, held] = /^(demo-\d+) .* held (\d+)/.exec(text);
    if (held !== '0') return [name, held];
  }
}

test('a press kills a node: it is shown dead, its executions are taken over and completed, and a new node comes', async () => {
  const page = await openPage(demo.address, { allowed: [/409/] });
  // A read rests for half a minute after a slow answer.
  page.setDefaultTimeout(100_000);
  await button(page).waitFor();
  await page.getByText('never pass their limit').waitFor();
  const [name, held] = await killBusyNode(page);
  await box(page, name).locator('.state', { hasText: 'dead' }).waitFor();
  const status = page.getByRole('status');
  await status.filter({ hasText: `${held} of ${held} taken over` }).waitFor();
  const ways = await page.locator('.demo-handover li').allTextContents();
  assert.equal(ways.length, Number(held));
  for (const way of ways) assert.match(way, new RegExp(`${name} → demo-\\d`));
  await page.evaluate(axe);
  const found = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ['violations'] }));
  assert.deepEqual(found.violations, []);
  await status.filter({ hasText: `${held} completed` }).waitFor();
  await page.waitForFunction(() => document.querySelectorAll('.demo-nodes .state.is-good').length === 3);
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
