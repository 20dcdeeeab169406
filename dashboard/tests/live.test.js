import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { closeBrowser, closePage, openBrowser, openPage, Scene, show } from './scene.js';

const scene = new Scene();
let ids;
before(async () => {
  await Promise.all([openBrowser(), scene.start()]);
  ids = scene.fill();
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
  await page.clock.runFor(5_000);
  await asked;
  await page.clock.runFor(2_000);
  const answered = page.waitForResponse(list);
  await held.continue();
  await answered;
  await page.unroute(list);
  await page.evaluate(() => new Promise((resolve) => queueMicrotask(resolve)));
  const before = await countRequests(page, list);
  await page.clock.runFor(20_000); // it took two seconds or more, and rests twenty times as long, at most half a minute
  assert.equal(await countRequests(page, list), before);
  const again = page.waitForRequest(list);
  await page.clock.runFor(400_000);
  await again;
  await closePage(page);
});

test('a node that hangs does not answer: the page gives up, and shows the age of what it has', async () => {
  const page = await openClocked();
  const held = [];
  await page.route(/\/v1\//, (route) => {
    held.push(route);
  });
  const asked = page.waitForRequest(/v1\/executions\?/);
  await page.clock.runFor(6_000);
  await asked;
  await page.clock.runFor(11_000);
  await page.getByRole('alert').getByText('The node does not answer.', { exact: true }).waitFor();
  assert.match(await page.locator('header .age').textContent(), /state of 1\d s ago/);
  await page.locator('tbody tr').first().waitFor();
  await page.unroute(/\/v1\//);
  await page.getByRole('button', { name: 'Try again' }).click();
  await page.locator('.offline').waitFor({ state: 'hidden' });
  await page.waitForFunction(() => document.querySelector('header .age') === null);
  await closePage(page);
});

test('an answer that is none of weir, and one of a node that cannot, keep what is there, with its age', async () => {
  const page = await openClocked();
  page.allowed.push(/503/);
  const list = /v1\/executions\?/;
  await page.route(list, (route) => route.fulfill({ contentType: 'text/html', body: '<html>Sign in to the proxy</html>' }));
  await page.clock.runFor(6_000);
  await page.getByRole('alert').getByText('This page does not understand the answer').waitFor();
  await page.getByRole('alert').getByText('A proxy may have answered').waitFor();
  await page.locator('tbody tr').first().waitFor();
  const problem = { code: 'store_unreachable', detail: 'the store does not answer', status: 503 };
  await page.unroute(list);
  await page.route(list, (route) =>
    route.fulfill({ status: 503, contentType: 'application/problem+json', body: JSON.stringify(problem) }),
  );
  await page.clock.runFor(6_000);
  await page.getByRole('alert').getByText('The node cannot do this now').waitFor();
  await page.locator('tbody tr').first().waitFor();
  await page.locator('header .age').getByText('state of').waitFor();
  await closePage(page);
});

test('ages are those of the server, also where the clock of the browser is slow', async () => {
  const slow = (page) => page.clock.install({ time: Date.now() - 600_000 });
  const page = await openPage(`${scene.address}#/executions`, { prepare: slow });
  await page
    .locator('tbody time', { hasText: /^(now|\d+ s ago|[1-5] min( \d+ s)? ago)$/ })
    .first()
    .waitFor();
  await page
    .locator('tbody td.number', { hasText: / s$| min/ })
    .first()
    .waitFor();
  assert.equal(await page.locator('tbody time', { hasText: /^in / }).count(), 0);
  await closePage(page);
});

test('an execution that has ended is not read again', async () => {
  const page = await openClocked();
  await show(page, `#/execution/${ids.failed}`, 'Execution');
  await page.getByRole('button', { name: 'Log' }).click();
  await page.getByRole('log').getByText('no answer').waitFor();
  const of = new RegExp(`/v1/executions/${ids.failed}`);
  const before = await countRequests(page, of);
  await page.clock.runFor(60_000);
  assert.equal(await countRequests(page, of), before);
  assert.equal(await page.locator('header .age').count(), 0);
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
  await page.getByRole('alert').getByText('The node does not answer.', { exact: true }).waitFor();
  await page.locator('.offline').getByText('The page shows the state of').waitFor();
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
