// BullMQ on Redis, as its documentation's pages on concurrency and on bulk adding describe.
//
// usage: bullmq.mjs VERB URL COUNT      (verbs: ../README.md; the URL is redis+socket://PATH)
//
// The page "Concurrency" names 100 to 300 for jobs that need little processor. Completed jobs are removed, as the page "Going
// to production" recommends.
import { Queue, Worker } from "bullmq";
import { Redis } from "ioredis";
import { Counter, inSets, print, readArguments, until, versionOf } from "./common.mjs";

const { verb, url, count } = readArguments();
const connection = new Redis(url.replace("redis+socket://", ""), { maxRetriesPerRequest: null });
const concurrency = 100;
const queue = new Queue("noop", { connection });

async function fill() {
  const opts = { removeOnComplete: true };
  await inSets(count, 1000, (_first, size) =>
    queue.addBulk(Array.from({ length: size }, () => ({ name: "noop", data: {}, opts }))),
  );
}

async function drain() {
  const fsync = (await connection.config("GET", "appendfsync"))[1];
  const runs = new Counter(count);
  const began = performance.now();
  const worker = new Worker("noop", async () => runs.add(1), { connection, concurrency });
  await runs.all;
  await until(async () => (await queue.getJobCountByTypes("waiting", "active", "delayed", "prioritized")) === 0);
  const seconds = (performance.now() - began) / 1000;
  await worker.close();
  print({
    name: "BullMQ, Redis",
    version: versionOf("bullmq"),
    settings: `concurrency ${concurrency}, removeOnComplete, appendfsync ${fsync}`,
    jobs: runs.count,
    seconds,
    lifecycles_per_s: runs.count / seconds,
  });
}

const verbs = { fill, drain };
if (!Object.hasOwn(verbs, verb)) {
  throw new Error(`there is no verb ${verb}`);
}
await verbs[verb]();
await queue.close();
await connection.quit();
