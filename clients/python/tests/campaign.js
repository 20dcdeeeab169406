// The functions of apps/campaign.py, for Node.
const { appendFileSync } = require('node:fs');
const { setTimeout: sleep } = require('node:timers/promises');
const { workflow } = require('weir');

function note(event, ctx) {
  const { executionId: execution, attempt, fence, workflow: name } = ctx;
  const line = { event, execution, attempt, fence, workflow: name, pid: process.pid, at: Number(process.hrtime.bigint()) };
  appendFileSync('journal', `${JSON.stringify(line)}\n`);
}

for (const name of ['works', 'works-async']) {
  workflow({ name, retry: { attempts: 50, backoff: '1ms' } }, async ({ ms }, ctx) => {
    note('begin', ctx);
    await sleep(ms);
    note('end', ctx);
    return ctx.attempt;
  });
}
