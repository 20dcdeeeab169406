/** Mistakes in the making of workflows are found at import, with file and line. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { DefinitionError, ParamsError, Registry, type RetryPolicy, Worker, workflow } from 'weir';

const HERE = /workflow\.test\.[jt]s:\d+/;

function refused(text: RegExp) {
  return (problem: unknown) => {
    assert.ok(problem instanceof DefinitionError, String(problem));
    assert.match(problem.message, text);
    assert.match(problem.message, HERE);
    return true;
  };
}

test('a name that the store would refuse is refused with its place', () => {
  for (const name of ['Send Invoice', '', '-x', 'x'.repeat(65), 5 as never]) {
    assert.throws(() => workflow({ name }, async () => null), refused(/is no name of a workflow/));
  }
});

test('a workflow without a function is refused', () => {
  assert.throws(() => workflow({ name: 'nothing' }, undefined as never), refused(/has no function/));
});

test('two workflows with one name are refused with both places', () => {
  const register = new Registry();
  workflow({ name: 'twice', register }, async () => 1);
  assert.throws(
    () => workflow({ name: 'twice', register }, async () => 2),
    (problem: unknown) =>
      refused(/two workflows are named 'twice'/)(problem) && String(problem).match(/test\.[jt]s:\d+/g)?.length === 2,
  );
});

test('one call with different options for one name is refused', () => {
  const register = new Registry();
  const make = (timeout: string) => workflow({ name: 'looped', timeout, register }, async () => 1);
  make('1s');
  make('1s');
  assert.throws(() => make('2s'), refused(/made twice, with different options/));
});

test('unknown options and wrong durations are refused', () => {
  const register = new Registry();
  const retry = { attemps: 3 } as RetryPolicy;
  assert.throws(() => workflow({ name: 'a', retry, register }, async () => 1), refused(/retry has no option 'attemps'/));
  assert.throws(
    () => workflow({ name: 'a', retries: 3, register } as never, async () => 1),
    refused(/no option 'retries'/),
  );
  assert.throws(() => workflow({ name: 'a', timeout: '5 minutes', register }, async () => 1), refused(/no duration/));
  assert.throws(() => workflow({ name: 'a', retry: { backoff: -1 }, register }, async () => 1), refused(/no duration/));
});

test('params and results have types', () => {
  const made = workflow({ name: 'typed', register: new Registry() }, async (params: { order: number }) => params.order);
  const unused = async () => {
    // @ts-expect-error order is a number
    await made.enqueue({ workspace: 'acme', params: { order: 'many' } });
    // @ts-expect-error params are needed
    await made.enqueue({ workspace: 'acme' });
    const result: number = await made.result(await made.enqueue({ workspace: 'acme', params: { order: 1 } }));
    // @ts-expect-error the result is a number
    const text: string = await made.result('01939b7e');
    return [result, text];
  };
  assert.equal(typeof unused, 'function');
});

test('the definition is the same text as that of other languages', () => {
  const made = workflow(
    {
      name: 'all',
      retry: { attempts: 5, backoff: '1m30s', max: 3600 },
      timeout: 0.5,
      executorGroup: 'gpu',
      register: new Registry(),
    },
    async () => 1,
  );
  assert.deepEqual(made.definition, {
    name: 'all',
    steps: { run: { handler: 'all', retry: { attempts: 5, backoff: '90000ms', max: '3600000ms' }, timeout: '500ms' } },
    executor_group: 'gpu',
  });
});

test('a workflow without a name is refused with its place', () => {
  const send = async () => 1;
  for (const options of [undefined, null, {}, send, 'send'] as never[]) {
    assert.throws(() => workflow(options, send), refused(/the workflow has no name/));
  }
});

test('options of wrong types are refused with their place', () => {
  const register = new Registry();
  for (const [options, text] of [
    [{ retry: 5 }, /retry 5 is no object/],
    [{ retry: [3] }, /retry \[3\] is no object/],
    [{ executorGroup: 5 }, /executorGroup 5 is no text/],
    [{ parse: {} }, /parse of 'wrong' is no function/],
  ] as const) {
    assert.throws(() => workflow({ name: 'wrong', register, ...options } as never, async () => 1), refused(text));
  }
});

test('a worker refuses two functions with one name', () => {
  const one = workflow({ name: 'renamed', register: new Registry() }, async () => 1);
  const other = workflow({ name: 'renamed', register: new Registry() }, async () => 2);
  assert.throws(() => new Worker({ workflows: [one, other] }), refused(/two workflows are named 'renamed'/));
});

test('params of wrong types are refused with the place of the workflow', () => {
  const made = workflow({ name: 'strict', register: new Registry() }, async () => 1);
  for (const params of [5, [1], 'text', { amount: 1n }]) {
    assert.throws(
      () => made.check(params),
      (problem: unknown) =>
        problem instanceof ParamsError && /^strict: /.test(problem.message) && HERE.test(problem.message),
    );
  }
});

test('a worker of another group than all workflows is refused', () => {
  const draws = workflow({ name: 'draws', executorGroup: 'gpu', register: new Registry() }, async () => 1);
  assert.throws(() => new Worker({ workflows: [draws] }), refused(/no workflow is: draws at .* is of the group gpu/));
  assert.ok(new Worker({ workflows: [draws], executorGroup: 'gpu' }));
});
