// Shared by the programs of this folder: arguments, the database's own view of the queue, and the line they print.
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import pg from "pg";

/** The arguments VERB URL COUNT that follow `skip` words of the program's own. */
export function readArguments(skip = 0) {
  const [verb, url, count] = process.argv.slice(2 + skip);
  if (!verb || !url || !(Number(count) >= 0)) {
    throw new Error("the arguments are VERB URL COUNT");
  }
  return { verb, url, count: Number(count) };
}

export function versionOf(name) {
  const path = new URL(`./node_modules/${name}/package.json`, import.meta.url);
  return JSON.parse(readFileSync(fileURLToPath(path), "utf8")).version;
}

export function print(line) {
  process.stdout.write(JSON.stringify({ ...line, runtime: `Node.js ${process.versions.node}` }) + "\n");
}

export const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** Polls `condition` every millisecond. */
export async function until(condition) {
  while (!(await condition())) {
    await sleep(1);
  }
}

/** The first column of the one row that `sql` returns. */
export async function ask(url, sql) {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    return (await client.query({ text: sql, rowMode: "array" })).rows[0][0];
  } finally {
    await client.end();
  }
}

/** Counts runs; `all` resolves with the run number `wanted`. */
export class Counter {
  count = 0;
  #wanted;
  #resolve;

  constructor(wanted) {
    this.#wanted = wanted;
    this.all = new Promise((resolve) => (this.#resolve = resolve));
  }

  add(number) {
    this.count += number;
    if (this.count >= this.#wanted) {
      this.#resolve();
    }
  }
}

/** Calls `add` with the numbers of jobs to insert, in sets of at most `most`. */
export async function inSets(count, most, add) {
  for (let first = 0; first < count; first += most) {
    await add(first, Math.min(most, count - first));
  }
}

const LIGHT_COUNT = 10;
const WARM_UP_ROUNDS = 3;
const ROUNDS_MIN = 3;
const MEASURE_MS = 60000; // after which no round begins, once there are ROUNDS_MIN

/**
 * Ten jobs of ten tenants, at most `rounds` times: milliseconds from the call that enqueues them to the start of the tenth.
 * `enqueue(round)` inserts them; each of their handlers calls the `started` of this object with the number of the round.
 */
export class Starts {
  #counts = new Map();
  #resolve = null;

  started(round) {
    const count = (this.#counts.get(round) ?? 0) + 1;
    this.#counts.set(round, count);
    if (count === LIGHT_COUNT) {
      this.#resolve(performance.now());
    }
  }

  async measure(rounds, enqueue) {
    const delays = [];
    const end = performance.now() + MEASURE_MS;
    for (let round = 0; delays.length < rounds && (delays.length < ROUNDS_MIN || performance.now() < end); round++) {
      const last = new Promise((resolve) => (this.#resolve = resolve));
      const began = performance.now();
      await enqueue(round);
      const delay = (await last) - began;
      if (round >= WARM_UP_ROUNDS) {
        delays.push(delay);
      }
      // The ends are recorded meanwhile, and a poll does not always meet the same moment of a round.
      await sleep(200 + 7 * (round % 10));
    }
    delays.sort((a, b) => a - b);
    return {
      rounds: delays.length,
      start_of_ten_ms: delays[Math.floor(delays.length / 2)],
      start_of_ten_worst_ms: delays.at(-1),
    };
  }
}
