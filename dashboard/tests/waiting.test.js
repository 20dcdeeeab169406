// The page of waits: decisions, signals and wakes from the browser, with their records and refusals.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { after, before, test } from 'node:test';
import { closeBrowser, closePage, openBrowser, openPage, perform, Scene, show } from './scene.js';

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const scene = new Scene();
const hostile = '<img src=x onerror=alert(1)> "quoted"';
let page;
before(async () => {
  await Promise.all([openBrowser(), scene.start()]);
  scene.fill();
  for (const [name, steps] of Object.entries({
    payout: { ask: { approve: { prompt: `Pay it? ${hostile}` } } },
    guarded: { ask: { approve: { by: ['token:ops'] } } },
    order: { paid: { signal: { name: 'paid' } } },
    late: { paid: { signal: { name: 'paid', timeout: '2h' } } },
    nap: { rest: { sleep: '2h' } },
    charge: { card: { exec: ['sh', '-c', 'echo bank busy >&2; exit 3'], retry: { attempts: 6, backoff: '1h' } } },
    mixed: { ask: { approve: {} }, paid: { signal: { name: 'paid' } } },
  })) {
    scene.write(`${name}.json`, JSON.stringify({ name, steps }));
    scene.weir('workflow', 'apply', `${name}.json`, '-q');
  }
  page = await openPage(scene.address);
});
after(async () => {
  await closePage(page);
  await closeBrowser();
  await scene.end();
});

const button = (name, within = page.locator('main')) => within.getByRole('button', { name, exact: true });
const status = (id) => scene.json('show', id).status;
const step = (id, name) => scene.json('show', id).steps.find((one) => one.step === name);
const ended = (id) => scene.until(() => ['COMPLETED', 'FAILED'].includes(status(id)));

/** Enqueues, and opens the row of the execution when it waits. */
async function open(workflow, kind = null) {
  const id = scene.enqueue('initech', workflow);
  scene.until(() => status(id) === 'WAITING');
  await show(page, kind === null ? '#/waiting' : `#/waiting?where=${kind}`, 'Waiting');
  const row = page.locator(`tbody tr:has(a.id[title="${id}"])`);
  await row.getByRole('button', { name: 'Steps' }).click();
  await page.locator('section.opened .waits li').first().waitFor();
  return id;
}

test('a step is approved, with the comment and the reason on record', async () => {
  const id = await open('payout', 'approval');
  await page.locator('.waits .prompt', { hasText: hostile }).waitFor();
  assert.equal(await page.locator('#app :is(img, iframe, script, b)').count(), 0);
  await button('Approve').click();
  const dialog = page.locator('dialog[open]');
  await dialog.locator('.prompt', { hasText: hostile }).waitFor();
  await dialog.getByLabel('Comment').fill('checked, größer');
  await dialog.getByLabel('Reason').fill('asked by phone');
  await button('Approve', dialog).click();
  await dialog.waitFor({ state: 'hidden' });
  ended(id);
  const { output } = step(id, 'ask');
  const decided = typeof output === 'string' ? JSON.parse(output) : output;
  assert.deepEqual([decided.approved, decided.comment], [true, 'checked, größer']);
  assert.equal(scene.json('audit', '--act', 'approve').items[0].reason, 'asked by phone');
});

test('a step is refused', async () => {
  const id = await open('payout');
  await perform(page, button('Refuse'), 'too much');
  ended(id);
  const { output } = step(id, 'ask');
  assert.equal((typeof output === 'string' ? JSON.parse(output) : output).approved, false);
  assert.equal(scene.json('audit', '--act', 'reject').items[0].reason, 'too much');
  await page.locator(`tbody a.id[title="${id}"]`).waitFor({ state: 'detached' });
});

