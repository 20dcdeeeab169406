const { existsSync, writeFileSync } = require('node:fs');
const { setTimeout: sleep } = require('node:timers/promises');
const { Fail, Retry, workflow } = require('weir');

const RETRY = { attempts: 5, backoff: '1ms' };

function hostile() {
  throw new Error('it has no words');
}

const PROBLEMS = {
  empty: () => Object.create(null),
  number: () => Object.assign(new Error('numbered'), { name: 42 }),
  getter: () => Object.defineProperty(new Error('x'), 'message', { get: hostile }),
  stack: () => Object.defineProperty(new Error('x'), 'stack', { get: hostile }),
  text: () => ({ toString: hostile }),
  proxy: () => new Proxy({}, { get: hostile, getPrototypeOf: hostile }),
  symbol: () => Symbol('only a symbol'),
  nothing: () => undefined,
  nul: () => new Error('a\0b\ud800'),
  fail: () => new Fail(5, { no: 'text' }),
  retry: () => new Retry('co\0de', { message: 'a\0b' }),
};

workflow({ name: 'throws', retry: { attempts: 1 } }, async ({ what }) => {
  throw PROBLEMS[what]();
});

function deep() {
  let value = [];
  for (let at = 0; at < 100_000; at++) {
    value = [value];
  }
  return value;
}

const RESULTS = {
  circle: () => {
    const value = [];
    value.push(value);
    return value;
  },
  deep,
  hostile: () => ({ toJSON: hostile }),
  bigint: () => 1n,
  map: () => ({ deep: { toJSON: () => new Map() } }),
  large: () => 'x'.repeat(1 << 20),
  surrogate: () => '\ud800',
  thenable: () => Object.fromEntries([['then', hostile]]),
};

workflow({ name: 'gives', retry: { attempts: 1 } }, async ({ what }) => RESULTS[what]());

workflow({ name: 'pid' }, () => process.pid);

const ENDS = {
  exit: () => process.exit(0),
  abort: () => process.abort(),
  memory: () => {
    const hoard = [];
    for (;;) {
      hoard.push(new Array(100_000).fill(hoard.length));
    }
  },
};

workflow({ name: 'ends', retry: RETRY }, async ({ how }) => {
  if (!existsSync(`ended-${how}`)) {
    writeFileSync(`ended-${how}`, String(process.pid));
    ENDS[how]();
  }
  return 'lived';
});

workflow({ name: 'waits' }, async ({ number }, ctx) => {
  writeFileSync(`began-${number}`, String(ctx.attempt));
  while (!existsSync('go')) {
    await sleep(5);
  }
  return ctx.attempt;
});

workflow({ name: 'endless', retry: RETRY }, async (_params, ctx) => {
  writeFileSync(`endless-${ctx.attempt}`, String(process.pid));
  while (!existsSync('go'));
  return ctx.attempt;
});
