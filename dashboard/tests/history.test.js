// The charts of the history: their lines, the choice of a point by pointer and keyboard, their tables, gaps, and axe.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { checkLooks, closeBrowser, closePage, openBrowser, openPage, Scene, show } from './scene.js';

const scene = new Scene();
const BEGIN = Date.parse('2026-11-27T10:00:00Z');
const at = (minute) => new Date(BEGIN + minute * 60_000).toISOString();
const point = (minute, starts) => ({
  at: at(minute),
  span_us: 60e6,
  starts,
  completed: starts,
  failed: 0,
  cancelled: 0,
  slots_used: 2,
  pending: 7,
  wait_p50_us: starts === 0 ? null : 1200,
  wait_p95_us: starts === 0 ? null : 90e6,
  capacity_wait_p95_us: starts === 0 ? null : 80e6,
  pause_wait_p95_us: starts === 0 ? null : 0,
  dispatch_wait_p95_us: starts === 0 ? null : 10e6,
});
const queue = [point(1, 60), point(2, 120), point(3, 0), point(30, 30)]; // a gap of 26 minutes
const own = [
  { at: at(1), span_us: 60e6, slots_used: 1, slots_max: 2, pending: 4 },
  { at: at(2), span_us: 60e6, slots_used: 0, slots_max: null, pending: 0 },
];
const answer = (page) =>
  page.route(/\/v1\/(workspaces\/acme\/)?history\?/, (route) => {
    const url = route.request().url();
    return route.fulfill({ json: { items: url.includes('acme') ? own : queue } });
  });
let page;
before(async () => {
  await Promise.all([openBrowser(), scene.start()]);
  scene.fill();
  page = await openPage(scene.address, { prepare: answer, context: { timezoneId: 'UTC', locale: 'en-GB' } });
});
after(async () => {
  await closePage(page);
  await closeBrowser();
  await scene.end();
});

const chart = (title) => page.locator('figure.chart', { has: page.getByText(title, { exact: true }) });

test('a chart has a line for each value, and no line over a gap', async () => {
  await show(page, '#/', 'Overview');
  const rates = chart('Starts and ends');
  assert.equal(await rates.locator('.plot path').count(), 3);
  const starts = await rates.locator('.plot path.line-0').getAttribute('d');
  assert.equal(starts.match(/M/g).length, 2, starts);
  // 120 in a minute are the most, at the top; the first point has half of them.
  assert.match(starts, /^M0\.0 60\.0L20\.0 60\.0L40\.0 0\.0L60\.0 120\.0M/);
  await rates.getByText('2/s', { exact: true }).first().waitFor();
  const waits = await chart('Wait in the queue').locator('.plot path.line-1').getAttribute('d');
  assert.equal(waits.match(/M/g).length, 2, 'a minute without a start has no wait');
});

test('the keyboard and the pointer choose a point, and its values are read out', async () => {
  await show(page, '#/', 'Overview');
  const rates = chart('Starts and ends');
  const slider = rates.getByRole('slider', { name: 'Starts and ends: choose a time' });
  await slider.focus();
  assert.match(await slider.getAttribute('aria-valuetext'), /^10:30: started 0\.5\/s, completed 0\.5\/s, failed 0\/s$/);
  await page.keyboard.press('Home');
  await page.keyboard.press('ArrowRight');
  await rates.locator('.legend', { hasText: '10:02' }).waitFor();
  assert.match(await slider.getAttribute('aria-valuetext'), /^10:02: started 2\/s/);
  await rates.locator('.plot path.cursor').waitFor({ state: 'attached' }); // a line without width is not visible to the tools
  const box = await rates.locator('.plot').boundingBox();
  await page.mouse.move(box.x + 2, box.y + 20);
  await rates.locator('.legend', { hasText: '10:01' }).waitFor();
  await page.mouse.move(0, 0);
  await rates.locator('.legend', { hasText: '10:30' }).waitFor();
});

test('each chart has its values in a table, newest first', async () => {
  await show(page, '#/', 'Overview');
  const waits = chart('Wait in the queue');
  await waits.getByText('As a table').click();
  const cells = await waits.locator('tbody tr').nth(1).locator('td').allTextContents();
  assert.deepEqual(
    cells.slice(1),
    ['–', '–'].map(() => cells[1]),
    'a point without a start',
  );
  assert.deepEqual((await waits.locator('tbody tr').nth(2).locator('td').allTextContents()).slice(1), [
    '1 ms',
    '1 min 30 s',
  ]);
});

test('a workspace shows its slots against the limit, and the address names the time', async () => {
  await show(page, '#/workspace/acme', 'Workspace acme');
  const slots = chart('Slots');
  assert.equal(await slots.locator('.plot path').count(), 3);
  assert.equal(
    (await slots.locator('.plot path.line-1').getAttribute('d')).match(/L/g).length,
    1,
    'the limit while it was busy',
  );
  const isAsked = page.waitForRequest(/\/v1\/workspaces\/acme\/history\?since=24h$/);
  await page.getByRole('link', { name: 'Last day' }).click();
  await isAsked;
  await page.locator('.spans a[aria-current]', { hasText: 'Last day' }).waitFor();
  await slots.waitFor();
  assert.match(page.url(), /span=day/);
});

for (const theme of ['light', 'dark']) {
  for (const width of [360, 1440]) {
    test(`axe finds nothing at ${width} px in ${theme}`, async () => {
      const own = await openPage(scene.address, { width, theme, prepare: answer });
      await show(own, '#/', 'Overview');
      await own.locator('figure.chart').first().waitFor();
      await own.getByText('As a table').first().click();
      await checkLooks(own);
      await closePage(own);
    });
  }
}

test('without points the page says when there will be some', async () => {
  const fresh = await openPage(scene.address, {
    prepare: (one) => one.route(/\/v1\/history\?/, (route) => route.fulfill({ json: { items: [] } })),
  });
  await show(fresh, '#/', 'Overview');
  await fresh.getByText('No points yet.').first().waitFor();
  await closePage(fresh);
});
