import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { closeBrowser, closePage, openBrowser, openPage, Scene, show, views } from './scene.js';

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

test('the overview has the slots of each workspace, those in trouble first', async () => {
  const page = await openPage(scene.address);
  const rows = page.locator('main table tbody tr');
  await rows.nth(2).waitFor();
  const texts = await rows.allInnerTexts();
  assert.match(texts[0].replace(/\s+/g, ' '), /^acme 1\/1 full 1 /);
  assert.deepEqual(
    texts.map((text) => /\d+\/\d+/.exec(text)[0]),
    ['1/1', '0/5', '0/20'],
  );
  await page.getByText('All is well').waitFor();
  assert.equal(await page.locator('dd', { hasText: /^1$/ }).count(), 3); // running, failed, completed
  await closePage(page);
});

test('two clicks lead from a customer to the reason why its execution waits', async () => {
  const page = await openPage(scene.address);
  const row = page.locator('main tbody tr', { hasText: 'acme' });
  await row.locator('td.number a').first().click();
  await page.locator('h1', { hasText: 'Executions' }).waitFor();
  await page.locator(`main tbody a.id[title="${ids.waiting}"]`).click();
  const why = page.locator('section.why');
  await why.getByText('workspace_at_capacity').waitFor();
  await why.getByText('Place 1 of 1').waitFor();
  await why.locator(`a[title="${ids.running}"]`).waitFor();
  await closePage(page);
});

test('each number of the overview leads to the list behind it', async () => {
  const page = await openPage(scene.address);
  for (const [word, filter] of [
    ['running', 'status=CLAIMED,DISPATCHED'],
    ['pending', 'status=PENDING'],
    ['completed', 'status=COMPLETED'],
  ]) {
    await show(page, '#/', 'Overview');
    await page.locator('.numbers div', { hasText: word }).locator('a').click();
    await page.locator('h1', { hasText: 'Executions' }).waitFor();
    assert.equal(await page.getByLabel('Filter').inputValue(), filter);
    await page.getByText('1 execution', { exact: true }).waitFor();
  }
  await show(page, '#/', 'Overview');
  await page.locator('.reasons a').click();
  await page.getByText('1 execution', { exact: true }).waitFor();
  assert.equal(await page.getByLabel('Filter').inputValue(), 'status=PENDING pending_reason=workspace_at_capacity');
  await closePage(page);
});

test('failures are grouped by workspace, and lead to the executions that are left', async () => {
  const page = await openPage(scene.address);
  await show(page, '#/failures', 'Failures');
  const rows = page.locator('main tbody tr');
  await rows.first().waitFor();
  assert.equal(await rows.count(), 1);
  await rows.first().locator('a', { hasText: 'globex' }).waitFor();
  await rows.first().locator('a').first().click();
  await page.getByText('1 execution', { exact: true }).waitFor();
  const filter = await page.getByLabel('Filter').inputValue();
  assert.match(filter, /^workspace=globex status=FAILED retried=no dismissed=no error_code=\S+ workflow=broken$/);
  await closePage(page);
});

test('the filter is a part of the address, with suggestions', async () => {
  const page = await openPage(`${scene.address}#/executions`);
  const filter = page.getByLabel('Filter');
  const rows = page.locator('main tbody tr');
  await rows.nth(3).waitFor();
  await filter.fill('workspace=acme sta');
  await filter.press('End');
  await page.waitForFunction(() => document.querySelector('#filter-words option')?.value === 'workspace=acme status=');
  await filter.fill('workspace=gl status=F');
  await page.waitForFunction(() =>
    [...document.querySelectorAll('#filter-words option')].some((option) => option.value === 'workspace=gl status=FAILED'),
  );
  await filter.fill('workspace=globex status=FAILED');
  await filter.press('Enter');
  await page.getByText('1 execution', { exact: true }).waitFor();
  await page.reload();
  await page.getByText('1 execution', { exact: true }).waitFor();
  assert.equal(await filter.inputValue(), 'workspace=globex status=FAILED');
  await page.goBack();
  await rows.nth(3).waitFor();
  assert.equal(await filter.inputValue(), '');
  await page.goForward();
  await page.getByText('1 execution', { exact: true }).waitFor();
  await page.locator('.tabs a', { hasText: 'All' }).click();
  await page.waitForFunction(() => document.querySelector('main input[list]').value === 'workspace=globex');
  const quoted = 'error_code="x status=FAILED"';
  await show(page, `#/executions?where=${encodeURIComponent(`${quoted} status=PENDING`)}`, 'Executions');
  assert.equal(await page.locator('.tabs a[aria-current]').textContent(), 'pending');
  await page.locator('.tabs a', { hasText: 'All' }).click();
  await page.waitForFunction((text) => document.querySelector('main input[list]').value === text, quoted);
  await closePage(page);
});

