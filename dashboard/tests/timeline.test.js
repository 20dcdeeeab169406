// The timeline of a workspace's slots: its bars and their rows, the limit, the table, the choice of the time, notes, and axe.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { checkLooks, closeBrowser, closePage, openBrowser, openPage, Scene, show } from './scene.js';

const scene = new Scene();
const NOW = Date.parse('2026-11-27T12:00:00Z');
/** Minutes before now. */
const at = (minutes) => new Date(NOW - minutes * 60_000).toISOString();
const idOf = (number) => `019f0000-0000-7000-8000-00000000000${number}`;
const span = (from, until, usesSlot = true) => ({
  uses_slot: usesSlot,
  started_at: at(from),
  finished_at: until === null ? null : at(until),
});
const use = (number, status, ...spans) => ({
  id: idOf(number),
  workflow: 'quick',
  status,
  waiting_for: null,
  node: 'one',
  created_at: at(60),
  claimed_at: null,
  finished_at: null,
  spans,
});
const answer = {
  items: [
    use(1, 'DISPATCHED', span(90, null)),
    use(2, 'WAITING', span(50, 40), span(40, 20, false), span(20, 10), span(10, null, false)),
    use(3, 'FAILED', span(45, 30)),
    use(4, 'COMPLETED', span(30, 25)),
  ],
  next_cursor: null,
  count: 4,
  count_is_exact: true,
  examined_since: null,
};
/** `change`: of the answer. */
const prepare =
  (change = {}) =>
  async (page) => {
    await page.clock.setFixedTime(NOW);
    await page.route(/\/v1\//, async (route) => {
      const url = route.request().url();
      if (url.includes('/v1/stream')) return; // it has no events
      const response = await route.fetch();
      const headers = { ...response.headers(), date: new Date(NOW).toUTCString() };
      await route.fulfill(
        url.includes('/acme/slot_timeline') ? { headers, json: { ...answer, ...change } } : { response, headers },
      );
    });
  };
let ids;
let page;
before(async () => {
  await Promise.all([openBrowser(), scene.start()]);
  ids = scene.fill();
  page = await openPage(scene.address, { prepare: prepare(), context: { timezoneId: 'UTC', locale: 'en-GB' } });
});
after(async () => {
  await closePage(page);
  await closeBrowser();
  await scene.end();
});

const panel = (of = page) => of.locator('section.panel', { hasText: 'Use of the slots' });
const bars = (of = page) => panel(of).locator('.plot a');
/** Of each bar its kind, its first and last part of a thousand of the time, and its row. */
const shapes = () =>
  bars().evaluateAll((all) =>
    all.map((bar) => {
      const rect = bar.querySelector('rect');
      const [x, y, width] = ['x', 'y', 'width'].map((name) => Number(rect.getAttribute(name)));
      return [rect.getAttribute('class'), Math.round(x), Math.round(x + width), Math.floor(y / 10)];
    }),
  );

test('slots have a row each, waits stand below the limit, and what began earlier begins at the edge', async () => {
  await show(page, '#/workspace/acme', 'Workspace acme');
  assert.deepEqual(await shapes(), [
    ['running', 0, 1000, 0],
    ['ended', 167, 333, 1],
    ['failed', 250, 500, 2],
    ['ended', 500, 583, 1],
    ['ended', 667, 833, 1],
    ['waits', 333, 667, 3],
    ['waits', 833, 1000, 3],
  ]);
  // The plan of the workspace has one slot: two bars are above it.
  assert.equal(await panel().locator('.plot path.limit').getAttribute('d'), 'M0 11H1000');
  await panel().getByText('limit of 1 slot', { exact: true }).waitFor();
  assert.deepEqual(await panel().locator('.axis span').allTextContents(), ['11:00', '12:00']);
});

test('a bar leads to its execution', async () => {
  await show(page, '#/workspace/acme', 'Workspace acme');
  assert.deepEqual(await bars().evaluateAll((all) => all.slice(0, 2).map((bar) => bar.getAttribute('href'))), [
    `#/execution/${idOf(1)}`,
    `#/execution/${idOf(2)}`,
  ]);
  assert.equal(await bars().nth(5).locator('title').textContent(), 'quick: waits without, 20 min');
});

