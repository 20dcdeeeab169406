// A real node on a SQLite file of its own, filled by the command line, and a real browser. A message on the console, a violation
// of the policy, or a request that leaves the node fails the test in which it happens.
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach } from 'node:test';
import { chromium } from 'playwright-core';

const binary = process.env.WEIR_BINARY ?? path.resolve(import.meta.dirname ?? '.', '../../build/weir');
const DEADLINE_MS = 30_000;
const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

const workflows = {
  hold: 'name: hold\nsteps:\n  fetch:\n    exec: [sh, -c, "echo fetched; echo careful >&2"]\n  wait:\n    needs: [fetch]\n    exec: [sleep, "600"]\n',
  quick: 'name: quick\nsteps:\n  greet:\n    exec: [echo, "hello"]\n',
  broken: 'name: broken\nsteps:\n  call:\n    exec: [sh, -c, "echo no answer >&2; exit 3"]\n',
};

export class Scene {
  constructor() {
    this.folder = mkdtempSync(path.join(tmpdir(), 'weir-dashboard-'));
    this.settings = { store: 'sqlite:weir.db' };
    this.port = 0;
  }

  write(name, text) {
    writeFileSync(path.join(this.folder, name), text);
  }

  /** Runs a command; the answer is its output. */
  weir(...words) {
    return this.weirWith('', ...words);
  }

  weirWith(input, ...words) {
    this.write('weir.yaml', JSON.stringify(this.settings));
    return execFileSync(binary, words, { cwd: this.folder, encoding: 'utf8', input, stdio: 'pipe' }).trim();
  }

  json(...words) {
    return JSON.parse(this.weir(...words, '--json'));
  }

  enqueue(workspace, workflow, ...words) {
    return this.weir('enqueue', '-w', workspace, workflow, '-q', ...words);
  }

  /** A workflow whose steps, programs and their arguments, need each other one by one. */
  publish(name, steps) {
    const names = Object.keys(steps);
    const made = names.map((step, place) => [
      step,
      { exec: steps[step], needs: names.slice(Math.max(0, place - 1), place) },
    ]);
    this.write(`${name}.json`, JSON.stringify({ name, steps: Object.fromEntries(made) }));
    this.weir('workflow', 'apply', `${name}.json`, '-q');
  }

  /** An empty store and a node. */
  async start(words = []) {
    if (this.port === 0) this.weir('store', 'init');
    this.write('weir.yaml', JSON.stringify(this.settings));
    return this.run(['serve', '--node', 'one', '--allow-exec', ...words]);
  }

  /** The demo, whose store is its own. A long lease: a busy machine makes no node late, and a death is found without it. */
  startDemo() {
    return this.run(['demo'], { WEIR_NODE_LEASE: '2m' });
  }

