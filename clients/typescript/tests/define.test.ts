/** Definitions that are written in TypeScript are what the store publishes and runs. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { DefinitionError, define, ExecutionFailed, Fail, Registry, WeirError, workflow } from 'weir';
import { makeStore, makeWorker } from './support';

const HERE = /define\.test\.[jt]s:\d+/;

/** An expression of a definition. */
const of = (path: string) => `$\{${path}}`;

/** Each kind of step, and each option, once. */
function whole() {
  const http = {
    method: 'PUT',
    headers: { 'X-A': 'b' },
    body: { a: 1 },
    expect: [200, 404],
    redirects: 1,
    bearer: 'token',
    sign: 'key',
    callback: '2h',
  } as const;
  const children = { params: { n: of('.item') }, forEach: of('.input.list'), maxParallel: 2, wait: 'any' } as const;
  return new define.Definition('trip', { timeout: 3600, labels: { team: 'core' }, holdSlot: false, startsMax: 2 })
    .step('hotel', define.handler('book', { guest: of('.input.guest') }), {
      undo: define.undo(define.handler('cancel-book'), { timeout: '5s', retry: { attempts: 3, backoff: 0.5 } }),
      retry: { attempts: 2, backoff: 1, not_on: ['full'] },
      timeout: '10s',
    })
    .step('greet', define.exec('echo', 'hello', { env: { A: 'b' } }), { continueOnError: true })
    .step('nap', define.sleep('1ms'), { needs: 'hotel' })
    .step('until', define.sleep({ until: '2020-01-01T00:00:00Z' }), { needs: ['nap'] })
    .step('later', define.sleep(of('.input.delay')), { needs: ['nap'] })
    .step('paid', define.signal('paid', { timeout: '2d', default: null }), { needs: ['hotel', 'greet'], holdSlot: true })
    .step('ask', define.approve({ by: ['token:ops'], prompt: 'Pay?', timeout: '3d', default: 'reject', onReject: 'fail' }))
    .step('child', define.start('hello', children))
    .step('keyed', define.start('hello', { key: `import-${of('.input.day')}` }))
    .step('call', define.http('https://pay.example.com/x', http), {
      when: of('.input.pays'),
      secrets: { 'X-Api-Key': 'stripe-key' },
    })
    .onFailure('tell', define.handler('tell'))
    .finally('clean', define.exec('true'), { timeout: '1s' })
    .schedule('nightly', {
      cron: '30 4 * * *',
      zone: 'Europe/Berlin',
      plan: 'pro',
      params: { deep: true },
      overlap: 'queue_one',
      jitter: 60,
      catchUp: '2h',
      from: '2040-01-01T00:00:00Z',
      until: '2041-01-01T00:00:00Z',
    })
    .schedule('often', { every: '1h', plan: 'pro' });
}

test('every key is accepted by the store', async (t) => {
  const store = await makeStore(t);
  await new define.Definition('hello').step('one', define.sleep('1ms')).publish(store);
  assert.deepEqual(await whole().publish(store), { version: 1, isNew: true, earlierVersion: 0 });
  assert.equal((await whole().publish(store)).isNew, false);
});

test('the definition has the keys of the documents', () => {
  const made = JSON.parse(JSON.stringify(whole()));
  assert.deepEqual(made.steps.hotel, {
    handler: 'book',
    input: { guest: of('.input.guest') },
    undo: { handler: 'cancel-book', timeout: '5s', retry: { attempts: 3, backoff: '500ms' } },
    retry: { attempts: 2, backoff: '1000ms', not_on: ['full'] },
    timeout: '10s',
  });
  assert.deepEqual(made.steps.paid, {
    signal: { name: 'paid', timeout: '2d', default: null },
    needs: ['hotel', 'greet'],
    hold_slot: true,
  });
  assert.deepEqual(made.steps.later.sleep, { for: of('.input.delay') });
  assert.equal(made.steps.call.http.callback, '2h');
  assert.deepEqual([Object.keys(made.on_failure), Object.keys(made.finally)], [['tell'], ['clean']]);
  assert.deepEqual(made.schedules.often, { every: '1h', plan: 'pro' });
  assert.deepEqual([made.schedules.nightly.jitter, made.schedules.nightly.catch_up], ['60000ms', '2h']);
  assert.deepEqual([made.timeout, made.labels], ['3600000ms', { team: 'core' }]);
});

