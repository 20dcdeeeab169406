// Functions in JavaScript on weir, with the settings of a worker without options.
//
// usage: weir.mjs VERB URL COUNT      (verbs: ../README.md; the store is filled by `weir_bench handler fill`)
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";

const began = performance.now(); // of `start`: before the package is loaded
const { configure, version, Worker, workflow } = createRequire(import.meta.url)("weir");

const [verb, url, countText] = process.argv.slice(2);
const count = Number(countText);
const about = { name: "weir, Node", version, settings: "1000 at once" };
const store = configure(url);
let runs = 0;
let resolveAll;
const all = new Promise((resolve) => (resolveAll = resolve));
const run = () => {
  if (++runs === count) {
    resolveAll();
  }
};
const pause = () => new Promise((resolve) => setTimeout(resolve, 1));
// The functions of `memory` wait once, as those of programs do (without_weir.mjs).
workflow({ name: "noop" }, verb === "memory" ? () => pause().then(run) : async () => run());

// Loaded at the end, since it brings the driver of PostgreSQL, which is no part of a worker.
const helpers = () => import("./common.mjs");

const usedUs = () => {
  const { user, system } = process.cpuUsage();
  return user + system;
};

async function drain() {
  const { ask, print, until } = await helpers();
  const usedBefore = usedUs();
  const began = performance.now();
  const worker = new Worker();
  await worker.start();
  await all;
  await until(async () => (await ask(url, "SELECT count(*)::int FROM weir.workflow_execution_queue")) === 0);
  const seconds = (performance.now() - began) / 1000;
  const used = usedUs() - usedBefore;
  await worker.stop();
  print({
    ...about,
    jobs: runs,
    seconds,
    lifecycles_per_s: runs / seconds,
    processor_us: used / runs,
  });
}

// Of the binding alone: the function does nothing but answer.
async function measureProcessor() {
  const require = createRequire(import.meta.url);
  const { native } = require(join(dirname(require.resolve("weir")), "native.js"));
  const usedBefore = usedUs();
  const deliver = (handle) => {
    if (handle === undefined) {
      setImmediate(() => native.deliverMore(node, deliver));
    } else {
      native.answerDone(handle, null);
      run();
    }
  };
  const node = native.createNode(await store.handle(), ["noop"], deliver);
  await native.openNode(node, null, null, 0, 0, 25e6, null);
  await native.startNode(node);
  await all;
  await native.stopNode(node, -1);
  const used = usedUs() - usedBefore;
  (await helpers()).print({ processor_us: used / count, jobs: runs });
  await native.closeNode(node);
}

// From before the package is loaded to the first call of a function that waits in the store.
async function measureStart() {
  const worker = new Worker();
  await worker.start();
  await all;
  const lasted = performance.now() - began;
  (await helpers()).print({ ...about, start_ms: lasted });
  await worker.stop();
}

async function measureMemory() {
  const worker = new Worker();
  await worker.start();
  await all;
  await new Promise((resolve) => setTimeout(resolve, 500)); // the ends are recorded meanwhile
  const status = readFileSync("/proc/self/status", "utf8");
  (await helpers()).print({ ...about, resident_kib: Number(/^VmRSS:\s+(\d+)/m.exec(status)[1]) });
  await worker.stop();
}

const verbs = { drain, processor: measureProcessor, start: measureStart, memory: measureMemory };
if (!Object.hasOwn(verbs, verb)) {
  throw new Error(`there is no verb ${verb}`);
}
await verbs[verb]();
await store.close();