  async run(words, environment = {}) {
    const listen = `127.0.0.1:${this.port}`;
    this.node = spawn(binary, [...words, '--listen', listen], {
      cwd: this.folder,
      env: { ...process.env, ...environment },
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    let text = '';
    this.port = await new Promise((resolve, reject) => {
      this.node.stderr.on('data', (data) => {
        text += data;
        const found = /http at 127\.0\.0\.1:(\d+)/.exec(text);
        if (found) resolve(Number(found[1]));
      });
      this.node.on('exit', () => reject(new Error(`the node ended: ${text}`)));
    });
    this.address = `http://127.0.0.1:${this.port}/`;
    for (const end = Date.now() + DEADLINE_MS; !(await fetch(`${this.address}readyz`)).ok; ) {
      assert.ok(Date.now() < end, `the node is not ready: ${text}`);
    }
    return this;
  }

  async kill() {
    const ended = new Promise((resolve) => this.node.once('close', resolve));
    this.node.kill('SIGKILL');
    await ended;
  }

  /** Three plans, one workspace of each with work, and a failure. */
  fill() {
    for (const [name, text] of Object.entries(workflows)) {
      this.write(`${name}.yaml`, text);
      this.weir('workflow', 'apply', `${name}.yaml`, '-q');
    }
    for (const [name, plan] of Object.entries({ acme: 'free', globex: 'pro', initech: 'enterprise' })) {
      this.weir('workspace', 'set', name, '--plan', plan, '-q');
    }
    const running = this.enqueue('acme', 'hold', '-p', '{"customer": 1}');
    const waiting = this.enqueue('acme', 'hold', '-p', '{"customer": 2}');
    const failed = this.enqueue('globex', 'broken', '-p', '{"customer": 3}');
    const done = this.enqueue('initech', 'quick', '--idempotency-key', 'first');
    for (const id of [failed, done]) {
      try {
        this.weir('wait', id);
      } catch {
        // The failed one ends the command with 1.
      }
    }
    this.until(() => this.json('show', running).steps.some((step) => step.step === 'wait'));
    return { running, waiting, failed, done };
  }

  /** A schedule of every night. */
  schedule() {
    this.weir('schedule', 'set', 'nightly', '--cron', '0 3 * * *', '--workflow', 'quick', '-w', 'initech', '-q');
  }

  /** Asks until it is so; each question takes some milliseconds. */
  until(question) {
    for (const end = Date.now() + DEADLINE_MS; !question(); ) assert.ok(Date.now() < end, `not within time: ${question}`);
  }

  async end() {
    if (this.node.exitCode === null && this.node.signalCode === null) await this.kill();
    rmSync(this.folder, { recursive: true, force: true });
  }
}

// The faults of all pages since the end of the test before, also of those that are closed. `page.allowed` has the messages that a
// test expects.
const faults = [];
afterEach(() => assert.deepEqual(faults.splice(0), []));

let browser;
export async function openBrowser() {
  browser = await chromium.launch({
    executablePath: process.env.WEIR_CHROMIUM ?? '/usr/bin/chromium',
    args: ['--no-sandbox', '--disable-gpu'],
  });
}
export const closeBrowser = () => browser.close();

/** `allowed`: messages of the console that the test expects. `origins`: others that the page may ask. `prepare` runs before the page is opened.
 * `beside`: a page; the new one is another tab of its browser. */
export async function openPage(
  address,
  {
    width = 1440,
    theme = 'light',
    allowed = [],
    origins = [],
    prepare = async () => {},
    context: options = {},
    beside,
  } = {},
) {
  const context =
    beside?.context() ?? (await browser.newContext({ viewport: { width, height: 900 }, colorScheme: theme, ...options }));
  context.setDefaultTimeout(DEADLINE_MS);
  const page = await context.newPage();
  page.allowed = [...allowed];
  page.requests = [];
  const origin = new URL(address).origin;
  const known = [origin, 'about:blank', ...origins];
  page.on('request', (request) => {
    page.requests.push(`${request.method()} ${request.url().replace(origin, '')}`);
    if (!known.some((begin) => request.url().startsWith(begin))) {
      faults.push(`a request leaves the node: ${request.url()}`);
    }
  });
  page.on('pageerror', (error) => faults.push(String(error.stack)));
  page.on('dialog', (dialog) => {
    faults.push(`a dialog of the browser: ${dialog.message()}`);
    void dialog.dismiss();
  });
  page.on('console', (message) => {
    const text = message.text();
    if (['error', 'warning'].includes(message.type()) && !page.allowed.some((pattern) => pattern.test(text))) {
      faults.push(`${message.type()}: ${text}`);
    }
  });
  await prepare(page);
  await page.goto(address);
  return page;
}

export async function closePage(page) {
  // An answer that a test holds back may come when the page is gone.
  await page.unrouteAll({ behavior: 'ignoreErrors' });
  await page.context().close();
}

/** axe finds nothing in the page, and it is not wider than the window. */
export async function checkLooks(page) {
  await page.evaluate(axe);
  const found = await page.evaluate(() => globalThis.axe.run());
  assert.deepEqual(
    found.violations.map((one) => [one.id, one.nodes.map((node) => node.html)]),
    [],
  );
  const isWider = await page.evaluate(() => document.documentElement.scrollWidth > window.innerWidth);
  assert.ok(!isWider, 'the page is wider than the window');
}

/** The views, with the heading of each. `ids`: those of Scene.fill(). */
export const views = (ids) => [
  ['#/', 'Overview'],
  ['#/executions', 'Executions'],
  [`#/execution/${ids.running}`, 'Execution'],
  [`#/execution/${ids.failed}`, 'Execution'],
  ['#/waiting', 'Waiting'],
  ['#/failures', 'Failures'],
  ['#/workflows', 'Workflows'],
  ['#/workflow/hold', 'Workflow hold'],
  ['#/workspaces', 'Workspaces'],
  ['#/workspace/acme', 'Workspace acme'],
  ['#/plans', 'Plans'],
  ['#/nodes', 'Nodes'],
  ['#/schedules', 'Schedules'],
  ['#/hooks', 'Hooks'],
  ['#/locks', 'Locks'],
  ['#/tokens', 'Tokens'],
  ['#/audit', 'Audit'],
  ['#/settings', 'Settings'],
];

/** Goes to a view and waits until all that it asks for is there. */
export async function show(page, hash, heading) {
  await page.evaluate((to) => {
    location.hash = to;
  }, hash);
  await page.locator('h1', { hasText: heading }).waitFor();
  await page.waitForFunction(() => document.querySelector('main :is(.loading, [aria-busy=true])') === null);
}

/** Presses the button of an act, gives the reason and confirms. */
export async function perform(page, button, reason, confirm = button) {
  await button.click();
  const dialog = page.locator('dialog[open]');
  await dialog.getByLabel('Reason').fill(reason);
  const name = typeof confirm === 'string' ? confirm : await button.textContent();
  await dialog.getByRole('button', { name, exact: true }).click();
  await dialog.waitFor({ state: 'hidden' });
}
