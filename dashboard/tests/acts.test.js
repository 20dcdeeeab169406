import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { closeBrowser, closePage, openBrowser, openPage, perform, Scene, show } from './scene.js';

const scene = new Scene();
let ids;
let page;
before(async () => {
  await Promise.all([openBrowser(), scene.start()]);
  ids = scene.fill();
  page = await openPage(scene.address);
});
after(async () => {
  await closePage(page);
  await closeBrowser();
  await scene.end();
});

const button = (name, within = page.locator('main')) => within.getByRole('button', { name, exact: true });
const row = (text) => page.locator('main tbody tr', { hasText: text });
const lastAct = (name) => scene.json('audit', '--act', name).items[0];
const status = (id) => scene.json('show', id).status;

test('an act that is not confirmed changes nothing', async () => {
  await show(page, `#/execution/${ids.waiting}`, 'Execution');
  await button('Cancel').click();
  await page.locator('dialog[open]').getByRole('button', { name: 'Do not' }).click();
  await page.locator('dialog[open]').waitFor({ state: 'hidden' });
  await button('Cancel').click();
  await page.locator('dialog[open]').waitFor();
  await page.keyboard.press('Escape');
  await page.locator('dialog[open]').waitFor({ state: 'hidden' });
  assert.equal(status(ids.waiting), 'PENDING');
});

test('an execution is cancelled, with the reason on record', async () => {
  await show(page, `#/execution/${ids.waiting}`, 'Execution');
  await perform(page, button('Cancel'), 'wrong customer, größer');
  await page.locator('section.why', { hasText: 'It was cancelled' }).waitFor();
  assert.equal(status(ids.waiting), 'CANCELLED');
  assert.equal(lastAct('cancel').reason, 'wrong customer, größer');
});

test('a failed execution is retried, and its new one is opened', async () => {
  await show(page, `#/execution/${ids.failed}`, 'Execution');
  await perform(page, button('Retry'), '');
  await page.locator('dt', { hasText: 'retry_of' }).waitFor();
  const made = await page.locator('h1 code').textContent();
  assert.notEqual(made, ids.failed);
  assert.equal(scene.json('show', made).retry_of, ids.failed);
});

test('a retry keeps finished steps, or begins with one of them', async () => {
  scene.publish('half', { first: ['echo', 'kept'], second: ['false'] });
  const id = scene.enqueue('globex', 'half');
  assert.throws(() => scene.weir('wait', id));
  await show(page, `#/execution/${id}`, 'Execution');
  const retry = async (choice) => {
    await page.locator('section.why', { hasText: 'Why it failed' }).waitFor();
    const shown = await page.locator('h1 code').textContent();
    await button('Retry').click();
    const dialog = page.locator('dialog[open]');
    await dialog.getByLabel('Begin').selectOption({ label: choice });
    await dialog.getByRole('button', { name: 'Retry' }).click();
    await page.waitForFunction((old) => document.querySelector('h1 code')?.textContent !== old, shown);
    const made = await page.locator('h1 code').textContent();
    assert.throws(() => scene.weir('wait', made));
    return scene.json('show', made).steps.find((step) => step.step === 'first');
  };
  const kept = await retry('where it ended: finished steps keep their outputs');
  const first = scene.json('show', id).steps.find((step) => step.step === 'first');
  assert.equal(kept.finished_at, first.finished_at);
  const anew = await retry('with first, and the steps that need it');
  assert.ok(anew.finished_at > first.finished_at);
});

test('an execution is started before its time', async () => {
  const id = scene.enqueue('globex', 'quick', '--run-at', '+3h');
  await show(page, `#/execution/${id}`, 'Execution');
  await page.locator('section.why', { hasText: 'scheduled' }).waitFor();
  await perform(page, button('Start now'), 'asked by phone');
  await page.locator('section.why', { hasText: 'It completed' }).waitFor();
  await page.waitForFunction(() => document.activeElement.id === 'main'); // not lost with the button
});

