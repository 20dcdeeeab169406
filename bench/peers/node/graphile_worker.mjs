// graphile-worker, as its documentation's page "Performance" sets it up.
//
// usage: graphile_worker.mjs default|batched|tuned VERB URL COUNT      (verbs: ../README.md)
//
// `default` and `batched` are the two configurations that the page publishes figures for. `tuned` is `batched` with a local
// queue of 2,000 jobs: the page leaves the size to its reader, and this one drained fastest where 500, 1,000, 2,000 and 5,000
// were tried.
process.env.NO_LOG_SUCCESS = "1"; // as in its own performance test
import { ask, Counter, inSets, print, readArguments, Starts, until, versionOf } from "./common.mjs";

const { Logger, makeWorkerUtils, run, runMigrations } = await import("graphile-worker");

const mode = process.argv[2];
const { verb, url, count } = readArguments(1);
const version = versionOf("graphile-worker");
const names = {
  default: "graphile-worker",
  batched: "graphile-worker, batched",
  tuned: "graphile-worker, batched, tuned",
};
const name = names[mode];
if (!name) {
  throw new Error(`there is no mode ${mode}`);
}
const logger = new Logger(() => (level, message) => level === "error" && console.error(message));

const concurrency = 24;
const size = { default: 0, batched: 500, tuned: 2000 }[mode]; // of the local queue; 0 = no batching
const preset = {
  worker: {
    connectionString: url,
    concurrentJobs: concurrency,
    maxPoolSize: concurrency + 1,
    logger,
    ...(size > 0 && { localQueue: { size }, completeJobBatchDelay: 0, failJobBatchDelay: 0 }),
  },
};
const settings =
  `concurrentJobs ${concurrency}, maxPoolSize ${concurrency + 1}` +
  (size > 0 ? `, localQueue.size ${size}, completeJobBatchDelay 0, failJobBatchDelay 0` : "");

async function add(total, makeJob) {
  await runMigrations({ preset });
  const utils = await makeWorkerUtils({ preset });
  await inSets(total, 10000, (first, size) => utils.addJobs(Array.from({ length: size }, (_, i) => makeJob(first + i))));
  await utils.release();
}

async function drain() {
  const runs = new Counter(count);
  const began = performance.now();
  const runner = await run({ preset, taskList: { noop: async () => runs.add(1) } });
  await runs.all;
  await until(async () => (await ask(url, "SELECT count(*)::int FROM graphile_worker.jobs")) === 0);
  const seconds = (performance.now() - began) / 1000;
  await runner.stop();
  print({ name, version, settings, jobs: runs.count, seconds, lifecycles_per_s: runs.count / seconds });
}

// A named queue runs one job at a time: the cap of a tenant.
async function startTen() {
  const starts = new Starts();
  let running = 0;
  const taskList = {
    hold: async () => {
      running++;
      await new Promise(() => {});
    },
    light: async ({ round }) => starts.started(round),
  };
  await run({ preset, taskList });
  await until(() => running > 0);
  const utils = await makeWorkerUtils({ preset });
  const result = await starts.measure(count, (round) =>
    utils.addJobs(
      Array.from({ length: 10 }, (_, i) => ({ identifier: "light", payload: { round }, queueName: `tenant-${i}` })),
    ),
  );
  print({ name, version, settings, ...result, full_tenant_running: running });
  process.exit(0); // the full tenant's job never ends
}

switch (verb) {
  case "fill":
    await add(count, () => ({ identifier: "noop", payload: {} }));
    break;
  case "drain":
    await drain();
    break;
  case "fill-full-tenant":
    await add(count + 1, () => ({ identifier: "hold", payload: {}, queueName: "full-tenant" }));
    break;
  case "start-ten":
    await startTen();
    break;
  default:
    throw new Error(`there is no verb ${verb}`);
}
