/** Functions in a real worker on a real store. */

import assert from 'node:assert/strict';
import { beforeEach, type TestContext, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  Cancelled,
  type Context,
  EnqueueManyError,
  ExecutionFailed,
  ExecutionNotFound,
  Fail,
  KeyReused,
  Misuse,
  ParamsError,
  Registry,
  Retry,
  Store,
  type StoreEvent,
  StoreUnavailable,
  TimedOut,
  Worker,
  WorkspaceNotFound,
  workflow,
} from 'weir';
import { runInline } from 'weir/testing';
import { makeStore, makeWorker, silent, waitUntil } from './support';

/** A name for the tests of objects that are like promises. */
const THEN = 'then';

const calls: Context[] = [];
let began: unknown[] = [];
let openGate: () => void;
let gate: Promise<void>;

beforeEach(() => {
  calls.length = 0;
  began = [];
  gate = new Promise((resolve) => {
    openGate = resolve;
  });
});

const echo = workflow({ name: 'echo' }, async (params: { order: number; note?: string }, ctx) => {
  calls.push(ctx);
  return { order: params.order, note: params.note ?? '', workspace: ctx.workspace, attempt: ctx.attempt };
});
const busyOnce = workflow({ name: 'busy-once', retry: { attempts: 3, backoff: '1h' } }, (_params, ctx) => {
  if (ctx.attempt === 1) {
    throw new Retry('bank_busy', { message: 'not now', after: '1ms' });
  }
  return 'second time';
});
const refuses = workflow({ name: 'refuses' }, async () => {
  throw new Fail('card_declined', 'no money');
});
const broken = workflow({ name: 'broken', retry: { attempts: 2, backoff: '1ms' } }, async () => {
  throw new RangeError('out of range');
});
const throwsText = workflow({ name: 'throws-text', retry: { attempts: 1 } }, async () => {
  throw 'only a text';
});
const noJson = workflow({ name: 'no-json' }, () => ({ amount: Number.NaN }));
const tooLarge = workflow({ name: 'too-large' }, async () => 'x'.repeat(1 << 20));
const naps = workflow({ name: 'naps' }, async (params: { number: number }) => {
  began.push(params.number);
  await gate;
  return params.number;
});
const advances = workflow({ name: 'advances' }, async (params: { fraction: number | null; text?: string | null }, ctx) => {
  calls.push(ctx);
  ctx.progress(0.1, 'begins');
  ctx.progress(params.fraction ?? Number.NaN, params.text);
  await gate;
});
const listens = workflow({ name: 'listens' }, async (_params, ctx) => {
  began.push('began');
  try {
    await sleep(3_600_000, undefined, { signal: ctx.signal });
  } finally {
    began.push('ended');
  }
});
const beats = workflow({ name: 'beats' }, async (_params, ctx) => {
  began.push('began');
  for (;;) {
    ctx.heartbeat();
    await sleep(2);
  }
});
/** Returns how many of it have begun in this turn of the event loop, and keeps the loop busy for a millisecond. */
const busy = workflow({ name: 'busy' }, async () => {
  const until = performance.now() + 1;
  while (performance.now() < until);
  return began.push('busy');
});
/** It asks for its signal when it has been cancelled already. */
const asksLate = workflow({ name: 'asks-late', retry: { attempts: 1 } }, async (_params, ctx) => {
  began.push(ctx.executionId);
  for (;;) {
    try {
      ctx.heartbeat();
    } catch (problem) {
      await waitUntil(() => ctx.signal.aborted); // the library sees a cancellation before the event loop does
      began.push(ctx.signal.reason);
      throw problem;
    }
    await sleep(2);
  }
});
const changesSecrets = workflow({ name: 'changes-secrets' }, async (_params, ctx) => {
  try {
    (ctx.secrets as Record<string, string>)['stripe-key'] = 'of another workspace';
  } catch (problem) {
    return (problem as Error).name;
  }
  return 'changed';
});
const never = workflow({ name: 'never', retry: { attempts: 1 } }, async () => {
  began.push('began');
  await new Promise(() => undefined);
});
const slow = workflow({ name: 'slow', retry: { attempts: 1 }, timeout: '100ms' }, async (_params, ctx) => {
  await sleep(60_000, undefined, { signal: ctx.signal });
});

