// Functions in JavaScript on weir, with the settings of a worker without options.
//
// usage: weir.mjs VERB URL COUNT      (verbs: ../README.md; the store is filled by `weir_bench handler fill`)
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";

const began = performance.now(); // of `start`: before the package is loaded
const require = createRequire(import.meta.url);
const { configure, version, Worker, workflow } = require("weir");
const loaded = performance.now();
const { ask, Counter, print, readArguments, sleep, until } = await import("./common.mjs");

const { verb, url, count } = readArguments();
const about = { name: "weir, Node", version, settings: "1000 at once" };
const runs = new Counter(count);
const store = configure(url);
workflow({ name: "noop" }, async () => runs.add(1));

const usedUs = () => {
  const { user, system } = process.cpuUsage();
  return user + system;
};

async function drain() {
  const usedBefore = usedUs();
  const began = performance.now();
  const worker = new Worker();
  await worker.start();
  await runs.all;
  await until(async () => (await ask(url, "SELECT count(*)::int FROM weir.workflow_execution_queue")) === 0);
  const seconds = (performance.now() - began) / 1000;
  const used = usedUs() - usedBefore;
  await worker.stop();
  print({
    ...about,
    jobs: runs.count,
    seconds,
    lifecycles_per_s: runs.count / seconds,
    processor_us: used / runs.count,
  });
}

// Of the binding alone: the function does nothing but answer.
async function measureProcessor() {
  const { native } = require(join(dirname(require.resolve("weir")), "native.js"));
  const usedBefore = usedUs();
  const node = native.createNode(await store.handle(), ["noop"], (_number, handle) => {
    native.answerDone(handle, "null");
    runs.add(1);
  });
  await native.openNode(node, null, null, 0, 0, 25e6, null);
  await native.startNode(node);
  await runs.all;
  await native.stopNode(node, -1);
  print({ processor_us: (usedUs() - usedBefore) / count, jobs: runs.count });
  await native.closeNode(node);
}

// From before the package is loaded to the first call of a function that waits in the store. The helpers of this bench, which
// are loaded after it, do not count.
async function measureStart() {
  const helpers = performance.now() - loaded;
  const worker = new Worker();
  await worker.start();
  await runs.all;
  print({ ...about, start_ms: performance.now() - began - helpers });
  await worker.stop();
}

async function measureMemory() {
  const worker = new Worker();
  await worker.start();
  await runs.all;
  await sleep(500); // the ends are recorded meanwhile
  const status = readFileSync("/proc/self/status", "utf8");
  print({ ...about, resident_kib: Number(/^VmRSS:\s+(\d+)/m.exec(status)[1]) });
  await worker.stop();
}

const verbs = { drain, processor: measureProcessor, start: measureStart, memory: measureMemory };
if (!Object.hasOwn(verbs, verb)) {
  throw new Error(`there is no verb ${verb}`);
}
await verbs[verb]();
await store.close();
