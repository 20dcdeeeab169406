// Node's own share of a worker's memory: as many functions in JavaScript as weir.mjs runs, without weir.
//
// They work a little, so that V8 compiles one of them, and make as much garbage as a call of weir. The optimizing compiler
// and the garbage collector are parts of every such program, and `node -e` reaches neither.
//
// usage: without_weir.mjs memory URL COUNT      (the URL is not used)
import { readFileSync } from "node:fs";

const SET = 128; // calls in one turn of the event loop, as a worker of weir has
const FIELDS = 100; // about a kilobyte of garbage for each call

const count = Number(process.argv[4]);
let runs = 0;
let resolveAll;
const all = new Promise((resolve) => (resolveAll = resolve));

async function run(params, context) {
  for (let at = 0; at < FIELDS; at++) {
    context.fields[at] = at + params.number;
  }
  if (++runs === count) {
    resolveAll();
  }
}

let made = 0;
function makeSet() {
  for (const end = Math.min(made + SET, count); made < end; made++) {
    run({ number: made }, { id: `execution-${made}`, fields: new Array(FIELDS) });
  }
  if (made < count) {
    setImmediate(makeSet);
  }
}

makeSet();
await all;
await new Promise((resolve) => setTimeout(resolve, 500)); // as weir.mjs
const status = readFileSync("/proc/self/status", "utf8");
console.log(JSON.stringify({ resident_kib: Number(/^VmRSS:\s+(\d+)/m.exec(status)[1]), jobs: runs }));