function failure(code: string, text: string) {
  return (problem: unknown) => {
    assert.ok(problem instanceof ExecutionFailed, String(problem));
    assert.equal(problem.code, code);
    assert.match(problem.message, new RegExp(text));
    return true;
  };
}

test('a key for other services names the execution and the step, also in a copy of the context', async (t) => {
  const store = await makeStore(t);
  await makeWorker(t);
  const id = await echo.enqueue({ workspace: 'acme', params: { order: 1 } });
  await store.result(id);
  const copy = { ...(calls[0] as Context) };
  assert.equal(copy.idempotencyKey, `${id}/run`);
});

test('a function gets its params and its result is recorded', async (t) => {
  const store = await makeStore(t);
  await makeWorker(t);
  const id = await echo.enqueue({ workspace: 'acme', params: { order: 42 }, key: 'order-42' });
  const result: { order: number } = await store.result(id, { timeout: 60 });
  assert.deepEqual(result, { order: 42, note: '', workspace: 'acme', attempt: 1 });
  assert.equal(await echo.enqueue({ workspace: 'acme', params: { order: 42 }, key: 'order-42' }), id);
  await assert.rejects(echo.enqueue({ workspace: 'acme', params: { order: 43 }, key: 'order-42' }), KeyReused);
  assert.equal(calls[0]?.executionId, id);
  const copy = { ...(calls[0] as Context) };
  assert.equal(copy.idempotencyKey, `${id}/run`);
  assert.equal(calls[0]?.step, 'run');
  assert.ok((calls[0]?.fence ?? 0) > 0);
});

test('a function may return a value, a promise, or another thing with then(), and throw before or after it', async (t) => {
  const store = await makeStore(t);
  const register = new Registry();
  const returns: Record<string, () => unknown> = {
    value: () => ({ kind: 'value' }),
    nothing: () => undefined,
    promise: () => Promise.resolve('promise'),
    thenable: () => ({ [THEN]: (take: (value: string) => void) => take('thenable') }),
    function: () => Object.assign(() => 0, { [THEN]: (take: (value: string) => void) => take('function') }),
    'no-promise': () => ({ [THEN]: 'a property' }),
    throws: () => {
      throw new Fail('thrown', 'at once');
    },
    rejects: () => Promise.reject(new Fail('rejected', 'later')),
    'refuses-then': () => ({ [THEN]: (_take: unknown, refuse: (problem: Error) => void) => refuse(new Fail('refused')) }),
    'hides-then': () => ({
      get [THEN]() {
        throw new Fail('hidden');
      },
    }),
  };
  const workflows = Object.entries(returns).map(([name, handler]) =>
    workflow({ name, register, retry: { attempts: 1 } }, handler),
  );
  const worker = await makeWorker(t, { workflows });
  const ends: unknown[] = [];
  for (const one of workflows) {
    const end = one.enqueue({ workspace: 'acme' }).then((id) => store.result(id));
    ends.push(await end.catch((problem: ExecutionFailed) => problem.code));
  }
  assert.deepEqual(ends, [
    { kind: 'value' },
    null,
    'promise',
    'thenable',
    'function',
    { [THEN]: 'a property' },
    'thrown',
    'rejected',
    'refused',
    'hidden',
  ]);
  await waitUntil(() => worker.running === 0);
});

test('a workspace has a name of any language', async (t) => {
  const store = await makeStore(t);
  const name = 'M\u00fcller \u682a\u5f0f\u4f1a\u793e';
  await store.setWorkspace(name);
  await makeWorker(t);
  const id = await echo.enqueue({ workspace: name, params: { order: 1 } });
  assert.equal((await store.result(id, { timeout: 60 })).workspace, name);
});

