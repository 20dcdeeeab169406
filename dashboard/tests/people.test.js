// Accessibility: axe in both themes and at both widths, and the keyboard alone.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { after, before, test } from 'node:test';
import { closeBrowser, closePage, openBrowser, openPage, Scene, show, views } from './scene.js';

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const scene = new Scene();
let ids;
before(async () => {
  await Promise.all([openBrowser(), scene.start()]);
  ids = scene.fill();
  scene.schedule();
  scene.weir('hook', 'set', 'crm', '--on', 'FAILED', '--start-workspace', 'initech', '--start-workflow', 'quick', '-q');
});
after(async () => {
  await closeBrowser();
  await scene.end();
});

async function violations(page) {
  const found = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ['violations'] }));
  return found.violations.flatMap((rule) => rule.nodes.map((node) => `${rule.id}: ${node.target} ${node.failureSummary}`));
}

for (const theme of ['light', 'dark']) {
  for (const width of [360, 1440]) {
    test(`axe finds no violation, ${theme}, ${width} pixels`, async () => {
      const page = await openPage(scene.address, { theme, width });
      await page.evaluate(axe);
      for (const [hash, heading] of views(ids)) {
        await show(page, hash, heading);
        assert.deepEqual(await violations(page), [], `${hash} ${theme} ${width}`);
        const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
        assert.ok(wide <= 0, `${hash} is ${wide} pixels too wide at ${width}`);
      }
      await show(page, `#/execution/${ids.running}`, 'Execution');
      await page.getByRole('button', { name: 'Log' }).first().click();
      await page.getByRole('log').waitFor();
      assert.deepEqual(await violations(page), [], 'the log');
      await page.getByRole('button', { name: 'Cancel' }).click();
      await page.locator('dialog[open]').waitFor();
      assert.deepEqual(await violations(page), [], 'a dialog');
      await page.keyboard.press('Escape');
      page.allowed.push(/40[04]/);
      await show(page, '#/execution/nothing', 'Execution').catch(() => undefined);
      assert.deepEqual(await violations(page), [], 'a problem');
      await closePage(page);
    });
  }
}

test('no part of a table covers another one at any width', async () => {
  const page = await openPage(scene.address);
  for (const width of [360, 480, 600, 720, 840, 1040, 1100, 1200, 1280, 1600, 2560]) {
    await page.setViewportSize({ width, height: 900 });
    for (const [hash, heading] of views(ids)) {
      await show(page, hash, heading);
      const covered = await page.locator('td, th').evaluateAll((cells) =>
        cells.flatMap((cell) => {
          const range = document.createRange();
          range.selectNodeContents(cell);
          const content = cell.querySelector('.cut') ?? range; // what is cut ends with its own box
          const over = content.getBoundingClientRect().right - cell.getBoundingClientRect().right;
          return over > 1 ? [`${cell.textContent} by ${over}`] : [];
        }),
      );
      assert.deepEqual(covered, [], `${hash} at ${width}`);
    }
  }
  await closePage(page);
});

test('the keyboard alone leads from the overview to an act', async () => {
  const page = await openPage(scene.address);
  await page.locator('main tbody tr').first().waitFor();
  await page.keyboard.press('?');
  await page.locator('dialog[open]').getByText('previous row').waitFor();
  await page.keyboard.press('Escape');
  await page.locator('dialog[open]').waitFor({ state: 'hidden' });
  await page.keyboard.press('g');
  await page.keyboard.press('e');
  await page.locator('h1', { hasText: 'Executions' }).waitFor();
  await page.locator('tbody tr').first().waitFor();
  await page.keyboard.press('/');
  await page.keyboard.type('status=PENDING');
  await page.keyboard.press('Enter');
  await page.getByText('1 execution', { exact: true }).waitFor();
  await page.evaluate(() => document.activeElement.blur());
  await page.keyboard.press('j');
  await page.keyboard.press('Enter');
  await page.locator('section.why').getByText('workspace_at_capacity').waitFor();
  await page.locator('main button', { hasText: 'Cancel' }).waitFor();
  for (let presses = 0; ; presses += 1) {
    if (await page.evaluate(() => document.activeElement.textContent === 'Cancel')) break;
    assert.ok(presses < 40, 'the button is reached by Tab');
    await page.keyboard.press('Tab');
    const outline = await page.evaluate(() => getComputedStyle(document.activeElement).outlineStyle);
    assert.notEqual(outline, 'none', 'the focus is visible');
  }
  await page.keyboard.press('Enter');
  await page.locator('dialog[open]').waitFor();
  await page.waitForFunction(() => document.activeElement?.name === 'reason');
  await page.keyboard.type('by keyboard');
  await page.keyboard.press('Enter');
  await page.locator('section.why', { hasText: 'It was cancelled' }).waitFor();
  assert.equal(scene.json('audit', '--act', 'cancel').items[0].reason, 'by keyboard');
  await page.keyboard.press('p');
  await page.getByRole('button', { name: 'Paused' }).waitFor();
  await closePage(page);
});