test('an act that came too late is refused in the dialog', async () => {
  page.allowed.push(/409/);
  const id = scene.enqueue('globex', 'quick', '--run-at', '+3h');
  await show(page, `#/execution/${id}`, 'Execution');
  await page.getByRole('button', { name: 'Live' }).click();
  scene.weir('cancel', id, '-q');
  await button('Start now').click();
  const dialog = page.locator('dialog[open]');
  await dialog.getByRole('button', { name: 'Start now' }).click();
  await dialog.getByRole('alert').getByText('illegal_state').waitFor();
  await dialog.getByRole('button', { name: 'Do not' }).click();
  await page.getByRole('button', { name: 'Paused' }).click();
});

test('a workspace is paused, resumed, and gets other limits', async () => {
  await show(page, '#/workspace/globex', 'Workspace globex');
  await perform(page, button('Pause'), 'unpaid');
  await page.locator('.toolbar .state', { hasText: 'paused' }).waitFor();
  assert.equal(scene.json('workspace', 'show', 'globex').paused, true);
  await perform(page, button('Resume'), 'paid');
  await button('Pause').waitFor();
  assert.equal(scene.json('workspace', 'show', 'globex').paused, false);
  await button('Limits').click();
  await page.locator('dialog[open]').getByLabel('Slots at most').fill('7');
  await page.locator('dialog[open]').getByLabel('Pending at most').fill('500000');
  await page.locator('dialog[open]').getByLabel('Plan').selectOption('enterprise');
  await page.locator('dialog[open]').getByRole('button', { name: 'Limits' }).click();
  await page.locator('.toolbar .slots', { hasText: '/7' }).waitFor();
  const set = scene.json('workspace', 'show', 'globex');
  assert.deepEqual([set.plan, set.max_concurrent, set.max_pending], ['enterprise', 7, 500000]);
  // What another operator changes while the dialog is open stays, since this one has not touched it.
  await button('Limits').click();
  await page.locator('dialog[open]').getByLabel('Slots at most').fill('');
  scene.weir('workspace', 'set', 'globex', '--plan', 'pro', '-q');
  await page.locator('dialog[open]').getByRole('button', { name: 'Limits' }).click();
  await page.locator('.toolbar .slots', { hasText: '/5' }).waitFor();
  const left = scene.json('workspace', 'show', 'globex');
  assert.deepEqual([left.plan, left.max_concurrent], ['pro', null]);
});

test('a plan gets another limit', async () => {
  await show(page, '#/plans', 'Plans');
  await button('Limits', row('pro')).click();
  const dialog = page.locator('dialog[open]');
  await dialog.getByLabel('Slots at most').fill('6');
  await dialog.getByLabel('Pending at most').fill('900000');
  await dialog.getByRole('button', { name: 'Limits' }).click();
  await row('pro').locator('td', { hasText: /^6$/ }).waitFor();
  const pro = scene.json('plan', 'list').items.find((plan) => plan.name === 'pro');
  assert.deepEqual([pro.max_concurrent, pro.max_pending], [6, 900000]);
});

test('the queue is paused and resumed', async () => {
  await show(page, '#/', 'Overview');
  await perform(page, button('Pause the queue'), 'deploy');
  await page.locator('.health', { hasText: 'The queue is paused' }).waitFor();
  assert.equal(lastAct('pause').reason, 'deploy');
  await perform(page, button('Resume the queue'), '');
  await page.getByText('All is well').waitFor();
});

test('a node is paused and resumed', async () => {
  await show(page, '#/nodes', 'Nodes');
  await perform(page, button('Pause', row('one')), 'disk');
  await row('one').locator('.state', { hasText: 'paused' }).waitFor();
  await perform(page, button('Resume', row('one')), '');
  await row('one').locator('.state', { hasText: 'alive' }).waitFor();
});

test('a workflow is disabled and enabled', async () => {
  await show(page, '#/workflow/quick', 'Workflow quick');
  await perform(page, button('Disable'), 'broken');
  await page.locator('.toolbar .state', { hasText: 'disabled' }).waitFor();
  assert.throws(() => scene.enqueue('acme', 'quick'), /disabled/);
  await perform(page, button('Enable'), '');
  await page.locator('.toolbar .state', { hasText: 'enabled' }).waitFor();
});