test('texts of every length about that of the short buffer are whole', async (t) => {
  const store = await makeStore(t);
  await makeWorker(t);
  const notes = ['x', '\u00e9', '\u20ac', '\u{1f600}'].flatMap((last) =>
    Array.from({ length: 48 }, (_, at) => 'x'.repeat(80 + at) + last),
  );
  const ids = await echo.enqueueMany(notes.map((note, order) => ({ workspace: 'acme', params: { order, note } })));
  for (const [at, id] of ids.entries()) {
    assert.equal((await store.result(id, { timeout: 60 })).note, notes[at]);
  }
});

test('the progress of a function is shown until its end', async (t) => {
  const store = await makeStore(t);
  await makeWorker(t, { store, workflows: [advances] });
  const cases: [number | null, string | null | undefined, number | null, string | null][] = [
    [0.4, '400 of 1000', 0.4, '400 of 1000'],
    [null, undefined, null, null],
    [null, 'a\0b\n', null, 'a b '],
    [7, 'é'.repeat(150), 1, 'é'.repeat(100)],
    [-1, '', 0, null],
    [0.2, null, 0.2, null],
  ];
  for (const [fraction, text, shownFraction, shownText] of cases) {
    const params = { fraction, ...(text === undefined ? {} : { text }) };
    const id = await advances.enqueue({ workspace: 'acme', params, store });
    await waitUntil(
      async () => {
        const [report] = (await store.show(id)).progress as Record<string, unknown>[];
        return report?.attempt === 1 && report.fraction === shownFraction && report.text === shownText;
      },
      `progress ${String(text)}`,
    );
    openGate();
    assert.deepEqual((await store.wait(id, { timeout: 60 })).progress, []);
    calls.pop()?.progress(0.9); // after the end: nothing
    gate = new Promise((resolve) => {
      openGate = resolve;
    });
  }
});

test('a retry takes its own delay', async (t) => {
  const store = await makeStore(t);
  await makeWorker(t);
  assert.equal(await store.result(await busyOnce.enqueue({ workspace: 'acme' }), { timeout: 60 }), 'second time');
});

for (const [failing, code, text] of [
  [refuses, 'card_declined', 'no money'],
  [broken, 'range_error', 'out of range'],
  [throwsText, 'exception', 'only a text'],
  [noJson, 'result_not_json', 'amount.*NaN'],
  [tooLarge, 'handler_bad_output', 'larger'],
] as const) {
  test(`the execution of ${failing.name} fails with ${code}, and the worker goes on`, async (t) => {
    const store = await makeStore(t);
    await makeWorker(t);
    const id: string = await failing.enqueue({ workspace: 'acme' });
    await assert.rejects(store.result(id, { timeout: 60 }), failure(code, text));
    const next = await echo.enqueue({ workspace: 'acme', params: { order: 1 } });
    assert.equal((await store.result(next, { timeout: 60 })).order, 1);
  });
}

test('a hundred functions share one event loop', async (t) => {
  const store = await makeStore(t);
  await makeWorker(t);
  await store.setWorkspace('acme', { maxConcurrent: 100 });
  const numbers = [...Array(100).keys()];
  const ids = await naps.enqueueMany(numbers.map((number) => ({ workspace: 'acme', params: { number } })));
  await waitUntil(() => began.length === 100);
  openGate();
  assert.deepEqual(await Promise.all(ids.map((id) => store.result(id, { timeout: 60 }))), numbers);
});

test('more functions than one turn of the event loop takes begin in their order', async (t) => {
  const store = await makeStore(t);
  await store.setWorkspace('acme', { maxConcurrent: 500 });
  const numbers = [...Array(500).keys()];
  await naps.publish(store);
  const ids = await naps.enqueueMany(numbers.map((number) => ({ workspace: 'acme', params: { number } })));
  await makeWorker(t);
  await waitUntil(() => began.length === 500);
  openGate();
  assert.deepEqual(await Promise.all(ids.map((id) => store.result(id, { timeout: 60 }))), numbers);
  assert.deepEqual(began, numbers);
});

