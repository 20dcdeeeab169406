// Texts of users in every field: none becomes markup or a script, in any view.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { closeBrowser, closePage, openBrowser, openPage, Scene, show } from './scene.js';

const scene = new Scene();
const corpus = [
  '<img src=x onerror=alert(1)>',
  '"><script>alert(2)</script>',
  "'-alert(3)-'",
  'javascript:alert(4)',
  '</script><svg onload=alert(5)>',
  '{{constructor.constructor("alert(6)")()}}',
  '<iframe srcdoc="<script>alert(7)</script>">',
  '%3Cscript%3Ealert(8)%3C/script%3E',
  'rtl <b>bold</b> 😀 العربية',
  `both "kinds" of 'quotes'`,
];
before(async () => {
  await Promise.all([openBrowser(), scene.start()]);
  scene.fill();
});
after(async () => {
  await closeBrowser();
  await scene.end();
});

async function taken(page, hash, text) {
  await show(page, hash, '');
  await page.waitForFunction((wanted) => document.querySelector('main').textContent.includes(wanted), text);
  // What is a text of a user has made no element.
  assert.equal(await page.locator('#app :is(img, iframe, script, b, object, embed)').count(), 0, hash);
  const links = await page
    .locator('a')
    .evaluateAll((all) => all.map((link) => new URL(link.getAttribute('href'), document.baseURI).protocol));
  assert.ok(
    links.every((protocol) => protocol === 'http:'),
    hash,
  );
}

test('texts of users stay texts in every view', async () => {
  const page = await openPage(scene.address);
  for (const [number, text] of corpus.entries()) {
    const name = `${text} ${number}`;
    scene.weir('workspace', 'set', name, '--plan', 'free', '--reason', text, '-q');
    const output = JSON.stringify(`printf '%s\\n' "$0" "$0" >&2; printf '%s' "$0"; exit 3`);
    scene.write(
      'hostile.yaml',
      `name: hostile-${number}\nsteps:\n  call:\n    exec: [sh, -c, ${output}, ${JSON.stringify(text)}]\n`,
    );
    scene.weir('workflow', 'apply', 'hostile.yaml', '-q');
    const id = scene.enqueue(
      name,
      `hostile-${number}`,
      '-p',
      JSON.stringify({ text, [text]: 1 }),
      '--idempotency-key',
      text,
    );
    scene.until(() => scene.json('show', id).status === 'FAILED');
    await taken(page, '#/', name);
    await taken(page, '#/workspaces', name);
    await taken(page, `#/workspace/${encodeURIComponent(name)}`, name);
    await page.locator('.toolbar a', { hasText: 'failed' }).click();
    await page.locator(`tbody a.id[title="${id}"]`).waitFor();
    await page.getByText('1 execution', { exact: true }).waitFor();
    if (!(text.includes("'") && text.includes('"'))) {
      const filter = `idempotency_key=${text.includes('"') ? `'${text}'` : `"${text}"`}`;
      await taken(page, `#/executions?where=${encodeURIComponent(filter)}`, name);
    }
    await taken(page, `#/execution/${id}`, text);
    await page.getByRole('button', { name: 'Log' }).first().click();
    await page.waitForFunction((wanted) => document.querySelector('[role=log]')?.textContent.includes(wanted), text);
    await taken(page, `#/workflow/hostile-${number}`, JSON.stringify(text).slice(1, -1));
    await taken(page, '#/audit', name);
    await taken(page, `#/audit?subject=${encodeURIComponent(name)}`, text);
    await taken(page, '#/failures', text);
  }
  for (const [kind, text] of corpus.map((text) => ['lock', text])) {
    const answer = await fetch(`${scene.address}v1/locks/${encodeURIComponent(`${kind} ${text}`)}`, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json' },
      body: JSON.stringify({ holder: text, at_most_us: 3_600_000_000 }),
    });
    assert.equal(answer.status, 200, text);
    await taken(page, '#/locks', `${kind} ${text}`);
  }
  await closePage(page);
});

test('an address of another one stays a text', async () => {
  const page = await openPage(scene.address, { allowed: [/40[04]/] });
  for (const text of corpus) {
    const part = encodeURIComponent(text);
    for (const hash of [
      `#/${part}`,
      `#/execution/${part}`,
      `#/workspace/${part}`,
      `#/workflow/${part}`,
      `#/executions?where=${part}`,
      `#/executions?cursor=${part}`,
    ]) {
      await page.evaluate((to) => {
        location.hash = to;
      }, hash);
      await page.getByRole('alert').first().waitFor();
    }
    assert.equal(await page.locator('#app :is(img, iframe, script, b)').count(), 0, text);
  }
  await closePage(page);
});

test('64 KiB of params and a name of 255 characters break no view', async () => {
  const long = 'x'.repeat(64 * 1024 - 20);
  const id = scene.enqueue(
    'acme',
    'quick',
    '--run-at',
    '+3h',
    '-p',
    JSON.stringify({ long }),
    '--idempotency-key',
    'k'.repeat(200),
  );
  for (const width of [360, 1440]) {
    const page = await openPage(`${scene.address}#/execution/${id}`, { width });
    await page.waitForFunction((length) => document.querySelector('pre.data')?.textContent.length > length, long.length);
    const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    assert.ok(wide <= 0, `the page is ${wide} pixels too wide at ${width}`);
    await closePage(page);
  }
});
