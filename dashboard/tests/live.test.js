import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { closeBrowser, closePage, openBrowser, openPage, Scene, show } from './scene.js';

const scene = new Scene();
before(async () => {
  await Promise.all([openBrowser(), scene.start()]);
  scene.fill();
});
after(async () => {
  await closeBrowser();
  await scene.end();
});

/** Those of the API. A request of the test goes behind them, so none of them is still under way. */
async function countRequests(page, which = / \/v1\//) {
  await page.evaluate(() => fetch('livez'));
  return page.requests.filter((request) => which.test(request)).length;
}

/** A page whose clock stands still until the test moves it. */
async function openClocked() {
  const page = await openPage(`${scene.address}#/executions`, { prepare: (opened) => opened.clock.install() });
  await page.locator('tbody tr').first().waitFor();
  return page;
}

test('a change appears without a reload', async () => {
  const page = await openPage(`${scene.address}#/executions?where=workspace%3Dglobex`);
  await page.getByText('1 execution', { exact: true }).waitFor();
  scene.enqueue('globex', 'hold');
  await page.getByText('2 executions', { exact: true }).waitFor();
  await page.locator('tbody .state', { hasText: 'running' }).waitFor();
  await closePage(page);
});

test('a paused page asks nothing, and reads again when it goes on', async () => {
  const page = await openClocked();
  const live = page.waitForRequest(/v1\/executions/);
  await page.clock.runFor(20_000);
  await live;
  await page.getByRole('button', { name: 'Live' }).click();
  await page.getByRole('button', { name: 'Paused' }).waitFor();
  const paused = await countRequests(page);
  await page.clock.runFor(600_000);
  assert.equal(await countRequests(page), paused);
  const answer = page.waitForRequest(/v1\/executions/);
  await page.getByRole('button', { name: 'Paused' }).click();
  await answer;
  await closePage(page);
});

test('a read that takes long is repeated seldom', async () => {
  const page = await openClocked();
  const list = /v1\/executions\?/;
  let held;
  await page.route(list, (route) => {
    held = route;
  });
  const asked = page.waitForRequest(list);
  await page.clock.runFor(10_000);
  await asked;
  await page.clock.runFor(2_000);
  const answered = page.waitForResponse(list);
  await held.continue();
  await answered;
  await page.unroute(list);
  await page.evaluate(() => new Promise((resolve) => queueMicrotask(resolve)));
  const before = await countRequests(page, list);
  await page.clock.runFor(30_000); // it took two seconds or more, and rests twenty times as long
  assert.equal(await countRequests(page, list), before);
  const again = page.waitForRequest(list);
  await page.clock.runFor(400_000);
  await again;
  await closePage(page);
});

test('a hidden tab asks nothing', async () => {
  const page = await openClocked();
  const hide = (isHidden) =>
    page.evaluate((value) => {
      Object.defineProperty(document, 'hidden', { value, configurable: true });
      document.dispatchEvent(new Event('visibilitychange'));
    }, isHidden);
  await hide(true);
  const before = await countRequests(page);
  await page.clock.runFor(600_000);
  assert.equal(await countRequests(page), before);
  const answer = page.waitForRequest(/v1\/executions/);
  await hide(false);
  await answer;
  await closePage(page);
});

test('the last state stays while the node does not answer, with its age', async () => {
  const page = await openPage(scene.address, { allowed: [/ERR_/] });
  const acme = page.locator('main tbody tr', { hasText: 'acme' });
  await acme.waitFor();
  await scene.kill();
  await page.getByRole('alert').getByText('The node does not answer. The page shows the state of').waitFor();
  await acme.waitFor();
  const asked = page.waitForRequest(/v1\/status/);
  await page.getByRole('button', { name: 'Try again' }).click();
  await asked;
  await scene.start(); // the page asks again by itself
  await page.locator('.offline').waitFor({ state: 'hidden' });
  await acme.waitFor();
  await closePage(page);
});

test('a view without an earlier state says that the node does not answer', async () => {
  const page = await openPage(scene.address, { allowed: [/ERR_/] });
  await page.locator('main tbody tr', { hasText: 'acme' }).waitFor();
  await scene.kill();
  for (const [hash, heading] of [
    ['#/failures', 'Failures'],
    ['#/nodes', 'Nodes'],
    ['#/audit', 'Audit'],
  ]) {
    await show(page, hash, heading);
    await page.locator('.problem').getByText('The node does not answer').waitFor();
  }
  await scene.start();
  await page.locator('.problem').waitFor({ state: 'hidden' });
  await page.locator('tbody tr').first().waitFor();
  await closePage(page);
});