test('the event loop has turns between functions that keep it busy', async (t) => {
  const store = await makeStore(t);
  await store.setWorkspace('acme', { maxConcurrent: 1000 });
  await busy.publish(store);
  const ids = await busy.enqueueMany([...Array(1000).keys()].map(() => ({ workspace: 'acme', params: {} })));
  let isOver = false;
  const turn = () => {
    began = [];
    if (!isOver) {
      setImmediate(turn);
    }
  };
  turn();
  await makeWorker(t);
  const most = await Promise.all(ids.map((id) => store.result(id, { timeout: 60 })));
  isOver = true;
  assert.ok(Math.max(...(most as number[])) <= 300, `${Math.max(...(most as number[]))} calls in one turn`);
});

test('a signal that is asked for after the cancellation is aborted', async (t) => {
  const store = await makeStore(t);
  await makeWorker(t);
  const id = await asksLate.enqueue({ workspace: 'acme' });
  await waitUntil(() => began.length === 1);
  await store.cancel(id, 'changed my mind');
  assert.equal((await store.wait(id, { timeout: 60 })).status, 'CANCELLED');
  await waitUntil(() => began.length === 2);
  assert.ok(began[1] instanceof Cancelled);
});

test('a function cannot leave a secret for the next one', async (t) => {
  const store = await makeStore(t);
  await makeWorker(t);
  const id = await changesSecrets.enqueue({ workspace: 'acme' });
  assert.equal(await store.result(id, { timeout: 60 }), 'TypeError');
});

test('the cap of a workspace holds for functions that wait', async (t) => {
  const store = await makeStore(t);
  await makeWorker(t);
  await store.setWorkspace('acme', { maxConcurrent: 3 });
  const ids: string[] = [];
  for (let number = 0; number < 10; number++) {
    ids.push(await naps.enqueue({ workspace: 'acme', params: { number } }));
  }
  await waitUntil(() => began.length >= 3);
  await waitUntil(async () => (await store.why(ids[9] as string)).pending_reason === 'workspace_at_capacity', 'the cap');
  assert.equal(began.length, 3);
  openGate();
  for (const id of ids) {
    await store.result(id, { timeout: 60 });
  }
});

for (const cancelled of [listens, beats]) {
  test(`a cancellation ends ${cancelled.name}`, async (t) => {
    const store = await makeStore(t);
    await makeWorker(t);
    const id = await cancelled.enqueue({ workspace: 'acme' });
    await waitUntil(() => began.length === 1);
    await store.cancel(id, 'changed my mind');
    assert.equal((await store.wait(id, { timeout: 60 })).status, 'CANCELLED');
    await waitUntil(() => cancelled === beats || began.length === 2);
  });
}

test('the timeout of an attempt aborts its signal', async (t) => {
  const store = await makeStore(t);
  await makeWorker(t);
  await assert.rejects(store.result(await slow.enqueue({ workspace: 'acme' }), { timeout: 60 }), failure('timeout', ''));
});

test('a promise that never settles keeps its slot until its cancellation, and then loses it', async (t) => {
  const store = await makeStore(t);
  await makeWorker(t, { abandon: '200ms' });
  const id = await never.enqueue({ workspace: 'acme' });
  await waitUntil(() => began.length === 1);
  await assert.rejects(store.wait(id, { timeout: '50ms' }), TimedOut);
  await store.cancel(id);
  assert.equal((await store.wait(id, { timeout: 60 })).status, 'CANCELLED');
});

test('a stopped worker gives back running executions', async (t) => {
  const store = await makeStore(t);
  const worker = await makeWorker(t, { store });
  const id = await listens.enqueue({ workspace: 'acme' });
  await waitUntil(() => began.length === 1);
  assert.equal(worker.running, 1);
  assert.equal(await worker.stop(0), false);
  assert.deepEqual(began, ['began', 'ended']);
  assert.equal(await worker.stop(), false); // once more does nothing
  await assert.rejects(worker.check(), StoreUnavailable);
  assert.equal((await store.show(id)).node, null);
  const second = await makeWorker(t, { store, grace: 0.01 });
  await waitUntil(() => began.length === 3);
  await waitUntil(async () => (await store.show(id)).status === 'DISPATCHED');
  await second.stop();
});