test('a wrong filter is explained, and can be mended', async () => {
  const page = await openPage(`${scene.address}#/executions?where=stats%3DFAILED`, { allowed: [/400/] });
  await page.getByRole('alert').getByText('a filter has no key "stats"').waitFor();
  await page.getByRole('alert').getByText('did you mean').waitFor();
  await page.getByLabel('Filter').fill('status=FAILED');
  await page.getByRole('button', { name: 'Apply' }).click();
  await page.getByText('1 execution', { exact: true }).waitFor();
  await closePage(page);
});

test('an execution shows its way, its steps with their logs, its events and its params', async () => {
  const page = await openPage(`${scene.address}#/execution/${ids.running}`);
  await page.locator('section.why').getByText('It is running').waitFor();
  assert.deepEqual(await page.locator('.timeline li > span:first-child').allInnerTexts(), [
    'pending',
    'starting',
    'running',
    'fetch',
    'wait',
  ]);
  await page.locator('tr', { hasText: 'fetch' }).getByRole('button', { name: 'Log' }).click();
  const log = page.getByRole('log');
  await log.getByText('fetched').waitFor();
  assert.equal((await log.locator('.stderr').textContent()).trim(), 'careful');
  await page.locator('tr', { hasText: 'step_start' }).first().waitFor();
  await page.locator('pre.data', { hasText: '"customer": 1' }).waitFor();
  await page.evaluate((to) => {
    location.hash = to;
  }, `#/execution/${ids.failed}`);
  await page.locator('section.why').getByText('exit_3').waitFor();
  await page.evaluate((to) => {
    location.hash = to;
  }, `#/execution/${ids.done}`);
  await page.locator('summary', { hasText: 'Result' }).click();
  await page.locator('pre.data', { hasText: 'hello' }).waitFor();
  await closePage(page);
});

test('an execution that sleeps shows what it waits for', async () => {
  scene.write('nap.yaml', 'name: nap\nsteps:\n  rest:\n    sleep: 2h\n');
  scene.weir('workflow', 'apply', 'nap.yaml', '-q');
  const id = scene.enqueue('initech', 'nap');
  const page = await openPage(`${scene.address}#/execution/${id}`);
  await page.locator('section.why', { hasText: 'What it waits for' }).waitFor();
  await page.locator('section.why').getByText('sleep', { exact: true }).waitFor();
  await show(page, '#/', 'Overview');
  await page.locator('.numbers div', { hasText: 'waiting' }).locator('a').click();
  await page.locator(`a.id[title="${id}"]`).waitFor();
  await page.getByText('A step of it sleeps').waitFor();
  scene.weir('cancel', id, '-q');
  await closePage(page);
});

test('an execution is copied as a command, for curl and as SQL', async () => {
  const page = await openPage(`${scene.address}#/execution/${ids.done}`, {
    context: { permissions: ['clipboard-read', 'clipboard-write'] },
  });
  const copied = () => page.evaluate(() => navigator.clipboard.readText());
  await page.getByRole('button', { name: 'Copy as command' }).click();
  await page.getByRole('button', { name: 'Copied' }).waitFor();
  assert.equal(await copied(), `weir show ${ids.done}`);
  await page.getByRole('button', { name: 'Copy as curl' }).click();
  await page.getByRole('button', { name: 'Copy as command' }).waitFor(); // it is no longer the copied one
  await page.getByRole('button', { name: 'Copied' }).waitFor();
  assert.equal(await copied(), `curl -H "Authorization: Bearer $WEIR_TOKEN" ${scene.address}v1/executions/${ids.done}`);
  await page.getByRole('button', { name: 'Copy as SQL of SQLite' }).click();
  await page.getByRole('button', { name: 'Copy as curl' }).waitFor();
  await page.getByRole('button', { name: 'Copied' }).waitFor();
  const rows = execFileSync('sqlite3', ['-readonly', '-json', path.join(scene.folder, 'weir.db'), await copied()]);
  assert.deepEqual(
    JSON.parse(rows).map((row) => [row.id, row.status]),
    [[ids.done, 'COMPLETED']],
  );
  await closePage(page);
});

