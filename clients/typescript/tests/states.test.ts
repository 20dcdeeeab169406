/** Classes with states in a real worker on a real store. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  Done,
  ExecutionFailed,
  end,
  manual,
  Next,
  Registry,
  type StateContext,
  Store,
  state,
  states,
  Wait,
  WaitChildren,
  WeirError,
  Worker,
  workflow,
  workflowOf,
} from 'weir';
import { makeStore, makeWorker, waitUntil } from './support';

const seen: unknown[] = [];
const register = new Registry();
const part = workflow({ name: 'part', register }, async (params: { number: number }) => params.number * 2);

@states({
  name: 'credit',
  onError: 'problem',
  variables: { amount: 'integer', limit: { type: 'integer', initial: 0 }, parts: 'array' },
  signals: ['documents'],
  register,
})
class Credit {
  @state({ next: ['ask', 'reject'] })
  create(ctx: StateContext) {
    ctx.set('amount', ctx.params.amount);
    assert.throws(() => ctx.set('other', 1), WeirError);
    assert.throws(() => ctx.set('amount', 'much'), WeirError);
    seen.push([ctx.state, ctx.get('amount'), ctx.get('limit'), ctx.get('parts'), ctx.received, ctx.failure]);
    return ctx.params.amount > 1000 ? 'reject' : 'ask';
  }

  @state()
  ask() {
    return new Wait('documents', 'review');
  }

  @state()
  async review(ctx: StateContext) {
    seen.push(ctx.received);
    ctx.log('starts two parts');
    assert.throws(() => ctx.start('part', {}, { key: '' }), /1 to 255 bytes/);
    ctx.start('part', { number: 1 }, { key: 'part-1' });
    ctx.start(part, { number: 2 }, { key: 'part-2' });
    return new WaitChildren('count');
  }

  @state()
  count(ctx: StateContext) {
    ctx.set(
      'parts',
      ctx.received.output.map((child: { output: number }) => child.output),
    );
    return new Next('preview');
  }

  static preview = manual({ next: ['accept'] });

  @state({ retry: { attempts: 2, backoff: '1ms' }, onFailure: 'problem' })
  accept(ctx: StateContext) {
    throw new RangeError(`limit ${ctx.get('limit')}`);
  }

  @state()
  close(ctx: StateContext) {
    seen.push(ctx.failure);
    return new Done({ closed: ctx.get('limit') });
  }

  @state()
  reject() {
    return 'done';
  }

  static problem = manual();
  static done = end();
}

@states({ name: 'silent', register })
class Silent {
  @state()
  first() {}
}

class Base {
  @state()
  first() {
    return 'odd';
  }
}

@states({ name: 'derived', register })
class Derived extends Base {
  @state({ retry: { attempts: 1 } })
  odd(ctx: StateContext) {
    late = ctx;
    return new Next('first', { at: new Date('no date') });
  }
}
let late: StateContext | undefined;

async function waits(store: Store, id: string, kind: string) {
  await waitUntil(async () => (await store.show(id)).waiting_for === kind);
  return store.show(id);
}

test('a class goes through its states', async (context) => {
  const store = await makeStore(context);
  await makeWorker(context, { workflows: [workflowOf(Credit), part], store });
  seen.length = 0;
  const id = await workflowOf(Credit).enqueue({ workspace: 'acme', params: { amount: 7 }, store });
  await waits(store, id, 'signal');
  assert.deepEqual(seen, [['create', 7, 0, undefined, null, null]]);
  await store.signal(id, 'documents', { by: 'eve' });
  const shown = await waits(store, id, 'manual');
  assert.deepEqual(seen[1], { by: 'eve' });
  assert.equal(shown.state, 'preview');
  assert.deepEqual(shown.variables, { amount: 7, limit: 0, parts: [2, 4] });
  await assert.rejects(store.update(id, { state: 'nowhere' }), WeirError);
  await assert.rejects(store.update(id, { state: 'accept', ifState: 'create' }), { status: 'conflict' });
  assert.ok((await store.update(id, { state: 'accept', variables: { limit: 5 }, reason: 'by phone' })) > 0);
  await waitUntil(async () => (await store.show(id)).state === 'problem');
  await waits(store, id, 'manual');
  await store.update(id, { state: 'close' });
  assert.deepEqual(await store.result(id), { closed: 5 });
  assert.deepEqual(seen[2], { state: 'accept', code: 'range_error', message: 'RangeError: limit 5' });
  // a known key enqueues nothing: it names the child
  const child = await part.enqueue({ workspace: 'acme', params: { number: 2 }, key: 'part-2', store });
  assert.equal((await store.show(child)).parent.id, id);
});

test('an end state gives the variables', async (context) => {
  const store = await makeStore(context);
  await makeWorker(context, { workflows: [workflowOf(Credit), part], store });
  const id = await workflowOf(Credit).enqueue({ workspace: 'acme', params: { amount: 5000 }, store });
  assert.deepEqual(await store.result(id), { amount: 5000, limit: 0 });
});

test('a method without an answer fails', async (context) => {
  const store = await makeStore(context);
  await makeWorker(context, { workflows: [workflowOf(Silent)], store });
  const id = await workflowOf(Silent).enqueue({ workspace: 'acme', params: {}, store });
  await assert.rejects(store.result(id), (problem) => problem instanceof ExecutionFailed);
});

test('a Date that is none fails a state, which may be one behind a base class', async (context) => {
  const store = await makeStore(context);
  await makeWorker(context, { workflows: [workflowOf(Derived)], store });
  const id = await workflowOf(Derived).enqueue({ workspace: 'acme', params: {}, store });
  await assert.rejects(
    store.result(id),
    (problem) => problem instanceof ExecutionFailed && problem.code === 'state_no_answer',
  );
  assert.throws(() => late?.get('amount'), /the call has ended/);
  assert.throws(() => late?.set('amount', 1), /the call has ended/);
});

test('a server gives no states away', async (context) => {
  const store = new Store('http://127.0.0.1:9');
  context.after(() => store.close());
  const worker = new Worker({ workflows: [workflowOf(Credit)], store });
  await assert.rejects(worker.start(), /has states, and a server gives none away/);
});

test('a class that leaves a question is refused', () => {
  assert.throws(() => {
    @states({ name: 'twice', register })
    class Twice {
      static one = manual({ initial: true });
      @state({ initial: true })
      two() {
        return 'one';
      }
    }
    return Twice;
  }, /2 initial states/);
  assert.throws(() => {
    @states({ name: 'hidden', register })
    class Hidden extends Base {
      override first() {
        return 'other';
      }
    }
    return Hidden;
  }, /'first' is a state of a base class and none in Hidden/);
});

test('a class without states is refused', () => {
  assert.throws(() => {
    @states({ name: 'empty', register })
    class Empty {}
    return Empty;
  }, /has no state/);
  assert.throws(() => workflowOf(class {}), /has no @states/);
});
