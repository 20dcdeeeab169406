/**
 * For tests of programs that use weir.
 *
 *     import { runInline } from 'weir/testing';
 *
 *     const runs = await runInline(() => placeOrder(42));   // what it enqueues runs at once, without a store
 *     assert.deepEqual(runs[0].result, { sent: 42, for: 'acme' });
 *
 * It holds for the whole process while it is awaited, so that also a request to a server in the test is covered.
 */

import { randomUUID } from 'node:crypto';
import { Misuse } from './errors';
import { lineOf } from './log';
import { Cancelled, Fail, Retry } from './outcome';
import { makeSecrets, secretOfEnvironment } from './secrets';
import { type EnqueueOptions, requestArguments } from './store';
import { type AnyWorkflow, type Context, dumpResult, inline, type WorkflowEnqueueOptions } from './workflow';

/** A report of ctx.progress(). */
export interface Progress {
  readonly fraction: number | null;
  readonly text: string | undefined;
}

/** One execution that runInline() has run. */
export interface Run {
  readonly id: string;
  readonly workflow: string;
  readonly workspace: string;
  readonly params: unknown;
  /** Those of enqueue(), but for `params`. */
  readonly options: Readonly<EnqueueOptions>;
  status: 'COMPLETED' | 'FAILED';
  result: unknown;
  /** Of the Retry or Fail that the function threw. */
  errorCode: string;
  /** The lines of ctx.log(). */
  readonly log: string[];
  /** The reports of ctx.progress(). */
  readonly progress: Progress[];
}

class InlineContext implements Context {
  readonly step = 'run';
  readonly attempt = 1;
  readonly fence = 1;
  readonly idempotencyKey: string;
  readonly secrets: Readonly<Record<string, string>>;
  readonly signal = new AbortController().signal;

  constructor(
    readonly workflow: string,
    readonly workspace: string,
    readonly executionId: string,
    names: readonly string[],
    private readonly lines: string[],
    private readonly reports: Progress[],
    readonly traceparent: string | null,
  ) {
    this.idempotencyKey = `${executionId}/${this.step}`;
    this.secrets = makeSecrets(names, secretOfEnvironment);
  }

  log(...values: unknown[]): void {
    this.lines.push(...lineOf(values).split('\n'));
  }

  progress(fraction: number | null, text?: string | null): void {
    this.reports.push({ fraction, text: text ?? undefined });
  }

  heartbeat(): void {
    if (this.signal.aborted) {
      throw new Cancelled('the run was cancelled');
    }
  }
}

/** Makes the run and begins the function; returns the id, and the end of the function. */
function begin(
  workflow: AnyWorkflow,
  given: WorkflowEnqueueOptions<object>,
  runs: Run[],
): { id: string; end: Promise<void> } {
  const {
    params,
    using: _using,
    store: _store,
    ...options
  } = given as WorkflowEnqueueOptions<object> & { params?: object };
  workflow.check(params);
  requestArguments({ ...options, workflow: workflow.name }); // refuses what a store would refuse
  const isOnce = options.key !== undefined && (options.keyMode ?? 'once') === 'once';
  const known = runs.find((one) => isOnce && one.workspace === options.workspace && one.options.key === options.key);
  if (known !== undefined) {
    return { id: known.id, end: Promise.resolve() };
  }
  // As the store would give them to the function.
  const text = JSON.stringify(params ?? {});
  const made: Run = {
    id: randomUUID(),
    workflow: workflow.name,
    workspace: options.workspace,
    params: JSON.parse(text),
    options,
    status: 'COMPLETED',
    result: undefined,
    errorCode: '',
    log: [],
    progress: [],
  };
  runs.push(made);
  return { id: made.id, end: run(workflow, made, text) };
}

async function run(workflow: AnyWorkflow, made: Run, text: string): Promise<void> {
  const context = new InlineContext(
    workflow.name,
    made.workspace,
    made.id,
    workflow.secrets,
    made.log,
    made.progress,
    made.options.traceparent ?? null,
  );
  try {
    made.result = JSON.parse(dumpResult(workflow.name, await workflow.handler(workflow.read(text), context)));
  } catch (problem) {
    made.status = 'FAILED';
    if (!(problem instanceof Retry || problem instanceof Fail)) {
      throw problem;
    }
    made.errorCode = problem.code;
  }
}

/**
 * While `act` is awaited, enqueue() and enqueueMany() of workflows run the functions at once. Returns their runs.
 *
 * Retry and Fail become the run's `errorCode`, with the status FAILED. Any other error is thrown by enqueue(), so that the
 * test shows it. A known `key` of a workspace runs nothing again, unless it has a mode. `using` and `store` are left out.
 */
export async function runInline(act: (runs: readonly Run[]) => unknown): Promise<readonly Run[]> {
  if (inline.enqueue !== undefined) {
    throw new Misuse('runInline() is running already in this process', { hint: 'await the first one before the second' });
  }
  const runs: Run[] = [];
  const ends: Promise<void>[] = [];
  inline.enqueue = async (workflow, options) => {
    const { id, end } = begin(workflow, options, runs);
    await end;
    return id;
  };
  inline.enqueueSync = (workflow, options) => {
    const { id, end } = begin(workflow, options, runs);
    end.catch(() => undefined); // awaited below
    ends.push(end);
    return id;
  };
  try {
    await act(runs);
    await Promise.all(ends);
  } finally {
    inline.enqueue = inline.enqueueSync = undefined;
  }
  return runs;
}