test('a stop awaits running functions', async (t) => {
  const store = await makeStore(t);
  const worker = await makeWorker(t);
  const id = await naps.enqueue({ workspace: 'acme', params: { number: 7 } });
  await waitUntil(() => began.length === 1);
  const stopped = worker.stop();
  await sleep(50);
  openGate();
  assert.equal(await stopped, true);
  assert.equal(await store.result(id, { timeout: 0 }), 7);
});

test('a stop gives back the execution of a promise that never settles', async (t) => {
  const store = await makeStore(t);
  const worker = await makeWorker(t, { abandon: '100ms' });
  const id = await never.enqueue({ workspace: 'acme' });
  await waitUntil(() => began.length === 1);
  assert.equal(await worker.stop(0), false);
  assert.equal((await store.show(id)).node, null);
});

test('params of another caller that do not fit fail at once', async (t) => {
  const store = await makeStore(t);
  const registry = new Registry();
  const checked = workflow(
    {
      name: 'checked',
      register: registry,
      parse: (params) => {
        const { order } = params as { order: unknown };
        if (typeof order !== 'number') {
          throw new TypeError('order is no number');
        }
        return { order };
      },
    },
    async (params) => params.order,
  );
  await makeWorker(t, { workflows: [checked] });
  const bad = { order: 'many' } as unknown as { order: number };
  await assert.rejects(checked.enqueue({ workspace: 'acme', params: bad }), ParamsError);
  assert.equal(await store.result(await checked.enqueue({ workspace: 'acme', params: { order: 2 } })), 2);
  const id = await store.enqueue({ workspace: 'acme', workflow: 'checked', params: bad });
  await assert.rejects(store.result(id, { timeout: 60 }), failure('params_invalid', 'order is no number'));
});

test('the context of an ended call throws at its heartbeat', async (t) => {
  const store = await makeStore(t);
  await makeWorker(t);
  await store.result(await echo.enqueue({ workspace: 'acme', params: { order: 1 } }), { timeout: 60 });
  assert.throws(() => calls[0]?.heartbeat(), { name: 'Cancelled' });
});

test('the context of an ended call does not reach the call that has its place', async (t) => {
  const store = await makeStore(t);
  const waits = workflow({ name: 'waits', register: new Registry() }, async (_params, ctx) => {
    calls.push(ctx);
    await (calls.length === 1 ? undefined : gate);
    return ctx.signal.aborted;
  });
  const worker = await makeWorker(t, { workflows: [waits] });
  await store.result(await waits.enqueue({ workspace: 'acme' }), { timeout: 60 });
  const second = await waits.enqueue({ workspace: 'acme' });
  await waitUntil(() => calls.length === 2);
  assert.equal(worker.running, 1);
  assert.throws(() => calls[0]?.heartbeat(), { name: 'Cancelled' });
  calls[1]?.heartbeat();
  openGate();
  assert.equal(await store.result(second, { timeout: 60 }), false);
  await waitUntil(() => worker.running === 0);
});

test('enqueue without a worker publishes the workflow', async (t) => {
  const store = await makeStore(t);
  const id = await echo.enqueue({ workspace: 'acme', params: { order: 1 } });
  assert.match(String((await store.why(id)).pending_reason), /^no_(node_in_group|scheduler)$/);
});

test('a set of a workflow that the store does not know is published once', async (t) => {
  const store = await makeStore(t);
  const ids = await echo.enqueueMany([
    { workspace: 'acme', params: { order: 1 } },
    { workspace: 'acme', params: { order: 2 } },
  ]);
  assert.equal(ids.length, 2);
  assert.deepEqual(await echo.publish(store), { version: 1, isNew: false, earlierVersion: 0 });
});

