// Node's own share of a worker's memory: as many functions in JavaScript as weir.mjs runs, without weir. It is the base of the
// goal for the memory of the binding.
//
// A program of Node has all of it before any package: the loader of modules from files, V8's compilers, its garbage
// collector, and stdout and stderr, which a worker logs to. `node -e` reaches none of them. A call makes as much garbage as a
// call of weir. Each function waits for a timer once, as functions of programs wait for something. A function that does
// nothing brings V8's optimizing compiler, 5 MiB, to one of the two programs and not to the other.
//
// usage: without_weir.mjs memory URL COUNT      (the URL is not used)
import { readFileSync } from "node:fs";

const SET = 128; // calls in one turn of the event loop, as a worker of weir has
const FIELDS = 100; // about a kilobyte of garbage for each call, which no code of JavaScript writes

const count = Number(process.argv[4]);
let runs = 0;
let resolveAll;
const all = new Promise((resolve) => (resolveAll = resolve));

const pause = () => new Promise((resolve) => setTimeout(resolve, 1));

async function run(_params, _context) {
  await pause();
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
