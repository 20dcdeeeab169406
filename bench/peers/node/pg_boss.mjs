// pg-boss with batches of 100 jobs, as its documentation's page "Workers" describes them.
//
// usage: pg_boss.mjs VERB URL COUNT      (verbs: ../README.md)
import { PgBoss } from "pg-boss";
import { ask, Counter, inSets, print, readArguments, Starts, until, versionOf } from "./common.mjs";

const { verb, url, count } = readArguments();
const version = versionOf("pg-boss");
const name = "pg-boss, batches of 100";
const queue = "noop";

async function open(options = {}) {
  const boss = new PgBoss({ connectionString: url, ...options });
  boss.on("error", console.error);
  await boss.start();
  return boss;
}

async function add(total, makeJob) {
  const boss = await open();
  await boss.createQueue(queue, { notify: true });
  await inSets(total, 10000, (first, size) => boss.insert(queue, Array.from({ length: size }, (_, i) => makeJob(first + i))));
  await boss.stop();
}

async function drain() {
  const options = { batchSize: 100, localConcurrency: 4, burstWhenBatchFull: true, pollingIntervalSeconds: 0.5 };
  const boss = await open();
  const runs = new Counter(count);
  const began = performance.now();
  await boss.work(queue, options, async (jobs) => runs.add(jobs.length));
  await runs.all;
  const left = "SELECT count(*)::int FROM pgboss.job WHERE state < 'completed'";
  await until(async () => (await ask(url, left)) === 0);
  const seconds = (performance.now() - began) / 1000;
  await boss.stop({ graceful: false });
  const settings = "batchSize 100, localConcurrency 4, burstWhenBatchFull";
  print({ name, version, settings, jobs: runs.count, seconds, lifecycles_per_s: runs.count / seconds });
}

// A group is a tenant; groupConcurrency is its cap over all nodes. Workers that fetch at the same moment may exceed it, so only
// the first job of the full tenant stays: the other ones would hold all workers.
async function startTen() {
  const starts = new Starts();
  let running = 0;
  const boss = await open({ useListenNotify: true });
  const options = { batchSize: 10, localConcurrency: 4, groupConcurrency: 1, burstWhenBatchFull: true };
  await boss.work(queue, options, async (jobs) => {
    for (const job of jobs.filter((it) => it.data.round !== undefined)) {
      starts.started(job.data.round);
    }
    const held = jobs.filter((it) => it.data.round === undefined).length;
    const isFirst = running === 0 && held > 0;
    running += held;
    await (isFirst && new Promise(() => {}));
  });
  await until(() => running > 0);
  const result = await starts.measure(count, (round) =>
    boss.insert(queue, Array.from({ length: 10 }, (_, i) => ({ data: { round }, group: { id: `tenant-${i}` } }))),
  );
  const settings = "batchSize 10, localConcurrency 4, groupConcurrency 1, useListenNotify";
  print({ name, version, settings, ...result, full_tenant_running: running });
  process.exit(0); // the full tenant's job never ends
}

switch (verb) {
  case "fill":
    await add(count, () => ({ data: {} }));
    break;
  case "drain":
    await drain();
    break;
  case "fill-full-tenant":
    await add(count + 1, () => ({ data: {}, group: { id: "full-tenant" } }));
    break;
  case "start-ten":
    await startTen();
    break;
  default:
    throw new Error(`there is no verb ${verb}`);
}