test('runAt and delay let an execution wait', async (t) => {
  const store = await makeStore(t);
  await makeWorker(t);
  const later = await echo.enqueue({ workspace: 'acme', params: { order: 1 }, delay: '1h' });
  const at = await echo.enqueue({ workspace: 'acme', params: { order: 2 }, runAt: new Date(Date.now() + 3_600_000) });
  for (const id of [later, at]) {
    assert.equal((await store.why(id)).pending_reason, 'scheduled');
  }
  const soon = await echo.enqueue({ workspace: 'acme', params: { order: 3 }, delay: 0.05, priority: 5 });
  assert.equal((await store.result(soon, { timeout: 60 })).order, 3);
  const both = { workspace: 'acme', params: { order: 1 }, delay: 1, runAt: new Date() };
  await assert.rejects(echo.enqueue(both), Misuse);
  await assert.rejects(echo.enqueue({ workspace: 'acme', params: { order: 1 }, runAt: new Date(Number.NaN) }), Misuse);
  await assert.rejects(echo.enqueue({ workspace: 'acme', params: { order: 1 }, delay: 'soon' }), Misuse);
});

test('errors have a status and a hint', async (t) => {
  const store = await makeStore(t);
  await assert.rejects(echo.enqueue({ workspace: 'acme-corp', params: { order: 1 } }), (problem: unknown) => {
    assert.ok(problem instanceof WorkspaceNotFound);
    assert.equal(problem.status, 'workspace_not_found');
    assert.equal(problem.kind, 'permanent');
    assert.match(problem.hint, /weir workspace set/);
    return true;
  });
  await assert.rejects(store.show('01939b7e-7a5c-7c3e-8b3a-2f1d4c5b6a79'), ExecutionNotFound);
  await assert.rejects(new Store('sqlite:/nonexistent/weir.db').show('01939b7e'), StoreUnavailable);
});

test('params that are no JSON object are refused', async (t) => {
  await makeStore(t);
  for (const params of [[1], 'text', { a: 1n }, { a: new Map() }, { a: Number.POSITIVE_INFINITY }, { a: () => 1 }]) {
    await assert.rejects(echo.enqueue({ workspace: 'acme', params: params as never }), ParamsError);
  }
  await assert.rejects(echo.enqueue({ workspace: 'acme', params: { order: 1, note: 'x'.repeat(1 << 20) } }), ParamsError);
  await assert.rejects(echo.enqueue({ workspace: 'ac\0me', params: { order: 1 } }), TypeError);
  await assert.rejects(echo.enqueue({ params: { order: 1 } } as never), Misuse);
});

test('an option that no request has is refused, also of a set, and in runInline()', async (t) => {
  const store = await makeStore(t);
  const wrong = { workspace: 'acme', param: { order: 1 } } as never;
  const isRefused = (problem: unknown) => {
    assert.ok(problem instanceof Misuse, String(problem));
    assert.match(problem.message, /a request has no option 'param'/);
    assert.match(problem.hint, /params/);
    return true;
  };
  await assert.rejects(echo.enqueue(wrong), isRefused);
  await assert.rejects(echo.enqueueMany([{ workspace: 'acme', params: { order: 1 } }, wrong]), isRefused);
  await assert.rejects(store.enqueue({ ...(wrong as object), workflow: 'echo' } as never), isRefused);
  await assert.rejects(
    runInline(() => echo.enqueue(wrong)),
    isRefused,
  );
  await assert.rejects(
    runInline(() => echo.enqueue({ params: { order: 1 } } as never)),
    Misuse,
  );
  assert.equal(await store.count({}), 0);
});

test('the end of an execution that no service runs is refused', async (t) => {
  const store = await makeStore(t);
  await makeWorker(t);
  const id = await naps.enqueue({ workspace: 'acme', params: { number: 1 } });
  await waitUntil(() => began.length === 1);
  await assert.rejects(store.complete(id, 'run', { result: { done: true } }), { status: 'illegal_state' });
  openGate();
  assert.equal(await store.result(id, { timeout: 60 }), 1);
  await assert.rejects(
    store.complete('01939b7e-7a5c-7c3e-8b3a-2f1d4c5b6a79', 'run', { failed: 'declined' }),
    ExecutionNotFound,
  );
});