test('a hook is paused and resumed', async () => {
  scene.weir('hook', 'set', 'crm', '--on', 'FAILED', '--start-workspace', 'initech', '--start-workflow', 'quick', '-q');
  await show(page, '#/hooks', 'Hooks');
  await perform(page, button('Pause', row('crm')), 'too many');
  await row('crm').locator('.state', { hasText: 'paused' }).waitFor();
  await perform(page, button('Resume', row('crm')), '');
  await row('crm').locator('.state', { hasText: 'enabled' }).waitFor();
});

test('a schedule is triggered, paused and resumed', async () => {
  scene.schedule();
  await show(page, '#/schedules', 'Schedules');
  await row('nightly').getByText('0 3 * * *').waitFor();
  await perform(page, button('Trigger', row('nightly')), 'asked for');
  await row('nightly').locator('.state', { hasText: 'completed' }).waitFor();
  assert.equal(lastAct('schedule trigger').reason, 'asked for');
  await perform(page, button('Pause', row('nightly')), 'holiday');
  await row('nightly').locator('.state', { hasText: 'paused' }).waitFor();
  await perform(page, button('Resume', row('nightly')), '');
  await row('nightly').locator('.state', { hasText: 'enabled' }).waitFor();
});

test('a lock is taken from its holder', async () => {
  const taken = await fetch(`${scene.address}v1/locks/nightly`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify({ holder: 'worker-7', at_most_us: 3_600_000_000 }),
  });
  assert.equal(taken.status, 200);
  await show(page, '#/locks', 'Locks');
  await row('nightly').getByText('worker-7').waitFor();
  await perform(page, button('Release', row('nightly')), 'worker-7 is gone');
  await row('nightly').locator('.state', { hasText: 'free' }).waitFor();
});

test('a list of more rows than a page has leads to the last one', async () => {
  for (let number = 0; number < 201; number += 1) {
    const answer = await fetch(`${scene.address}v1/locks/many-${String(number).padStart(3, '0')}`, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json' },
      body: JSON.stringify({ holder: 'worker-7', at_most_us: 3_600_000_000 }),
    });
    assert.equal(answer.status, 200);
  }
  await show(page, '#/locks', 'Locks');
  for (let number = 0; number < 2; number += 1) {
    const before = await page.locator('main tbody tr').first().textContent();
    await page.getByRole('link', { name: 'Next page' }).click();
    await page.waitForFunction((text) => document.querySelector('main tbody tr')?.textContent !== text, before);
  }
  await row('many-200').waitFor();
});

test('all that match are counted, asked for, and retried', async () => {
  const before = ['a', 'b', 'c'].map(() => scene.enqueue('initech', 'broken'));
  scene.until(() => before.every((id) => status(id) === 'FAILED'));
  await show(page, '#/executions?where=workspace%3Dinitech%20status%3DFAILED', 'Executions');
  await page.getByText('3 executions', { exact: true }).waitFor();
  await button('Retry').click();
  const dialog = page.locator('dialog[open]');
  await dialog.getByText('Retry 3 executions?').waitFor();
  await dialog.getByLabel('Reason').fill('crm is back');
  await dialog.getByRole('button', { name: 'Retry 3' }).click();
  await dialog.getByText('Done: 3 of 3 changed').waitFor();
  await dialog.getByRole('button', { name: 'Close' }).click();
  assert.equal(lastAct('retry').reason, 'crm is back');
  const filter = 'workspace=initech status=FAILED';
  assert.equal(await page.getByLabel('Filter').inputValue(), filter); // it outlives the act
  assert.equal(new URL(page.url()).hash, `#/executions?where=${encodeURIComponent(filter)}`);
  scene.until(() => scene.json('list', '--where', 'workspace=initech status=FAILED').items.length === 6);
});

