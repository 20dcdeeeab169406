// The pending executions of a workspace in the order in which they start: on its page, in the list with its pages, and axe.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { checkLooks, closeBrowser, closePage, openBrowser, openPage, Scene, show } from './scene.js';

const scene = new Scene();
let page;
let ids;
before(async () => {
  await Promise.all([openBrowser(), scene.start()]);
  scene.fill();
  scene.weir('pause', '-q');
  const plain = Array.from({ length: 52 }, () => '{"workspace": "initech", "workflow": "quick"}\n').join('');
  const waiting = scene.weirWith(plain, 'enqueue', '-', '-q').split('\n');
  const first = scene.enqueue('initech', 'quick', '--priority', '5');
  const later = scene.enqueue('initech', 'quick', '--priority', '90', '--run-at', '+1h');
  ids = [first, ...waiting, later];
  assert.equal(ids.length, 54);
  page = await openPage(scene.address);
});
after(async () => {
  await closePage(page);
  await closeBrowser();
  await scene.end();
});

/** The first cells and the ids of the rows of the table. */
const rowsOf = (table) =>
  table
    .locator('tbody tr')
    .evaluateAll((rows) => rows.map((row) => [row.cells[0].textContent, row.querySelector('a.id').title]));
const listed = () => page.getByRole('region', { name: 'Executions' });

test('a workspace shows the ten that start next, with their places', async () => {
  await show(page, '#/workspace/initech', 'Workspace initech');
  const rows = await rowsOf(page.getByRole('region', { name: 'Starts next' }));
  assert.deepEqual(
    rows,
    ids.slice(0, 10).map((id, at) => [String(at + 1), id]),
  );
});

test('its list goes on with the places of the page before, and ends with those that are due later', async () => {
  await show(page, '#/workspace/initech', 'Workspace initech');
  await page.locator('section.panel', { hasText: 'Starts next' }).getByRole('link', { name: 'Show all' }).click();
  await page.locator('h1', { hasText: 'Executions' }).waitFor();
  await page.locator('.spans a[aria-current]', { hasText: 'In the order of their start' }).waitFor();
  await listed().locator('tbody tr').nth(49).waitFor();
  await page.getByText('54 executions', { exact: true }).waitFor();
  assert.deepEqual(
    await rowsOf(listed()),
    ids.slice(0, 50).map((id, at) => [String(at + 1), id]),
  );
  await page.getByRole('link', { name: 'Next page' }).click();
  await listed().locator('tbody tr').nth(4).waitFor({ state: 'detached' });
  assert.deepEqual(await rowsOf(listed()), [
    ['51', ids[50]],
    ['52', ids[51]],
    ['53', ids[52]],
    ['–', ids[53]],
  ]);
});

test('the keyboard chooses the order, and another filter has none', async () => {
  await show(page, '#/executions?where=workspace%3Dinitech+status%3DPENDING', 'Executions');
  assert.equal(await listed().getByRole('columnheader', { name: 'Place' }).count(), 0);
  const link = page.getByRole('link', { name: 'In the order of their start' });
  await link.focus();
  await page.keyboard.press('Enter');
  await listed().getByRole('columnheader', { name: 'Place' }).waitFor();
  await page.getByRole('link', { name: 'Newest first' }).click();
  await listed().getByRole('columnheader', { name: 'Place' }).waitFor({ state: 'detached' });
  for (const filter of ['status=PENDING', 'workspace=initech', 'workspace=initech status=PENDING workflow=quick']) {
    await show(page, `#/executions?order=queue&where=${encodeURIComponent(filter)}`, 'Executions');
    await listed().locator('tbody tr').first().waitFor();
    assert.equal(await link.count(), 0, filter);
    assert.equal(await listed().getByRole('columnheader', { name: 'Place' }).count(), 0, filter);
  }
});

for (const theme of ['light', 'dark']) {
  for (const width of [360, 1440]) {
    test(`axe finds nothing at ${width} px in ${theme}`, async () => {
      const own = await openPage(scene.address, { width, theme });
      await show(own, '#/executions?order=queue&where=workspace%3Dinitech+status%3DPENDING', 'Executions');
      await own.getByRole('columnheader', { name: 'Place' }).waitFor();
      await checkLooks(own);
      await closePage(own);
    });
  }
}
