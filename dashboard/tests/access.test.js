import assert from 'node:assert/strict';
import { generateKeyPairSync, sign } from 'node:crypto';
import http from 'node:http';
import { after, before, test } from 'node:test';
import { closeBrowser, closePage, openBrowser, openPage, Scene, show, views } from './scene.js';

const scene = new Scene();
const refused = [/401|403|404/];
let ids;
const secrets = {};
before(async () => {
  await Promise.all([openBrowser(), scene.start()]);
  ids = scene.fill();
  const make = (name, role, ...words) => {
    secrets[name] = scene.weir(
      'token',
      'create',
      name,
      '--role',
      role,
      ...(words.length ? words : ['--all-workspaces']),
      '-q',
    );
  };
  make('root', 'admin');
  make('reader', 'read');
  make('tenant', 'operate', '--workspace', 'acme');
  make('pair', 'read', '--workspace', 'acme', '--workspace', 'globex');
  scene.until(() => scene.json('token', 'list').items.length === 4);
});
after(async () => {
  await closeBrowser();
  await scene.end();
});

async function signIn(page, name) {
  await page.getByLabel('Token').fill(secrets[name]);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.locator('h1', { hasText: 'Overview' }).waitFor();
}

async function openAs(name) {
  const page = await openPage(scene.address, { allowed: refused });
  await signIn(page, name);
  return page;
}

test('a wrong token is refused, a right one opens the page and outlasts a reload', async () => {
  const page = await openPage(`${scene.address}#/executions?where=status%3DFAILED`, { allowed: refused });
  for (const wrong of ['weir_\u20ac', 'weir_wrong']) {
    await page.getByLabel('Token').fill(wrong);
    await page.getByRole('button', { name: 'Sign in' }).click();
    await page.getByRole('alert').getByText('The node refused the token').waitFor();
  }
  await page.getByLabel('Token').fill(secrets.root);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByText('1 execution', { exact: true }).waitFor(); // the view that the address names
  assert.equal(await page.evaluate(() => document.cookie), '');
  const [cookie] = await page.context().cookies(`${scene.address}v1/session`);
  assert.deepEqual([cookie.httpOnly, cookie.sameSite, cookie.path], [true, 'Strict', '/v1']);
  const stored = await page.evaluate(
    () => JSON.stringify({ ...localStorage, ...sessionStorage }) + document.documentElement.outerHTML,
  );
  assert.ok(!stored.includes(secrets.root));
  await page.reload();
  await page.getByText('1 execution', { exact: true }).waitFor();
  await page.locator('.rail').getByText('root · admin').waitFor();
  await page.getByRole('button', { name: 'Sign out' }).click();
  await page.getByLabel('Token').waitFor();
  await page.reload();
  await page.getByLabel('Token').waitFor();
  await closePage(page);
});

test('a token that reads sees everything and may change nothing', async () => {
  const page = await openAs('reader');
  await show(page, `#/execution/${ids.running}`, 'Execution');
  const cancel = page.getByRole('button', { name: 'Cancel' });
  assert.equal(await cancel.getAttribute('aria-disabled'), 'true');
  assert.match(await cancel.getAttribute('title'), /role read/);
  await cancel.click({ force: true });
  const dialog = page.locator('dialog[open]');
  await dialog.getByText('Your token has the role read').waitFor(); // the reason, and no way to do it
  assert.deepEqual(await dialog.getByRole('button').allInnerTexts(), ['Close']);
  await page.keyboard.press('Escape');
  // The server refuses it as well.
  const answer = await page.evaluate(async (id) => {
    const got = await fetch(`v1/executions/${id}/cancel`, { method: 'POST', headers: { 'Weir-Session': '1' } });
    return [got.status, (await got.json()).code];
  }, ids.running);
  assert.deepEqual(answer, [403, 'not_permitted']);
  for (const hash of ['#/tokens', '#/audit']) {
    await show(page, hash, '');
    await page.getByRole('alert').getByText('Your token may not see this').waitFor();
    await page.getByRole('alert').getByText('has the role read; this needs admin').waitFor();
  }
  assert.deepEqual(await page.locator('.rail .menu a', { hasText: /Tokens|Audit/ }).count(), 0);
  await closePage(page);
});