test('a bulk retry keeps finished steps when that is chosen', async () => {
  const id = scene.enqueue('globex', 'half');
  assert.throws(() => scene.weir('wait', id));
  await show(page, `#/executions?where=id%3D${id}`, 'Executions');
  await button('Retry').click();
  const dialog = page.locator('dialog[open]');
  await dialog.getByLabel('Keep finished steps').check();
  await dialog.getByRole('button', { name: 'Retry 1' }).click();
  await dialog.getByText('Done: 1 of 1 changed').waitFor();
  await dialog.getByRole('button', { name: 'Close' }).click();
  const first = (of) => scene.json('show', of).steps.find((step) => step.step === 'first');
  scene.until(() => scene.json('list', '--where', 'workflow=half').items.some((item) => item.retry_of === id));
  const made = scene.json('list', '--where', 'workflow=half').items.find((item) => item.retry_of === id).id;
  assert.equal(first(made).finished_at, first(id).finished_at);
});

test('a bulk act is stopped, and what it has changed by then stays changed', async () => {
  const line = `${JSON.stringify({ workspace: 'globex', workflow: 'hold', run_at: '2099-01-01T00:00:00Z' })}\n`;
  for (let number = 0; number < 10; number += 1) scene.weirWith(line.repeat(1000), 'enqueue', '-', '-q');
  await show(page, '#/executions?where=workspace%3Dglobex%20status%3DPENDING', 'Executions');
  await button('Cancel').click();
  const dialog = page.locator('dialog[open]');
  await dialog.getByRole('button', { name: 'Cancel 10,000' }).click();
  await dialog.getByRole('button', { name: 'Stop' }).click();
  await dialog.getByText('Stopped').waitFor();
  const [, changed] = /([\d,]+) of 10,000 changed/.exec(await dialog.textContent());
  await dialog.getByRole('button', { name: 'Close' }).click();
  const left = scene.json('list', '--where', 'workspace=globex status=PENDING', '--count').count;
  assert.equal(left, 10_000 - Number(changed.replaceAll(',', '')));
  assert.ok(left > 0);
});

test('executions behind many others are found', async () => {
  const line = `${JSON.stringify({ workspace: 'globex', workflow: 'hold', run_at: '2099-01-01T00:00:00Z' })}\n`;
  for (let number = 0; number < 12; number += 1) scene.weirWith(line.repeat(1000), 'enqueue', '-', '-q');
  await show(page, '#/executions?where=workspace%3Dinitech%20workflow%3Dbroken', 'Executions');
  await page.getByText('6 executions', { exact: true }).waitFor();
  assert.equal(await page.locator('main tbody tr').count(), 6);
  await show(page, '#/executions?where=workspace%3Dinitech%20error_code%3Dexit_9', 'Executions');
  await page.getByText('No execution matches').waitFor();
});

test('a bulk act that is pressed twice is sent once', async () => {
  scene.weir('workspace', 'set', 'twice', '--plan', 'free', '-q');
  for (let number = 0; number < 2; number += 1) scene.enqueue('twice', 'quick', '--run-at', '+3h');
  await show(page, '#/executions?where=workspace%3Dtwice%20status%3DPENDING', 'Executions');
  await button('Cancel').click();
  const dialog = page.locator('dialog[open]');
  await dialog.getByText('Cancel 2 executions?').waitFor();
  const held = [];
  await page.route('**/v1/bulk', (route) => {
    held.push(route);
  });
  const sent = page.waitForRequest('**/v1/bulk');
  await dialog.locator('button[type=submit]').evaluate((submit) => {
    submit.click();
    submit.click();
  });
  await sent;
  await dialog.getByLabel('Reason').press('Enter');
  await page.evaluate(() => fetch('livez')); // it is behind all that the page has sent
  assert.equal(held.length, 1);
  await held[0].continue();
  await page.unroute('**/v1/bulk');
  await dialog.getByText('Done: 2 of 2 changed').waitFor();
  assert.equal(await dialog.getByRole('alert').count(), 0);
  await dialog.getByRole('button', { name: 'Close' }).click();
});

