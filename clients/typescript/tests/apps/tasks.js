const { existsSync, writeFileSync } = require('node:fs');
const { setTimeout: sleep } = require('node:timers/promises');
const { workflow } = require('weir');

async function waitForGo(signal) {
  while (!existsSync('go')) {
    signal?.throwIfAborted();
    await sleep(5);
  }
}

workflow({ name: 'pid' }, () => process.pid);

workflow({ name: 'waits' }, async (_params, ctx) => {
  writeFileSync(`began-${ctx.attempt}`, String(process.pid));
  await waitForGo(ctx.signal);
  return 'went';
});

workflow({ name: 'claims' }, async (_params, ctx) => {
  writeFileSync(`began-${ctx.attempt}`, String(process.pid));
  await waitForGo();
  return `by ${process.pid}`;
});

workflow({ name: 'stray-rejection' }, async () => {
  void Promise.reject(new Error('stray'));
  await sleep(10);
  return 'done';
});

workflow({ name: 'stray-exception' }, async () => {
  setTimeout(() => {
    throw new Error('stray');
  }, 1);
  await sleep(100);
  return 'finished';
});

workflow({ name: 'blocks' }, async (_params, ctx) => {
  const until = Date.now() + 1000 * Number(process.env.WEIR_BLOCKED_SECONDS ?? 3); // 30 for a full campaign
  while (Date.now() < until);
  return ctx.attempt;
});