test('a token of a workspace sees and changes its own alone', async () => {
  const page = await openAs('tenant');
  await page.locator('main tbody tr', { hasText: 'acme' }).waitFor();
  assert.equal(await page.locator('main tbody tr').count(), 1);
  for (const [hash, heading] of views(ids)) {
    await show(page, hash, heading);
    const text = await page.locator('main').textContent();
    assert.doesNotMatch(text, /globex|initech/, hash);
  }
  await show(page, '#/executions', 'Executions');
  await page.getByText('2 executions', { exact: true }).waitFor();
  await show(page, '#/', 'Overview');
  await page.locator('main tbody tr', { hasText: 'acme' }).locator('td.number a').first().click();
  await page.getByText('1 execution', { exact: true }).waitFor();
  assert.equal(await page.getByLabel('Filter').inputValue(), 'workspace=acme status=PENDING');
  await show(page, `#/execution/${ids.failed}`, 'Execution');
  await page.getByRole('alert').getByText('There is nothing here').waitFor();
  await show(page, '#/workspace/globex', 'Workspace globex');
  await page.getByRole('alert').getByText('There is nothing here').waitFor();
  await show(page, '#/executions?where=status%3DPENDING', 'Executions');
  await page.getByRole('button', { name: 'Cancel' }).click();
  await page.locator('dialog[open]').getByText('Cancel 1 execution?').waitFor();
  await page.keyboard.press('Escape');
  await closePage(page);
});

test('a token of two workspaces changes between them', async () => {
  const page = await openAs('pair');
  await page.locator('main tbody tr', { hasText: 'globex' }).waitFor();
  await show(page, '#/executions', 'Executions');
  await page.getByText('2 executions', { exact: true }).waitFor();
  await page.getByRole('combobox', { name: 'Workspace', exact: true }).selectOption('globex');
  await page.getByText('1 execution', { exact: true }).waitFor();
  await page.reload();
  await page.getByText('1 execution', { exact: true }).waitFor();
  await show(page, '#/failures', 'Failures');
  await page.getByText('No failed execution is left').waitFor(); // in acme
  await page.getByRole('combobox', { name: 'Workspace', exact: true }).selectOption('globex');
  await page.getByText('exit_3').first().waitFor();
  await closePage(page);
});

test('a session ends with its token', async () => {
  const secret = scene.weir('token', 'create', 'short', '--role', 'read', '--all-workspaces', '-q');
  secrets.short = secret;
  const page = await openAs('short');
  scene.weir('token', 'revoke', 'short', '-q');
  await page.getByText('Your session ended').waitFor();
  await closePage(page);
});

test('a page of another origin can neither act nor read with the session of its reader', async () => {
  const foreign = http.createServer((_, answer) => {
    answer.setHeader('Content-Type', 'text/html');
    answer.end('<form method="post"></form>');
  });
  await new Promise((resolve) => foreign.listen(0, '127.0.0.1', resolve));
  const page = await openAs('root');
  const other = await page.context().newPage();
  await other.goto(`http://127.0.0.1:${foreign.address().port}/`);
  const target = `${scene.address}v1/pause`;
  const tried = await other.evaluate(async (url) => {
    const attempt = (init) =>
      fetch(url, { credentials: 'include', ...init }).then(
        (got) => `${got.type} ${got.status}`,
        () => 'refused',
      );
    return [
      await attempt({ method: 'POST', mode: 'no-cors' }),
      await attempt({ method: 'POST', headers: { 'Weir-Session': '1' } }),
      await attempt({ method: 'GET', headers: { 'Weir-Session': '1' } }),
    ];
  }, target);
  assert.deepEqual(tried, ['opaque 0', 'refused', 'refused']);
  await other.evaluate((url) => {
    document.forms[0].action = url;
    document.forms[0].submit();
  }, target);
  await other.waitForURL(target);
  assert.match(await other.content(), /cross_origin|unauthorized/);
  assert.equal(scene.json('status').queue_paused, false);
  // Nor is it shown inside of such a page.
  const frame = await other.goto(`http://127.0.0.1:${foreign.address().port}/`).then(() =>
    other.evaluate(async (url) => {
      const element = document.createElement('iframe');
      element.src = url;
      const loaded = new Promise((resolve) => element.addEventListener('load', resolve));
      document.body.append(element);
      await loaded;
      return element.contentDocument === null;
    }, scene.address),
  );
  assert.equal(frame, true);
  const inner = other.frames().find((one) => one !== other.mainFrame());
  assert.doesNotMatch(await inner.content(), /app\.js/);
  foreign.close();
  await closePage(page);
});

test('the sign-in form is there also when the node has had too many wrong tokens of the address', async () => {
  for (let status = 401; status !== 429; ) {
    const wrong = { Authorization: 'Bearer weir_wrong' };
    status = (await fetch(`${scene.address}v1/session`, { headers: wrong })).status;
    assert.ok(status === 401 || status === 429);
  }
  const body = JSON.stringify({ code: 'rate_limited', detail: 'too many requests had no valid token', status: 429 });
  const refuse = (route) => route.fulfill({ status: 429, contentType: 'application/problem+json', body });
  const prepare = (opened) =>
    opened.route('**/v1/session', (route) => (route.request().method() === 'GET' ? refuse(route) : route.continue()));
  const page = await openPage(scene.address, { allowed: [/429|401/], prepare });
  await page.getByRole('alert').getByText('The node refuses more requests for now').waitFor();
  await signIn(page, 'reader');
  await closePage(page);
});