test('a bulk act is followed to its end over polls that are lost, also with its dialog closed', async () => {
  page.allowed.push(/ERR_FAILED|404/);
  scene.weir('workspace', 'set', 'lost', '--plan', 'free', '-q');
  for (let number = 0; number < 3; number += 1) scene.enqueue('lost', 'quick', '--run-at', '+3h');
  await show(page, '#/executions?where=workspace%3Dlost%20status%3DPENDING', 'Executions');
  await button('Cancel').click();
  const dialog = page.locator('dialog[open]');
  let polls = 0;
  let held;
  const third = new Promise((resolve) => {
    held = resolve;
  });
  const body = JSON.stringify({ code: 'bulk_not_found', detail: 'this node knows no such act', status: 404 });
  await page.route('**/v1/bulk/*', (route) => {
    polls += 1;
    if (polls === 1) return route.abort();
    return polls === 2 ? route.fulfill({ status: 404, contentType: 'application/problem+json', body }) : held(route);
  });
  await dialog.getByRole('button', { name: 'Cancel 3' }).click();
  await dialog.getByText('The act runs on the node one').waitFor();
  const route = await third;
  await dialog.getByRole('button', { name: 'Close, it goes on' }).click();
  await dialog.waitFor({ state: 'hidden' });
  await page
    .locator('header')
    .getByRole('button', { name: /^Cancel: \d of 3$/ })
    .click();
  await route.continue();
  await page.unroute('**/v1/bulk/*');
  await dialog.getByText('Done: 3 of 3 changed').waitFor();
  await dialog.getByRole('button', { name: 'Close' }).click();
  assert.equal(
    await page
      .locator('header')
      .getByRole('button', { name: /^Cancel/ })
      .count(),
    0,
  );
});

test('a page that is opened while a bulk act runs leads to it', async () => {
  const job = { id: 'b1', node: 'one', act: 'cancel', state: 'running', matched: 100, matched_is_exact: true, changed: 40 };
  let state = 'running';
  await page.route(/\/v1\/bulk/, (route) => {
    if (route.request().method() === 'DELETE') state = 'stopped';
    const now = { ...job, requested: 0, refused: 0, state };
    return route.fulfill({ json: route.request().url().endsWith('/bulk') ? { items: [now] } : now });
  });
  await page.reload();
  await page.locator('header').getByRole('button', { name: 'Cancel: 40 of 100' }).click();
  const dialog = page.locator('dialog[open]');
  await dialog.getByText('Working: 40 of 100 changed').waitFor();
  await dialog.getByRole('button', { name: 'Stop' }).click();
  await dialog.getByText('Stopped: 40 of 100 changed').waitFor();
  await dialog.getByRole('button', { name: 'Close' }).click();
  await page.unroute(/\/v1\/bulk/);
});

test('a bulk act changes nothing when the count is another one by then', async () => {
  page.allowed.push(/409/);
  const late = () => scene.enqueue('initech', 'quick', '--run-at', '+3h');
  late();
  await show(page, '#/executions?where=workspace%3Dinitech%20status%3DPENDING', 'Executions');
  await button('Cancel').click();
  const dialog = page.locator('dialog[open]');
  await dialog.getByText('Cancel 1 execution?').waitFor();
  late();
  await dialog.getByRole('button', { name: 'Cancel 1' }).click();
  await dialog.getByRole('alert').waitFor();
  await dialog.getByRole('button', { name: 'Do not' }).click();
  assert.equal(scene.json('list', '--where', 'workspace=initech status=PENDING').items.length, 2);
});

test('a token is revoked', async () => {
  page.allowed.push(/401/); // the first token: from now on a request needs one
  const secret = scene.weir('token', 'create', 'root', '--role', 'admin', '--all-workspaces', '-q');
  scene.weir('token', 'create', 'ci', '--role', 'enqueue', '--workspace', 'acme', '-q');
  await page.getByLabel('Token').waitFor();
  await page.getByLabel('Token').fill(secret);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await show(page, '#/tokens', 'Tokens');
  await row('ci').getByText('acme').waitFor();
  await perform(page, button('Revoke', row('ci')), 'lost');
  await row('ci').locator('.state', { hasText: 'revoked' }).waitFor();
  const act = lastAct('token revoke');
  assert.deepEqual([act.actor, act.reason], ['token:root', 'lost']);
});

test('a node is drained', async () => {
  await show(page, '#/nodes', 'Nodes');
  await perform(page, button('Drain', row('one')), 'old machine');
  await row('one').locator('.state', { hasText: 'draining' }).waitFor();
  assert.equal(lastAct('node drain').reason, 'old machine');
});