test('each thing that the pointer can press is reached by the keyboard, in every view', async () => {
  const page = await openPage(scene.address);
  let pressed = 0;
  for (const [hash, heading] of views(ids)) {
    await show(page, hash, heading);
    const [count, unreached] = await page.evaluate(() => {
      const natural = 'a[href], button, input, select, textarea, summary, [role=button], [role=tab], [tabindex="0"]';
      const isReached = (one) => one.tabIndex >= 0 && getComputedStyle(one).visibility !== 'hidden';
      // A drawing that readers of the screen do not get has the same links in its table.
      const isTwice = (one) =>
        one.closest('[aria-hidden="true"]') !== null &&
        [...document.querySelectorAll('td a')].some((link) => link.getAttribute('href') === one.getAttribute('href'));
      const all = [...document.querySelectorAll('body *')].filter((one) => one.checkVisibility());
      const controls = all.filter((one) => one.matches(natural));
      // A point of a chart is chosen by its arrow keys, and a label belongs to its field.
      const drawn = all.filter((one) => getComputedStyle(one).cursor === 'pointer' && !one.closest('label, svg'));
      const lost = [
        ...controls.filter((one) => !one.disabled && !isReached(one) && !isTwice(one)),
        ...drawn.filter((one) => !one.closest(natural) && ![...one.querySelectorAll(natural)].some(isReached)),
      ];
      return [controls.length, lost.map((one) => one.outerHTML.slice(0, 200))];
    });
    assert.deepEqual(unreached, [], hash);
    pressed += count;
  }
  assert.ok(pressed > 200, String(pressed));
  await closePage(page);
});

test('j and k walk over rows whose first link is hidden on a narrow screen', async () => {
  const page = await openPage(`${scene.address}#/schedules`, { width: 360 });
  const row = page.locator('main tbody tr');
  await row.waitFor();
  assert.equal(await row.locator('a').first().isVisible(), false);
  await page.keyboard.press('j');
  assert.equal(await page.evaluate(() => document.activeElement.closest('tbody tr') !== null), true);
  await closePage(page);
});

test('a state is readable without its colour', async () => {
  const page = await openPage(`${scene.address}#/executions`);
  await page.locator('tbody .state').nth(2).waitFor();
  const states = await page
    .locator('tbody .state')
    .evaluateAll((all) => all.map((one) => [one.textContent, one.querySelector('path').getAttribute('d')]));
  const shapes = new Map(states);
  assert.ok(shapes.size >= 3);
  assert.equal(new Set(shapes.values()).size, shapes.size, 'each word has a shape of its own');
  await closePage(page);
});

test('the page moves nothing for users who want no motion', async () => {
  const page = await openPage(scene.address, { context: { reducedMotion: 'reduce' } });
  await page.locator('.gates i').first().waitFor();
  const moved = await page
    .locator('.gates i, .meter i')
    .evaluateAll((all) => all.map((one) => getComputedStyle(one).transitionDuration));
  assert.ok(moved.length > 0 && moved.every((time) => time === '0s'), String(moved));
  await closePage(page);
});