/** An OpenID provider whose page asks nothing. It is another site: `localhost`. */
async function startProvider(redirect) {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const letters = (value) => Buffer.from(JSON.stringify(value)).toString('base64url');
  let nonce = '';
  const server = http.createServer((request, response) => {
    const url = new URL(request.url, 'http://localhost');
    const issuer = `http://localhost:${server.address().port}`;
    const seconds = Math.floor(Date.now() / 1000);
    const person = { email: 'ada@example.com', email_verified: true, groups: ['support'] };
    const claims = { iss: issuer, aud: 'weir', sub: '7', exp: seconds + 60, iat: seconds, nonce };
    const text = `${letters({ alg: 'ES256' })}.${letters({ ...claims, ...person })}`;
    const signature = sign('sha256', Buffer.from(text), { key: privateKey, dsaEncoding: 'ieee-p1363' });
    const answers = {
      '/.well-known/openid-configuration': {
        issuer,
        authorization_endpoint: `${issuer}/authorize`,
        token_endpoint: `${issuer}/token`,
        jwks_uri: `${issuer}/keys`,
      },
      '/keys': { keys: [publicKey.export({ format: 'jwk' })] },
      '/token': { id_token: `${text}.${signature.toString('base64url')}` },
    };
    if (url.pathname === '/authorize') {
      nonce = url.searchParams.get('nonce');
      const answer = new URLSearchParams({ code: 'code', state: url.searchParams.get('state') });
      response.writeHead(302, { Location: `${redirect}?${answer}` }).end();
    } else {
      response.writeHead(url.pathname in answers ? 200 : 404).end(JSON.stringify(answers[url.pathname] ?? {}));
    }
  });
  await new Promise((resolve) => server.listen(0, 'localhost', resolve));
  return server;
}

test('a person signs in by a provider, comes back to the view, and signs out', async () => {
  const redirect = `${scene.address}v1/oidc_callback`;
  const provider = await startProvider(redirect);
  const issuer = `http://localhost:${provider.address().port}`;
  await scene.kill();
  Object.assign(scene.settings, {
    'http.oidc.issuer': issuer,
    'http.oidc.client_id': 'weir',
    'http.oidc.redirect_url': redirect,
    'http.oidc.groups': 'support=read',
    'http.oidc.name': 'Example',
  });
  await scene.start();
  const page = await openPage(`${scene.address}#/workspaces`, { allowed: [/40[0134]/], origins: [issuer] });
  await page.getByRole('link', { name: 'Sign in with Example' }).click();
  await page.locator('h1', { hasText: 'Workspaces' }).waitFor();
  assert.equal(page.url(), `${scene.address}#/workspaces`);
  await page.locator('.rail').getByText('user:ada@example.com/1 · read').waitFor();
  const cookies = await page.context().cookies(`${scene.address}v1/session`);
  assert.deepEqual(
    cookies.map(({ name, httpOnly, sameSite, path }) => [name, httpOnly, sameSite, path]),
    [['weir_session', true, 'Strict', '/v1']],
  );
  // A node that cannot end the session does not keep quiet about it.
  const live = await page.context().cookies();
  await page.route('**/v1/session', (route) =>
    route.request().method() === 'DELETE' ? route.fulfill({ json: { ended: false } }) : route.continue(),
  );
  await page.getByRole('button', { name: 'Sign out' }).click();
  await page.getByRole('alert').getByText('the node could not end it').waitFor();
  await page.getByText("weir token revoke 'user:ada@example.com/1'").waitFor();
  await page.unroute('**/v1/session');
  await page.context().addCookies(live);
  await page.reload();
  await page.locator('h1', { hasText: 'Workspaces' }).waitFor();
  assert.equal(await page.getByRole('alert').count(), 0);
  await page.route('**/v1/session', (route) => route.abort());
  page.allowed.push(/ERR_FAILED/);
  await page.getByRole('button', { name: 'Sign out' }).click();
  await page.locator('.rail').getByRole('alert').waitFor();
  await page.unroute('**/v1/session');
  await page.getByRole('button', { name: 'Sign out' }).click();
  await page.getByRole('link', { name: 'Sign in with Example' }).waitFor();
  assert.equal(scene.json('token', 'list').items.find((row) => row.name.startsWith('user:')).state, 'revoked');
  await page.goto(redirect);
  await page.getByText('This browser has begun no sign-in here').waitFor();
  provider.closeAllConnections();
  provider.close();
  await closePage(page);
});