test('every view opens, by its address and from the menu', async () => {
  const page = await openPage(scene.address);
  for (const [hash, heading] of views(ids)) {
    await show(page, hash, heading);
    assert.equal(await page.getByRole('alert').count(), 0, hash);
    assert.equal(await page.title(), `${heading} · weir`);
  }
  for (const name of await page.locator('.rail .menu a').allInnerTexts()) {
    await page.locator('.rail .menu a', { hasText: name }).click();
    await page.locator('h1', { hasText: name }).waitFor();
    assert.equal(await page.locator('.rail a[aria-current]').textContent(), name);
  }
  await closePage(page);
});

test('a list of several pages misses and repeats nothing', async () => {
  const line = `${JSON.stringify({ workspace: 'initech', workflow: 'hold', run_at: '2099-01-01T00:00:00Z' })}\n`;
  scene.weirWith(line.repeat(120), 'enqueue', '-', '-q');
  const page = await openPage(`${scene.address}#/executions?where=workspace%3Dinitech%20status%3DPENDING`);
  const seen = [];
  for (let number = 0; number < 3; number += 1) {
    await page.waitForFunction((before) => {
      const first = document.querySelector('tbody a.id')?.title;
      return first !== undefined && first !== before;
    }, seen.at(-50) ?? null);
    seen.push(...(await page.locator('tbody a.id').evaluateAll((links) => links.map((link) => link.title))));
    if (number < 2) await page.getByRole('link', { name: 'Next page' }).click();
  }
  assert.equal(seen.length, 120);
  assert.equal(new Set(seen).size, 120);
  await page.getByRole('link', { name: 'First page' }).click();
  await page.waitForFunction((first) => document.querySelector('tbody a.id')?.title === first, seen[0]);
  await closePage(page);
});

test('the count of an earlier filter does not stand beside the rows of another one', async () => {
  const page = await openPage(`${scene.address}#/executions?where=workspace%3Dinitech%20status%3DPENDING`);
  await page.getByText('120 executions', { exact: true }).waitFor();
  let held;
  const counted = new Promise((resolve) => {
    held = resolve;
  });
  await page.route(/count=true/, (route) => held(route));
  await page.evaluate(() => {
    location.hash = '#/executions?where=status%3DPENDING';
  });
  const route = await counted; // it is asked for when the rows are there
  const beside = page.locator('.toolbar p[aria-live]');
  assert.deepEqual([await beside.textContent(), await beside.getAttribute('aria-busy')], ['counting', 'true']);
  await route.continue();
  await page.getByText('121 executions', { exact: true }).waitFor();
  await closePage(page);
});

test('back leads to the place in the list, and the next page begins at its table', async () => {
  const page = await openPage(`${scene.address}#/executions?where=workspace%3Dinitech%20status%3DPENDING`);
  await page.setViewportSize({ width: 1280, height: 400 });
  const link = page.locator('tbody a.id').nth(40);
  await link.scrollIntoViewIfNeeded();
  const before = await page.evaluate(() => scrollY);
  assert.ok(before > 500);
  await link.click();
  await page.locator('section.why').waitFor();
  await page.waitForFunction(() => scrollY === 0);
  await page.goBack();
  await page.waitForFunction((place) => Math.abs(scrollY - place) < 3, before);
  await page.getByRole('link', { name: 'Next page' }).click();
  await page.getByRole('link', { name: 'First page' }).waitFor();
  await page.waitForFunction(() => Math.abs(document.querySelector('main .scroll').getBoundingClientRect().top) < 3);
  assert.equal(await page.evaluate(() => document.activeElement.className), 'scroll');
  scene.weir('cancel', '--where', 'workspace=initech status=PENDING', '-y', '-q');
  await closePage(page);
});

test('the reason why an execution waits stands in the list at 1280 pixels', async () => {
  const page = await openPage(`${scene.address}#/executions?where=workspace%3Dacme`, { width: 1280 });
  const row = page.locator('main tbody tr', { hasText: 'pending' });
  const reason = row.getByText('Its workspace uses all its slots');
  await reason.waitFor(); // visible
  const [whole, shown] = await reason.evaluate((element) => [element.scrollWidth, element.clientWidth]);
  assert.ok(shown >= whole, `${whole} pixels of the reason are in ${shown}`);
  await closePage(page);
});

test('all is not well while executions wait for a group that no node serves', async () => {
  const page = await openPage(scene.address);
  await page.getByText('All is well').waitFor();
  scene.write('report.yaml', 'name: report\nexecutor_group: reports\nsteps:\n  make:\n    exec: ["true"]\n');
  scene.weir('workflow', 'apply', 'report.yaml', '-q');
  const id = scene.enqueue('globex', 'report');
  const trouble = page.locator('.health.is-trouble a', { hasText: 'No node of its executor group' });
  await trouble.click();
  await page.locator(`a.id[title="${id}"]`).waitFor();
  scene.weir('cancel', id, '-q');
  await closePage(page);
});

