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
  ['#/waiting', 'Waiting', 'No execution waits so'],
  ['#/failures', 'Failures', 'No failed execution is left'],
  ['#/workflows', 'Workflows', 'weir workflow apply hello.yaml'],
  ['#/workspaces', 'Workspaces', 'weir workspace set acme --plan free'],
  ['#/schedules', 'Schedules', 'weir schedule set nightly'],
  ['#/hooks', 'Hooks', 'weir hook set'],
  ['#/locks', 'Locks', 'No lock was ever taken'],
  ['#/tokens', 'Tokens', 'weir token create ci --role enqueue --workspace acme'],
];
/** What a view reads, besides the session and the stream of changes. */
const isData = /\/v1\/(?!session|stream)/;
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

test('a scheduler whose rounds fail is named with the cause', async () => {
  const page = await openPage(scene.address);
  const status = /\/v1\/status/;
  const cases = [
    [
      { failing_since: '2026-11-30T10:00:00Z', error: 'no item leaves' },
      'Node one schedules, and its rounds fail: no item leaves.',
    ],
    [
      { lock_awaited_since: '2026-11-30T10:00:00Z', lock_holder: 'two' },
      'dispatch.exclusive, and two has the lock. Nothing is',
    ],
    [{ is_free: true, why: 'left', error: 'no rights' }, 'No node has the role of the scheduler (left; no rights).'],
    [{ is_free: true, why: null }, 'No node has the role of the scheduler. Nothing is assigned.'],
  ];
  for (const [change, text] of cases) {
    await page.route(status, async (route) => {
      const answer = await (await route.fetch()).json();
      Object.assign(answer.scheduler, { node: 'one', is_free: false }, change);
      await route.fulfill({ json: answer });
    });
    for (const [hash, heading] of [
      ['#/', 'Overview'],
      ['#/nodes', 'Nodes'],
    ]) {
      await page.goto('about:blank');
      await page.goto(`${scene.address}${hash}`);
      await page.locator('h1', { hasText: heading }).waitFor();
      await page.getByText(text).first().waitFor();
    }
    await page.unroute(status);
  }
  await closePage(page);
});

test('a problem of the node is shown in every view, with its code and the id of the request', async () => {
  const page = await openPage(scene.address, { allowed: [/503/] });
  await page.locator('h1').waitFor();
  const body = { code: 'store_unreachable', detail: 'the store does not answer', status: 503, request_id: 'the-request' };
  await page.route(isData, (route) =>
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
  await page.unroute(isData);
  await page.locator('.problem').waitFor({ state: 'hidden' });
  await closePage(page);
});

test('a view says that it waits for an answer', async () => {
  const page = await openPage(scene.address);
  await page.locator('h1').waitFor();
  const held = [];
  await page.route(isData, (route) => {
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
  await page.unroute(isData);
  for (const route of held) await route.continue().catch(() => undefined);
  await page.locator('main tbody tr').first().waitFor();
  await closePage(page);
});

test('a view that the token may not see says so', async () => {
  const page = await openPage(scene.address, { allowed: [/403/] });
  await page.locator('h1').waitFor();
  const body = { code: 'not_permitted', detail: 'the token has the role read; this needs admin', status: 403 };
  await page.route(isData, (route) =>
    route.fulfill({ status: 403, contentType: 'application/problem+json', body: JSON.stringify(body) }),
  );
  for (const [hash, heading] of views) {
    await page.goto('about:blank');
    await page.goto(`${scene.address}${hash}`);
    await page.locator('h1', { hasText: heading }).waitFor();
    const alert = page.getByRole('alert').first();
    await alert.getByText('Your token may not see this').waitFor();
    await alert.getByText('this needs admin').waitFor();
  }
  await closePage(page);
});

test('a view of a node that is away, or that hangs, says that it does not answer', async () => {
  const page = await openPage(scene.address, { allowed: [/ERR_/], prepare: (opened) => opened.clock.install() });
  await page.locator('h1').waitFor();
  const held = [];
  const faults = [
    (route) => route.abort('connectionrefused'),
    (route) => {
      held.push(route);
    },
  ];
  for (const fault of faults) {
    await page.route(isData, fault);
    for (const [hash, heading] of views) {
      held.length = 0;
      await page.goto('about:blank');
      await page.goto(`${scene.address}${hash}`);
      await page.locator('h1', { hasText: heading }).waitFor();
      if (fault === faults[1]) {
        while (held.length === 0) await page.clock.runFor(100);
        await page.clock.runFor(11_000);
      }
      await page.locator('.problem').getByText('The node does not answer').first().waitFor();
    }
    await page.unroute(isData, fault);
  }
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
