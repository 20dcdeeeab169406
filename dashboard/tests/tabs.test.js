// Several tabs of one browser, and people who read larger letters or write from right to left.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { closeBrowser, closePage, openBrowser, openPage, perform, Scene, show, views } from './scene.js';

const scene = new Scene();
const HEBREW = '\u05d7\u05d1\u05e8\u05d4 42';
const ARABIC = '12 \u0634\u0631\u0643\u0629';
let ids;
before(async () => {
  await Promise.all([openBrowser(), scene.start()]);
  ids = scene.fill();
});
after(async () => {
  await closeBrowser();
  await scene.end();
});

test('two tabs have a view and a filter each, and an act in one is seen in the other', async () => {
  const id = scene.enqueue('acme', 'hold');
  const first = await openPage(`${scene.address}#/execution/${id}`);
  const second = await openPage(`${scene.address}#/executions?where=workspace%3Dglobex`, { beside: first });
  await second.getByText('1 execution', { exact: true }).waitFor();
  const third = await openPage(`${scene.address}#/execution/${id}`, { beside: first });
  const cancel = (page) => page.locator('main').getByRole('button', { name: 'Cancel', exact: true });
  await cancel(third).waitFor();
  await perform(first, cancel(first), 'no longer needed');
  await third.locator('section.why', { hasText: 'It was cancelled' }).waitFor();
  await cancel(third).waitFor({ state: 'detached' });
  for (const page of [first, second]) await page.reload();
  await first.locator('section.why', { hasText: 'It was cancelled' }).waitFor();
  await second.getByText('1 execution', { exact: true }).waitFor();
  assert.equal(await second.getByLabel('Filter').inputValue(), 'workspace=globex');
  await closePage(first);
});

test('back and forward lead through views, lists and executions', async () => {
  const page = await openPage(scene.address);
  const way = [
    ['#/', 'Overview'],
    ['#/executions', 'Executions'],
    [`#/execution/${ids.failed}`, 'Execution'],
    ['#/workspace/globex', 'Workspace globex'],
    ['#/audit', 'Audit'],
  ];
  for (const [hash, heading] of way) await show(page, hash, heading);
  const seen = async ([hash, heading]) => {
    await page.waitForFunction((wanted) => (location.hash || '#/') === wanted, hash);
    await page.locator('h1', { hasText: heading }).waitFor();
    assert.equal(await page.title(), `${heading} · weir`);
  };
  for (const place of way.slice(0, -1).reverse()) {
    await page.goBack();
    await seen(place);
  }
  for (const place of way.slice(1)) {
    await page.goForward();
    await seen(place);
  }
  await closePage(page);
});

// A browser that enlarges a page twice gives it half of the pixels.
test('nothing is lost at 200 per cent', async () => {
  const page = await openPage(scene.address, { context: { viewport: { width: 640, height: 450 }, deviceScaleFactor: 2 } });
  for (const [hash, heading] of views(ids)) {
    await show(page, hash, heading);
    const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    assert.ok(wide <= 0, `${hash} is ${wide} pixels too wide`);
    const cut = await page.locator('h1, h2, button:visible, .state').evaluateAll((parts) =>
      parts
        .filter((part) => part.scrollWidth > part.clientWidth + 1 && getComputedStyle(part).display !== 'inline')
        .filter((part) => part.clientWidth > 0 && part.closest('.scroll') === null)
        .map((part) => part.textContent),
    );
    assert.deepEqual(cut, [], hash);
  }
  await show(page, `#/execution/${ids.waiting}`, 'Execution');
  await perform(page, page.locator('main').getByRole('button', { name: 'Cancel', exact: true }), 'at 200 per cent');
  await page.locator('section.why', { hasText: 'It was cancelled' }).waitFor();
  await closePage(page);
});

/** Places where the name has other texts in its line, and could change their order. */
function mixed(name) {
  const isBlock = (part) => !getComputedStyle(part).display.startsWith('inline');
  const blockOf = (part) => (isBlock(part) ? part : blockOf(part.parentElement));
  const own = (part) => [...part.childNodes].some((node) => node.nodeType === 3 && node.data.trim() === name);
  return [...document.querySelectorAll('#app *')]
    .filter((part) => own(part) && !getComputedStyle(part).unicodeBidi.startsWith('isolate'))
    .map((part) => blockOf(part).textContent.trim())
    .filter((line) => line !== name);
}

test('names that are written from right to left change the order of no text beside them', async () => {
  const page = await openPage(scene.address);
  for (const name of [HEBREW, ARABIC]) {
    scene.weir('workspace', 'set', name, '--plan', 'free', '-q');
    const running = scene.enqueue(name, 'hold');
    scene.enqueue(name, 'hold');
    scene.until(() => scene.json('show', running).status === 'RUNNING' || scene.json('show', running).steps.length > 1);
    for (const hash of ['#/', '#/executions', '#/workspaces', `#/workspace/${encodeURIComponent(name)}`, '#/audit']) {
      await show(page, hash, '');
      await page.waitForFunction((wanted) => document.querySelector('#app').textContent.includes(wanted), name);
      assert.deepEqual(await page.evaluate(mixed, name), [], `${hash} ${name}`);
      const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      assert.ok(wide <= 0, `${hash} is ${wide} pixels too wide`);
    }
    await show(page, `#/execution/${running}`, 'Execution');
    assert.deepEqual(await page.evaluate(mixed, name), [], `the execution of ${name}`);
  }
  await closePage(page);
});