test('a decision that is not confirmed changes nothing', async () => {
  const id = await open('payout');
  await button('Refuse').click();
  await page.locator('dialog[open]').getByRole('button', { name: 'Do not' }).click();
  await page.locator('dialog[open]').waitFor({ state: 'hidden' });
  assert.equal(status(id), 'WAITING');
  assert.equal(step(id, 'ask').status, 'WAITING');
  scene.weir('cancel', id, '-q');
});

test('an actor that may not decide gets the refusal of the node, with the names of those that may', async () => {
  page.allowed.push(/403/);
  const id = await open('guarded');
  await page.locator('.waits', { hasText: 'May decide: token:ops' }).waitFor();
  await button('Approve').click();
  const dialog = page.locator('dialog[open]');
  await button('Approve', dialog).click();
  await dialog.getByRole('alert').getByText('token:ops').waitFor();
  await dialog.getByRole('button', { name: 'Do not' }).click();
  assert.equal(status(id), 'WAITING');
  scene.weir('cancel', id, '-q');
});

test('a decision that came too late is refused in the dialog', async () => {
  page.allowed.push(/409/);
  const id = await open('mixed');
  await button('Approve').click();
  scene.weir('reject', id, 'ask', '-q');
  const dialog = page.locator('dialog[open]');
  await button('Approve', dialog).click();
  await dialog.getByRole('alert').first().waitFor();
  await dialog.getByRole('button', { name: 'Do not' }).click();
  scene.weir('cancel', id, '-q');
});

test('a signal is sent with its data, which must be JSON', async () => {
  const id = await open('order', 'signal');
  await button('Send the signal').click();
  const dialog = page.locator('dialog[open]');
  await dialog.getByLabel('Data').fill('{not json');
  await button('Send the signal', dialog).click();
  await dialog.getByRole('alert').getByText('The data is not JSON').waitFor();
  assert.equal(status(id), 'WAITING');
  await dialog.getByLabel('Data').fill('{"amount": 12}');
  await dialog.getByLabel('Reason').fill('bank called');
  await button('Send the signal', dialog).click();
  await dialog.waitFor({ state: 'hidden' });
  ended(id);
  const { output } = step(id, 'paid');
  assert.deepEqual(typeof output === 'string' ? JSON.parse(output) : output, { amount: 12 });
  assert.equal(scene.json('audit', '--act', 'signal').items[0].reason, 'bank called');
});

test('a signal whose answer was lost is sent again and counts once', async () => {
  const id = await open('mixed');
  await button('Send the signal').click();
  const dialog = page.locator('dialog[open]');
  await dialog.getByLabel('Data').fill('1');
  page.allowed.push(/ERR_FAILED|Failed to load/);
  await page.route(/\/signal$/, async (route) => {
    await route.fetch();
    await route.abort();
  });
  await button('Send the signal', dialog).click();
  await dialog.getByRole('alert').waitFor();
  await page.unroute(/\/signal$/);
  await button('Send the signal', dialog).click();
  await dialog.waitFor({ state: 'hidden' });
  assert.equal(scene.json('show', id).signals.filter((one) => one.name === 'paid').length, 1);
  scene.weir('cancel', id, '-q');
});

test('a sleep and a wait with a timeout are ended, and a wait without one offers no wake', async () => {
  const nap = await open('nap', 'sleep');
  await perform(page, button('Wake'), 'now');
  ended(nap);
  assert.equal(status(nap), 'COMPLETED');
  assert.equal(scene.json('audit', '--act', 'wake').items[0].reason, 'now');
  const late = await open('late', 'signal');
  await perform(page, button('Wake'), '');
  ended(late);
  assert.equal(step(late, 'paid').error_code, 'signal_timeout');
  const order = await open('order', 'signal');
  assert.equal(await button('Wake').count(), 0);
  scene.weir('cancel', order, '-q');
});

test('a step that failed says why, and how often it may', async () => {
  await open('charge', 'retry');
  await page.locator('.waits li', { hasText: 'attempt 1 of 6 failed: exit code 3: bank busy' }).waitFor();
});

