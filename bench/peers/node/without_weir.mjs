// Node's own share of a worker's memory: as many functions in JavaScript as weir.mjs runs, without weir. It is the base of the
// goal for the memory of the binding.
//
// A program of Node has all of it before any package: the loader of modules from files, V8's first compilers, its garbage
// collector, and stdout and stderr, which a worker logs to. `node -e` reaches none of them. A call makes as much garbage as a
// call of weir. The functions do nothing, as those of weir.mjs: one with a loop brings V8's optimizing compiler, 5.5 MiB, in
// some runs and not in others, and the 1,000 calls of weir.mjs do not bring it.
//
// usage: without_weir.mjs memory URL COUNT      (the URL is not used)
import { readFileSync } from "node:fs";

const SET = 128; // calls in one turn of the event loop, as a worker of weir has
const FIELDS = 100; // about a kilobyte of garbage for each call, which no code of JavaScript writes

const count = Number(process.argv[4]);
let runs = 0;
let resolveAll;
const all = new Promise((resolve) => (resolveAll = resolve));

async function run(_params, _context) {
  if (++runs === count) {
    resolveAll();
  }
}

let made = 0;
function makeSet() {
  for (const end = Math.min(made + SET, count); made < end; made++) {
    run({ number: made }, { id: `execution-${made}`, fields: new Array(FIELDS).fill(made) });
  }
  if (made < count) {
    setImmediate(makeSet);
  }
}

process.stdout.write("");
process.stderr.write("");
makeSet();
await all;
await new Promise((resolve) => setTimeout(resolve, 500)); // as weir.mjs
const status = readFileSync("/proc/self/status", "utf8");
console.log(JSON.stringify({ resident_kib: Number(/^VmRSS:\s+(\d+)/m.exec(status)[1]), jobs: runs }));