test('a set is enqueued at once, and a refused request leaves the rest', async (t) => {
  const store = await makeStore(t);
  await echo.publish(store);
  const requests = [...Array(50).keys()].map((order) => ({ workspace: 'acme', workflow: echo, params: { order } }));
  assert.equal(new Set(await store.enqueueMany(requests)).size, 50);
  await assert.rejects(
    store.enqueueMany([...requests.slice(0, 1), { workspace: 'nobody', workflow: 'echo' }]),
    (problem) => {
      assert.ok(problem instanceof EnqueueManyError);
      assert.equal(typeof problem.results[0], 'string');
      assert.ok(problem.results[1] instanceof WorkspaceNotFound);
      return true;
    },
  );
});

test('many waits beside each other leave the thread pool free', async (t) => {
  const store = await makeStore(t);
  await makeWorker(t);
  await store.setWorkspace('acme', { maxConcurrent: 50 });
  const ids: string[] = [];
  for (let number = 0; number < 50; number++) {
    ids.push(await naps.enqueue({ workspace: 'acme', params: { number } }));
  }
  let ended = 0;
  const results = Promise.all(ids.map((id) => store.result(id, { timeout: 100 }).finally(() => ended++)));
  await waitUntil(() => began.length === 50);
  await store.show(ids[0] as string); // behind the waits in the pool it would come after the end of one
  assert.equal(ended, 0);
  openGate();
  assert.equal((await results).length, 50);
});

test('a wait ends with its signal', async (t) => {
  const store = await makeStore(t);
  const id = await echo.enqueue({ workspace: 'acme', params: { order: 1 } });
  const controller = new AbortController();
  setTimeout(() => controller.abort(), 30);
  await assert.rejects(store.wait(id, { signal: controller.signal }), { name: 'AbortError' });
});

test('a paused workspace starts nothing, and a plan has a cap', async (t) => {
  const store = await makeStore(t);
  await makeWorker(t);
  await store.setPlan('tiny', { maxConcurrent: 1, weight: 2 });
  await store.setWorkspace('small', { plan: 'tiny' });
  await store.pauseWorkspace('small');
  const id = await echo.enqueue({ workspace: 'small', params: { order: 1 } });
  await waitUntil(async () => (await store.why(id)).pending_reason === 'workspace_paused');
  await store.resumeWorkspace('small');
  assert.equal((await store.result(id, { timeout: 60 })).workspace, 'small');
  assert.match(await store.metrics(), /^weir_/m);
});

test('events of the store and of its worker reach the event loop', async (t) => {
  const events: StoreEvent[] = [];
  const store = await makeStore(t, { onEvent: (event) => events.push(event) });
  await makeWorker(t);
  const id = await echo.enqueue({ workspace: 'acme', params: { order: 1 } });
  await store.result(id, { timeout: 60 });
  await waitUntil(() => events.some((event) => event.executionId === id && event.name === 'execution.completed'));
});

test('a store with a worker is not closed, and goes on', async (t) => {
  const store = await makeStore(t);
  const worker = await makeWorker(t);
  await assert.rejects(store.close(), Misuse);
  assert.equal((await store.result(await echo.enqueue({ workspace: 'acme', params: { order: 1 } }))).order, 1);
  await worker.stop();
  await store.close();
});

test('a worker on a store that cannot be opened fails at its start, and lets the process end', async () => {
  const worker = new Worker({ store: new Store('sqlite:/nonexistent/weir.db'), logger: silent });
  await assert.rejects(worker.start(), StoreUnavailable);
  assert.throws(() => new Worker({ workflows: [] }), { status: 'definition_invalid' });
});