test('the page of an execution offers the same acts', async () => {
  const id = scene.enqueue('initech', 'payout');
  scene.until(() => status(id) === 'WAITING');
  await show(page, `#/execution/${id}`, 'Execution');
  await perform(page, button('Approve'), 'seen there');
  await page.locator('section.why', { hasText: 'It completed' }).waitFor();
});

test('the kinds of waits are lists of their own', async () => {
  const nap = scene.enqueue('initech', 'nap');
  const order = scene.enqueue('initech', 'order');
  scene.until(() => [nap, order].every((id) => status(id) === 'WAITING'));
  await show(page, '#/waiting', 'Waiting');
  await page.locator(`tbody a.id[title="${nap}"]`).waitFor();
  await page.locator('.tabs a', { hasText: 'signals' }).click();
  await page.locator(`tbody a.id[title="${nap}"]`).waitFor({ state: 'detached' });
  await page.locator(`tbody a.id[title="${order}"]`).waitFor();
  await page.locator('.tabs a', { hasText: 'reports' }).click();
  await page.locator('.empty').waitFor();
  for (const id of [nap, order]) scene.weir('cancel', id, '-q');
});

for (const theme of ['light', 'dark']) {
  for (const width of [360, 1440]) {
    test(`axe finds no violation, ${theme}, ${width} pixels`, async () => {
      const id = scene.enqueue('initech', 'mixed');
      scene.until(() => status(id) === 'WAITING');
      const other = await openPage(`${scene.address}#/waiting`, { theme, width });
      await other.evaluate(axe);
      const check = async (where) => {
        const found = await other.evaluate(() => globalThis.axe.run(document, { resultTypes: ['violations'] }));
        const rows = found.violations.flatMap((rule) => rule.nodes.map((node) => `${rule.id}: ${node.target}`));
        assert.deepEqual(rows, [], where);
        const wide = await other.evaluate(() => document.documentElement.scrollWidth - innerWidth);
        assert.ok(wide <= 0, `${where} is ${wide} pixels too wide`);
      };
      await other.locator(`tbody tr:has(a.id[title="${id}"])`).getByRole('button', { name: 'Steps' }).click();
      await other.locator('.waits li').nth(1).waitFor();
      await check('the steps');
      for (const act of ['Approve', 'Send the signal']) {
        await other.locator('main').getByRole('button', { name: act, exact: true }).click();
        await other.locator('dialog[open]').waitFor();
        await check(act);
        await other.keyboard.press('Escape');
        await other.locator('dialog[open]').waitFor({ state: 'hidden' });
      }
      await closePage(other);
      scene.weir('cancel', id, '-q');
    });
  }
}

test('a token that may only read sees the waits, and no act of it reaches the node', async () => {
  const id = scene.enqueue('initech', 'mixed');
  scene.until(() => status(id) === 'WAITING');
  const text = scene.weir('token', 'create', 'reader', '--role', 'read', '--workspace', 'initech', '-q');
  const other = await openPage(scene.address, { allowed: [/401/] });
  await other.getByLabel('Token').fill(text);
  await other.getByRole('button', { name: 'Sign in' }).click();
  await other.locator('h1', { hasText: 'Overview' }).waitFor();
  await show(other, '#/waiting', 'Waiting');
  await other.locator(`tbody tr:has(a.id[title="${id}"])`).getByRole('button', { name: 'Steps' }).click();
  for (const act of ['Approve', 'Refuse', 'Send the signal']) {
    await other.locator('main').getByRole('button', { name: act, exact: true }).click({ force: true });
    await other.locator('dialog[open]', { hasText: 'has the role read' }).waitFor();
    await other.keyboard.press('Escape');
    await other.locator('dialog[open]').waitFor({ state: 'hidden' });
  }
  assert.ok(!other.requests.some((request) => /^POST .*\/(approve|reject|signal|wake)$/.test(request)));
  await closePage(other);
});
