// The memory of a tab that is open for long while the queue changes all the time. The clock of the page is moved by the test,
// and the stream of changes is fed by it, so an hour takes some seconds.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { closeBrowser, closePage, openBrowser, openPage, Scene, show } from './scene.js';

const STEP_MS = 5000; // shorter than the deadline of a read, which must not pass while one is under way
const STEPS = 3_600_000 / STEP_MS;
const WARM_UP_STEPS = 60;
// A page that keeps nothing grows by about 260 KiB, of compiled code and of caches that have a bound. One that keeps each answer
// grows by about 680 KiB here.
const GROWTH_BYTES_MAX = 480 * 1024;
// An answer with 50 executions is so large that one kept answer in each step is found sooner.
const LIST_STEPS = STEPS / 6;
const NODES_MAX = 500;
const LISTENERS_MAX = 50;

const scene = new Scene();
before(async () => {
  await Promise.all([openBrowser(), scene.start()]);
  scene.fill();
  const line = `${JSON.stringify({ workspace: 'acme', workflow: 'hold' })}\n`;
  scene.weirWith(line.repeat(60), 'enqueue', '-', '-q');
});
after(async () => {
  await closeBrowser();
  await scene.end();
});

/** `pushChange()` is an event of the stream, whose connection never ends. */
function feedStream() {
  const ask = globalThis.fetch;
  globalThis.fetch = (path, ...rest) => {
    if (!String(path).startsWith('v1/stream')) return ask(path, ...rest);
    const body = new ReadableStream({
      start(controller) {
        const text = new TextEncoder().encode('id: 1\nevent: change\ndata: {}\n\n');
        globalThis.pushChange = () => controller.enqueue(text);
      },
    });
    return Promise.resolve(new Response(body, { headers: { 'Content-Type': 'text/event-stream' } }));
  };
}

async function measure(session) {
  await session.send('HeapProfiler.collectGarbage');
  const { metrics } = await session.send('Performance.getMetrics');
  const found = Object.fromEntries(metrics.map(({ name, value }) => [name, value]));
  return { bytes: found.JSHeapUsedSize, nodes: found.Nodes, listeners: found.JSEventListeners };
}

/** `read`: what the view asks for at each change. */
async function keepOpen(hash, heading, read, steps) {
  const page = await openPage(scene.address, {
    prepare: async (opened) => {
      await opened.clock.install();
      await opened.addInitScript(feedStream);
    },
  });
  await show(page, hash, heading);
  const session = await page.context().newCDPSession(page);
  await session.send('Performance.enable');
  let reads = 0;
  let open = 0;
  page.on('request', (request) => {
    if (read.test(request.url())) open += 1;
  });
  const end = (request, isRead) => {
    if (!read.test(request.url())) return;
    open -= 1;
    reads += isRead ? 1 : 0;
  };
  page.on('requestfinished', (request) => end(request, true));
  page.on('requestfailed', (request) => end(request, false));
  const live = async (count) => {
    for (let step = 0; step < count; step += 1) {
      await page.evaluate(() => {
        for (let i = 0; i < 5; i += 1) globalThis.pushChange();
      });
      await page.clock.runFor(STEP_MS);
      // A request of the test goes behind those of the page. One that is under way while the clock jumps would seem slow.
      do await page.evaluate(() => fetch('livez').then((answer) => answer.text()));
      while (open > 0);
      if (step % 60 === 0) scene.enqueue('initech', 'quick');
    }
  };
  await live(WARM_UP_STEPS);
  const begin = await measure(session);
  await live(steps);
  const last = await measure(session);
  // A read that seems slow is followed by a rest, so not every step has one.
  assert.ok(reads >= steps / 4, `${reads} reads`);
  assert.ok(last.bytes - begin.bytes < GROWTH_BYTES_MAX, `${begin.bytes} bytes grew to ${last.bytes}`);
  assert.ok(last.nodes - begin.nodes < NODES_MAX, `${begin.nodes} nodes of the page grew to ${last.nodes}`);
  assert.ok(last.listeners - begin.listeners < LISTENERS_MAX, `${begin.listeners} listeners grew to ${last.listeners}`);
  await closePage(page);
}

test('a tab with the overview needs no more memory after an hour of changes', async () => {
  await keepOpen('#/', 'Overview', /v1\/status/, STEPS);
});

test('a tab with the executions needs no more memory after ten minutes of changes', async () => {
  await keepOpen('#/executions', 'Executions', /v1\/executions\?/, LIST_STEPS);
});