test('a result after the attempt was over is dropped, and the worker reports it', async (t: TestContext) => {
  const store = await makeStore(t);
  const warnings: string[] = [];
  const logger = { ...silent, warn: (message: string) => warnings.push(message) };
  const late = workflow({ name: 'late', retry: { attempts: 1 }, register: new Registry() }, async () => {
    began.push('began');
    await gate;
    return 'late';
  });
  await makeWorker(t, { workflows: [late], abandon: '50ms', logger });
  const id = await late.enqueue({ workspace: 'acme' });
  await waitUntil(() => began.length === 1);
  await store.cancel(id);
  assert.equal((await store.wait(id, { timeout: 60 })).status, 'CANCELLED');
  openGate();
  await waitUntil(() => warnings.some((message) => message.includes('not recorded')));
  assert.equal((await store.show(id)).status, 'CANCELLED');
});

// --- mistakes that are found at the start ---

function made(name: string, options: object = {}) {
  return workflow({ name, register: new Registry(), ...options }, async () => null);
}

const PLACE = String.raw`worker\.test\.js:\d+: `;

test('a changed definition is logged with file and line, and one that goes back is a warning', async (t) => {
  const store = await makeStore(t);
  const lines: string[] = [];
  const note = (level: string) => (message: string) => lines.push(`${level} ${message}`);
  const logger = { debug: note('debug'), info: note('info'), warn: note('warn'), error: note('error') };
  for (const timeout of ['1s', '1s', '2s', '1s']) {
    const worker = await makeWorker(t, { workflows: [made('contested', { timeout })], store, logger });
    await worker.stop();
  }
  const [changed, back, ...rest] = lines.filter((line) => line.includes('version'));
  assert.match(changed ?? '', new RegExp(`^info .*${PLACE}contested has the new version 2, because`));
  assert.match(back ?? '', new RegExp(`^warn .*${PLACE}contested has the new version 3, which is version 1 again`));
  assert.deepEqual(rest, []);
});

test('a worker of another group names what it does not run', async (t) => {
  const store = await makeStore(t);
  const warnings: string[] = [];
  const logger = { ...silent, warn: (message: string) => warnings.push(message) };
  await makeWorker(t, { workflows: [made('any'), made('draws', { executorGroup: 'gpu' })], store, logger });
  assert.equal(warnings.length, 1);
  assert.match(warnings[0] ?? '', new RegExp(`${PLACE}draws is of the group gpu.*start one with --executor-group gpu`));
});

test('a definition that the store refuses is named with file and line', async (t) => {
  const store = await makeStore(t);
  const tries = made('tries', { retry: { attempts: 'five' } });
  await assert.rejects(makeWorker(t, { workflows: [tries], store }), /worker\.test\.js:\d+.*attempts/);
});

test('a worker names the functions of the program that it does not run', async (t) => {
  const store = await makeStore(t);
  const lines: string[] = [];
  const logger = { ...silent, info: (message: string) => lines.push(message) };
  await makeWorker(t, { workflows: new Worker({ store }).workflows.slice(1), store, logger });
  const [line, ...rest] = lines.filter((one) => one.includes('no handler'));
  assert.match(line ?? '', /no handler for echo \(.*worker\.test\.js:\d+\): another one must run/);
  assert.deepEqual(rest, []);
  lines.length = 0;
  await makeWorker(t, { store, logger });
  assert.deepEqual(
    lines.filter((one) => one.includes('no handler')),
    [],
  );
});

test('a function reads the trace context of its request', async (t) => {
  const traceparent = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01';
  const store = await makeStore(t);
  await makeWorker(t);
  const id = await echo.enqueue({ workspace: 'acme', params: { order: 1 }, traceparent });
  const [many] = await echo.enqueueMany([{ workspace: 'acme', params: { order: 2 }, traceparent }]);
  const none = await echo.enqueue({ workspace: 'acme', params: { order: 3 } });
  for (const one of [id, many, none] as string[]) {
    await store.result(one, { timeout: 60 });
  }
  const byId = new Map(calls.map((ctx) => [ctx.executionId, ctx.traceparent]));
  assert.deepEqual([byId.get(id), byId.get(many as string), byId.get(none)], [traceparent, traceparent, null]);
  assert.equal((await store.show(id)).traceparent, traceparent);
  await assert.rejects(
    echo.enqueue({ workspace: 'acme', params: { order: 1 }, traceparent: '01-x' }),
    /no traceparent of version 00/,
  );
});