test('the keyboard opens a table with the same content, newest first', async () => {
  await show(page, '#/workspace/acme', 'Workspace acme');
  await panel().getByText('As a table').focus();
  await page.keyboard.press('Enter');
  const cells = await panel()
    .locator('tbody tr')
    .evaluateAll((rows) => rows.map((row) => [...row.cells].map((cell) => cell.textContent)));
  const short = (number) => `019f0000…000${number}`;
  assert.deepEqual(
    cells.map(([id, , state, phase, , until, length]) => [id, state, phase, until, length]),
    [
      [short(2), 'waiting', 'waits without', 'goes on', '10 min'],
      [short(2), 'waiting', 'has one', '10 min ago', '10 min'],
      [short(4), 'completed', 'has one', '25 min ago', '5 min'],
      [short(2), 'waiting', 'waits without', '20 min ago', '20 min'],
      [short(3), 'failed', 'has one', '30 min ago', '15 min'],
      [short(2), 'waiting', 'has one', '40 min ago', '10 min'],
      [short(1), 'running', 'has one', 'goes on', '1 h 30 min'],
    ],
  );
});

test('the time is chosen by links, in the address', async () => {
  await show(page, '#/workspace/acme?span=day', 'Workspace acme');
  for (const [name, since] of [
    ['Last 15 minutes', '15m'],
    ['Last 6 hours', '6h'],
  ]) {
    const isAsked = page.waitForRequest(new RegExp(`/v1/workspaces/acme/slot_timeline\\?since=${since}&`));
    await panel().getByRole('link', { name }).focus();
    await page.keyboard.press('Enter');
    await isAsked;
    await panel().locator('.spans a[aria-current]', { hasText: name }).waitFor();
    assert.match(page.url(), new RegExp(`span=day&slots=${since}`));
  }
  await panel().locator('.axis', { hasText: '06:00' }).waitFor();
});

test('the page says what is left out', async () => {
  const fields = { count_is_exact: false, examined_since: at(30) };
  const own = await openPage(scene.address, {
    prepare: prepare(fields),
    context: { timezoneId: 'UTC', locale: 'en-GB' },
  });
  await show(own, '#/workspace/acme', 'Workspace acme');
  await panel(own).getByText('Narrowed to 4 executions; there were more in this time.').waitFor();
  await panel(own)
    .getByText('Executions that were enqueued before 27 Nov 2026, 11:30:00 UTC are shown only if they have a slot.')
    .waitFor();
  await closePage(own);
  const many = Array.from({ length: 60 }, (_, number) => ({ ...use(1, 'DISPATCHED', span(5, null)), id: `${number}` }));
  const full = await openPage(scene.address, { prepare: prepare({ items: many, count: 60 }) });
  await show(full, '#/workspace/acme', 'Workspace acme');
  assert.equal(await bars(full).count(), 40);
  await panel(full).getByText('20 bars have no room here: read the table.').waitFor();
  await panel(full).getByText('As a table').click();
  assert.equal(await panel(full).locator('tbody tr').count(), 60);
  await closePage(full);
});

test('a real workspace shows what runs, and an idle one says so', async () => {
  const real = await openPage(scene.address);
  await show(real, '#/workspace/acme', 'Workspace acme');
  await bars(real).first().waitFor({ state: 'attached' });
  assert.equal(await bars(real).first().getAttribute('href'), `#/execution/${ids.running}`);
  await bars(real).first().click();
  await real.locator('h1', { hasText: 'Execution' }).waitFor();
  scene.weir('workspace', 'set', 'idle', '--plan', 'free', '-q');
  await show(real, '#/workspace/idle', 'Workspace idle');
  await panel(real).getByText('No execution had a slot or waited in this time.').waitFor();
  await closePage(real);
});

for (const theme of ['light', 'dark']) {
  for (const width of [360, 1440]) {
    test(`axe finds nothing at ${width} px in ${theme}`, async () => {
      const own = await openPage(scene.address, { width, theme, prepare: prepare({ examined_since: at(30) }) });
      await show(own, '#/workspace/acme', 'Workspace acme');
      await bars(own).first().waitFor({ state: 'attached' });
      await panel(own).getByText('As a table').click();
      await checkLooks(own);
      await closePage(own);
    });
  }
}