test('a part of its name leads to a customer that no page shows, in two clicks', async () => {
  for (let number = 0; number < 150; number += 1) {
    const answer = await fetch(`${scene.address}v1/workspaces/customer-${String(number).padStart(3, '0')}`, {
      method: 'PUT',
      headers: { 'Content-Type': 'application/json' },
      body: JSON.stringify({ plan: 'free' }),
    });
    assert.ok(answer.ok, String(answer.status));
  }
  scene.enqueue('customer-149', 'hold');
  const id = scene.enqueue('customer-149', 'hold');
  const page = await openPage(`${scene.address}#/workspaces`);
  await page.locator('main tbody tr', { hasText: 'customer-000' }).waitFor();
  assert.equal(await page.locator('main tbody tr', { hasText: 'customer-149' }).count(), 0);
  const find = page.locator('header').getByRole('combobox');
  await find.fill('customer-14');
  await page.waitForFunction(() =>
    [...document.querySelectorAll('#workspace-names option')].some((option) => option.value === 'customer-149'),
  );
  await find.press('Enter');
  const row = page.locator('main tbody tr', { hasText: 'customer-149' });
  await row.locator('td.number a').first().click();
  await page.locator(`main tbody a.id[title="${id}"]`).click();
  await page.locator('section.why').getByText('Place 1 of 1').waitFor();
  await find.fill('customer-149');
  await page.waitForFunction(() => document.querySelectorAll('#workspace-names option').length === 1);
  await find.press('Enter');
  await page.locator('h1', { hasText: 'Workspace customer-149' }).waitFor();
  await show(page, '#/workspaces?prefix=nobody', 'Workspaces');
  await page.locator('.empty', { hasText: 'begins with nobody' }).waitFor();
  await show(page, '#/executions', 'Executions');
  await page.getByLabel('Filter').fill('workspace=customer-14');
  await page.waitForFunction(() =>
    [...document.querySelectorAll('#filter-words option')].some((option) => option.value === 'workspace=customer-149'),
  );
  await find.fill(id);
  await find.press('Enter');
  await page.locator('h1 code', { hasText: id }).waitFor();
  await closePage(page);
});

test('the choice of colours and times stays in the browser', async () => {
  const page = await openPage(`${scene.address}#/settings`);
  const ground = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const light = await ground();
  await page.getByLabel('dark').check();
  assert.notEqual(await ground(), light);
  await page.getByLabel('UTC').check();
  await page.reload();
  await page.getByLabel('dark').and(page.locator(':checked')).waitFor();
  assert.notEqual(await ground(), light);
  await show(page, '#/executions', 'Executions');
  assert.match(await page.locator('tbody time').first().textContent(), /^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} UTC$/);
  await closePage(page);
});

test('the progress that a handler reports is a bar with its text, and goes with the attempt', async () => {
  const ask = async (verb, body) => {
    const answer = await fetch(`${scene.address}v1/tasks:${verb}`, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json' },
      body: JSON.stringify({ worker: 'one', ...body }),
    });
    assert.equal(answer.status, 200, await answer.clone().text());
    return answer.json();
  };
  scene.write('advance.json', '{"name": "advance", "steps": {"resize": {"handler": "resize"}}}');
  scene.weir('workflow', 'apply', 'advance.json', '-q');
  const id = scene.enqueue('globex', 'advance');
  const { tasks } = await ask('claim', { handlers: ['resize'], wait_us: 30_000_000 });
  const { task } = tasks[0];
  await ask('heartbeat', { tasks: [{ task, progress: { fraction: 0.4, text: '400 of 1000' } }] });
  const page = await openPage(`${scene.address}#/execution/${id}`);
  const bar = page.locator('progress[aria-label="resize"]');
  await bar.waitFor();
  await page.getByText('resize 40 %').waitFor();
  await page.getByText('400 of 1000').waitFor();
  assert.equal(await bar.evaluate((element) => element.value), 0.4);
  await ask('heartbeat', { tasks: [{ task, progress: { text: 'nearly there' } }] });
  await page.getByText('nearly there').waitFor();
  await bar.waitFor({ state: 'detached' });
  await ask('complete', { tasks: [{ task }] });
  await page.getByText('nearly there').waitFor({ state: 'detached' });
  await closePage(page);
});
