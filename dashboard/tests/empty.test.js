// A new store, a problem of the node in every view, and an answer that does not come.
import { after, before, test } from 'node:test';
import { closeBrowser, closePage, openBrowser, openPage, Scene, show } from './scene.js';

const scene = new Scene();
before(() => Promise.all([openBrowser(), scene.start()]));
after(async () => {
  await closeBrowser();
  await scene.end();
});

const empty = [
  ['#/', 'Overview', 'weir workspace set acme --plan free'],
  ['#/executions', 'Executions', 'weir enqueue -w acme hello'],
  ['#/failures', 'Failures', 'No failed execution is left'],
  ['#/workflows', 'Workflows', 'weir workflow apply hello.yaml'],
  ['#/workspaces', 'Workspaces', 'weir workspace set acme --plan free'],
  ['#/schedules', 'Schedules', 'weir schedule set nightly'],
  ['#/hooks', 'Hooks', 'weir hook set'],
  ['#/locks', 'Locks', 'No lock was ever taken'],
  ['#/tokens', 'Tokens', 'weir token create ci --role enqueue --workspace acme'],
];
const views = [...empty, ['#/audit', 'Audit', ''], ['#/nodes', 'Nodes', ''], ['#/plans', 'Plans', '']];

test('an empty view says what it would show, and gives the command', async () => {
  const page = await openPage(scene.address, { allowed: [/40[04]/] });
  for (const [hash, heading, text] of empty) {
    await show(page, hash, heading);
    await page.locator('.empty', { hasText: text }).waitFor();
  }
  for (const hash of ['#/workspace/nobody', '#/workflow/nothing', '#/execution/019f0000', '#/nowhere']) {
    await page.evaluate((to) => {
      location.hash = to;
    }, hash);
    await page.getByRole('alert').getByText('There is nothing here').first().waitFor();
  }
  await closePage(page);
});

test('a problem of the node is shown in every view, with its code and the id of the request', async () => {
  const page = await openPage(scene.address, { allowed: [/503/] });
  await page.locator('h1').waitFor();
  const body = { code: 'store_unreachable', detail: 'the store does not answer', status: 503, request_id: 'the-request' };
  await page.route(/\/v1\/(?!session|stream)/, (route) =>
    route.fulfill({ status: 503, contentType: 'application/problem+json', body: JSON.stringify(body) }),
  );
  for (const [hash, heading] of views) {
    await page.goto('about:blank');
    await page.goto(`${scene.address}${hash}`);
    await page.locator('h1', { hasText: heading }).waitFor();
    const alert = page.getByRole('alert').first();
    await alert.getByText('the store does not answer').waitFor();
    await page.locator('.problem').first().getByText('the-request').waitFor();
  }
  await page.unroute(/\/v1\/(?!session|stream)/);
  await page.locator('.problem').waitFor({ state: 'hidden' });
  await closePage(page);
});

test('a view says that it waits for an answer', async () => {
  const page = await openPage(scene.address);
  await page.locator('h1').waitFor();
  const held = [];
  await page.route(/\/v1\/(?!session|stream)/, (route) => {
    held.push(route);
  });
  for (const [hash, heading] of views) {
    await page.evaluate((to) => {
      location.hash = to;
    }, hash);
    await page.locator('h1', { hasText: heading }).waitFor();
    if (hash !== '#/') await page.locator('main .loading').getByText('Loading').first().waitFor();
  }
  await page.locator('main .loading').getByText('Still loading').waitFor();
  await page.unroute(/\/v1\/(?!session|stream)/);
  for (const route of held) await route.continue().catch(() => undefined);
  await page.locator('main tbody tr').first().waitFor();
  await closePage(page);
});

test('an answer that the page does not understand leaves the other views usable', async () => {
  const page = await openPage(scene.address);
  await page.locator('h1').waitFor();
  await page.route(/\/v1\/nodes/, (route) => route.fulfill({ json: { nodes: 'of a newer version' } }));
  await page.evaluate(() => {
    location.hash = '#/nodes';
  });
  await page.getByRole('alert').getByText('does not understand').waitFor();
  await page.locator('.rail .menu a', { hasText: 'Plans' }).click();
  await page.locator('main tbody tr').first().waitFor();
  await closePage(page);
});