test('a failure is undone by functions', async (t) => {
  const store = await makeStore(t);
  const calls: string[] = [];
  const register = new Registry();
  const book = workflow({ name: 'book-room', register }, async () => {
    calls.push('book');
    return 'room 7';
  });
  const pay = workflow({ name: 'pay-room', register }, async () => {
    throw new Fail('no_money');
  });
  const free = workflow({ name: 'free-room', register }, async () => {
    calls.push('free');
  });
  await new define.Definition('stay')
    .step('room', define.handler(book), { undo: define.handler(free) })
    .step('pay', define.handler(pay), { needs: ['room'] })
    .publish(store);
  await makeWorker(t, { workflows: register.workflows.values() });
  const id = await store.enqueue({ workspace: 'acme', workflow: 'stay' });
  await assert.rejects(store.result(id, { timeout: 20 }), (problem) => problem instanceof ExecutionFailed);
  assert.equal((await store.show(id)).error_code, 'no_money');
  assert.deepEqual(calls, ['book', 'free']);
});

test('bulk work starts an execution for each item', async (t) => {
  const store = await makeStore(t);
  await store.setWorkspace('acme', { maxConcurrent: 1 }); // the parent uses no slot while its children run
  const register = new Registry();
  const split = workflow({ name: 'bulk-split', register }, () => [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
  const work = workflow({ name: 'bulk-item', register }, (params: { number: number }) => params.number ** 2);
  const sum = workflow({ name: 'bulk-sum', register }, (params: { numbers: number[] }) => ({
    total: params.numbers.reduce((total, number) => total + number, 0),
  }));
  const items = { params: { number: of('.item') }, forEach: of('.steps.split.output'), maxParallel: 3 };
  await makeWorker(t, { workflows: register.workflows.values() });
  await new define.Definition('bulk')
    .step('split', define.handler(split))
    .step('each', define.start(work, items), { needs: ['split'], timeout: '1h' })
    .step('sum', define.handler(sum, { numbers: of('[.steps.each.output[].output]') }), { needs: ['each'] })
    .publish(store);
  const id = await store.enqueue({ workspace: 'acme', workflow: 'bulk' });
  assert.deepEqual(await store.result(id, { timeout: 60 }), { total: 385 });
});

test('a function without a result gives null to the next step', async (t) => {
  const store = await makeStore(t);
  const register = new Registry();
  const first = workflow({ name: 'first', register }, () => undefined);
  const second = workflow({ name: 'second', register }, (params: { before: unknown }) => [params.before]);
  await makeWorker(t, { workflows: [first, second] });
  await new define.Definition('two')
    .step('one', define.handler('first'))
    .step('two', define.handler('second', { before: of('.steps.one.output') }), { needs: ['one'] })
    .publish(store);
  const id = await store.enqueue({ workspace: 'acme', workflow: 'two' });
  assert.deepEqual(await store.result(id), [null]);
});

test('mistakes name the place', async (t) => {
  const made = new define.Definition('wrong').step('one', define.sleep(1));
  const refused = (text: RegExp) => (problem: unknown) => {
    assert.ok(problem instanceof DefinitionError, String(problem));
    assert.match(problem.message, text);
    assert.match(problem.message, HERE);
    return true;
  };
  assert.throws(() => made.finally('one', define.sleep(1)), refused(/wrong has two steps 'one'/));
  const misspelt = { retries: 3 } as define.StepOptions;
  assert.throws(() => made.step('two', define.sleep(1), misspelt), refused(/a step has no option 'retries'/));
  assert.throws(() => made.onFailure('two', define.sleep(1), { undo: 1 } as never), refused(/no option 'undo'/));
  assert.throws(() => made.step('two', 'sleep' as never), refused(/the step 'two' has no kind/));
  const store = await makeStore(t);
  const circle = new define.Definition('circle')
    .step('one', define.sleep(1), { needs: ['two'] })
    .step('two', define.sleep(1), { needs: ['one'] });
  await assert.rejects(circle.publish(store), (problem) => problem instanceof WeirError && HERE.test(problem.message));
});
