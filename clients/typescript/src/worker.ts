/** A worker: a node of weir whose handlers are the functions of this program, on its event loop. */

import { setTimeout as sleep } from 'node:timers/promises';
import { AttemptLog, attach, detach, runInLog, STREAM_LOG, STREAM_STDERR } from './attempt_log';
import { DefinitionError, StoreUnavailable, WeirError } from './errors';
import { lineOf } from './log';
import { type CallHandle, call, type DeliverFunction, HANDLE_PLACE_MASK, type NodeHandle, native } from './native';
import { Cancelled, Fail, Outcome, Retry } from './outcome';
import { hideSecrets, makeSecrets } from './secrets';
import { StatesWorkflow } from './states';
import { defaultStore, type Store } from './store';
import { type Duration, microseconds } from './time';
import { type AnyWorkflow, type Context, isCancellation, refuseTwo, registry } from './workflow';

/** How often run() polls for a signal, and every how many polls it reads the node's health. */
const CHECK_MS = 50;
const CHECKS_BETWEEN = 10;
/** A stopping worker waits this long for a function that was told to end; the library waits three times as long. */
const ABANDON_AT_STOP_MS = 5_000;
const CODE_MAX = 64;
const DEFAULT_GROUP = 'default';
/** Workflows in one line of the log. */
const NAMED_MOST = 10;

export interface Logger {
  debug(message: string): void;
  info(message: string): void;
  warn(message: string): void;
  error(message: string): void;
}

/** Failures only, on stderr. */
const quietLogger: Logger = {
  debug: () => undefined,
  info: () => undefined,
  warn: (message) => console.warn(message),
  error: (message) => console.error(message),
};

export interface WorkerOptions {
  /** Without it all that workflow() has made. */
  workflows?: Iterable<AnyWorkflow>;
  store?: Store;
  /** Of the node; without it host name and process id. */
  name?: string;
  /** Of the executions that it runs; without it "default". */
  executorGroup?: string;
  /** Executions at once; without it 1000, and 64 on a server. */
  concurrency?: number;
  /** How long stop() awaits running functions; without it 25 s. */
  grace?: Duration;
  /** Without a sign of life for this long the node counts as dead; without it 6 s. */
  lease?: Duration;
  /** How long a function may go on after its cancellation before the worker ends its attempt; without it 30 s. */
  abandon?: Duration;
  /** The folder with a file for each secret; without it WEIR_SECRETS_DIRECTORY of the environment. */
  secretsDirectory?: string;
  /** Makes or upgrades the store at the start; without it only a SQLite file. */
  migrate?: boolean;
  logger?: Logger;
}

/** Apart from the constructor: a closure in there would cost each call the memory of its variables. */
function readSecrets(names: readonly string[], handle: CallHandle): Readonly<Record<string, string>> {
  return makeSecrets(names, (name) => native.secret(handle, name));
}

class CallContext implements Context {
  readonly idempotencyKey: string;
  readonly secrets: Readonly<Record<string, string>>;
  readonly #handle: CallHandle;
  /** Made when the function asks for its signal: most do not, and it costs as much as the rest of a short call. */
  #controller: AbortController | undefined;
  #cancelled: Cancelled | undefined;

  constructor(
    handle: CallHandle,
    readonly workflow: string,
    secrets: readonly string[],
    readonly executionId: string,
    readonly workspace: string,
    readonly step: string,
    readonly attempt: number,
    readonly fence: number,
    readonly traceparent: string | null,
  ) {
    this.#handle = handle;
    this.idempotencyKey = `${executionId}/${step}`;
    this.secrets = readSecrets(secrets, handle);
  }

  get signal(): AbortSignal {
    if (this.#controller === undefined) {
      this.#controller = new AbortController();
      if (this.#cancelled !== undefined) {
        this.#controller.abort(this.#cancelled);
      }
    }
    return this.#controller.signal;
  }

  get isCancelled(): boolean {
    return this.#cancelled !== undefined;
  }

  /** For the worker. The first reason stays. */
  cancel(reason: Cancelled): void {
    this.#cancelled ??= reason;
    this.#controller?.abort(this.#cancelled);
  }

  log(...values: unknown[]): void {
    native.log(this.#handle, `${clean(lineOf(values))}\n`, STREAM_LOG);
  }

  progress(fraction: number | null, text?: string | null): void {
    const within = Math.min(Math.max(fraction ?? Number.NaN, 0), 1);
    const millionths = Number.isNaN(within) ? -1 : Math.round(within * 1e6);
    native.progress(this.#handle, millionths, clean(text ?? undefined));
  }

  heartbeat(): void {
    if (this.isCancelled || native.isCancelled(this.#handle) !== false) {
      throw new Cancelled(`execution ${this.executionId} must end: it was cancelled, or its attempt is over`);
    }
  }
}

/** A call under way, with its log: one object, since each object costs the garbage collector. */
class Running extends AttemptLog {
  timer: NodeJS.Timeout | undefined = undefined;
  isUnderWay = true;

  constructor(
    readonly handle: CallHandle,
    readonly workflow: AnyWorkflow,
    readonly context: CallContext,
  ) {
    super();
  }

  pass(text: string, stream: number): void {
    native.log(this.handle, clean(text) ?? '', stream);
  }
}

function callFunction(running: Running, params: unknown): unknown {
  return running.workflow.run(params, running.context, running.handle);
}

/** Whether the value has to be awaited. Throws what its getter throws. */
function isThenable(value: unknown): value is PromiseLike<unknown> {
  return (
    ((typeof value === 'object' && value !== null) || typeof value === 'function') &&
    typeof (value as { then?: unknown }).then === 'function'
  );
}

/** A thrown value may have getters that throw: the answer to a call must not fail. */
function attempt(read: () => unknown, fallback: string): string {
  try {
    return String(read() ?? fallback);
  } catch {
    return fallback;
  }
}

function isError(problem: unknown): problem is Error {
  try {
    return problem instanceof Error;
  } catch {
    return false;
  }
}

function codeOf(problem: unknown): string {
  const name = isError(problem) ? attempt(() => problem.name || problem.constructor.name, 'error') : 'exception';
  return name
    .replace(/(?<=[a-z0-9])(?=[A-Z])/g, '_')
    .toLowerCase()
    .slice(0, CODE_MAX);
}

/** NUL characters end texts in the store. */
function clean(text: unknown): string | null {
  return text === undefined ? null : attempt(() => text, 'a text that cannot be read').replaceAll('\0', ' ');
}

function describe(problem: unknown): string {
  const read = () => (isError(problem) ? `${problem.name}: ${problem.message}` : String(problem));
  return attempt(read, 'a value that has no text');
}

/** Those that a worker of the group does not run, unless an enqueue names its group. It needs one that it runs. */
function ofOtherGroups(workflows: readonly AnyWorkflow[], group: string): AnyWorkflow[] {
  const others = workflows.filter((one) => one.executorGroup !== undefined && one.executorGroup !== group);
  const [first] = others;
  if (first !== undefined && others.length === workflows.length) {
    const places = others.slice(0, 3).map((one) => `${one.name} at ${one.place} is of the group ${one.executorGroup}`);
    throw new DefinitionError(`this worker is of the group ${group}, and no workflow is: ${places.join(', ')}`, {
      hint: `start it with --executor-group ${first.executorGroup}, or new Worker({ executorGroup: '${first.executorGroup}' })`,
    });
  }
  return others;
}

/** Runs workflows until stop(). While it runs, it keeps the process alive. */
export class Worker {
  readonly workflows: AnyWorkflow[];
  readonly store: Store;
  readonly #options: WorkerOptions;
  readonly #logger: Logger;
  readonly #graceUs: number;
  readonly #abandonMs: number;
  readonly #ofOtherGroups: readonly AnyWorkflow[];
  /** Of this program, but not of this worker. */
  readonly #leftOut: readonly AnyWorkflow[];
  /** Calls under way by the place of their handle: an array costs less for each call than a Map. */
  readonly #running: (Running | undefined)[] = [];
  #runningCount = 0;
  /** What the node calls, by the index of its handler. */
  #parts: readonly AnyWorkflow[] = [];
  #node: NodeHandle | undefined;
  #isStopping = false;
  #isStopRequested = false;
  #stopped: Promise<boolean> | undefined;

  constructor(options: WorkerOptions = {}) {
    const { concurrency } = options;
    this.workflows = [...(options.workflows ?? registry.workflows.values())];
    this.store = options.store ?? defaultStore();
    if (this.workflows.length === 0) {
      throw new DefinitionError('there is no workflow: nothing could be run', {
        hint: 'make one with workflow({name}, ...)',
      });
    }
    for (const [at, one] of this.workflows.entries()) {
      for (const other of this.workflows.slice(0, at)) {
        refuseTwo(other, one);
      }
    }
    this.#ofOtherGroups = ofOtherGroups(this.workflows, options.executorGroup ?? DEFAULT_GROUP);
    this.#leftOut = [...registry.workflows.values()].filter((one) => this.workflows.every((own) => own.name !== one.name));
    if (concurrency !== undefined && (!Number.isInteger(concurrency) || concurrency < 1)) {
      throw new DefinitionError(`concurrency ${concurrency} is no number of executions`, { hint: 'give 1 or more' });
    }
    this.#options = options;
    this.#logger = options.logger ?? quietLogger;
    this.#graceUs = microseconds(options.grace ?? 25);
    this.#abandonMs = microseconds(options.abandon ?? 30) / 1000;
  }

  /** Executions that run in this process. */
  get running(): number {
    return this.#runningCount;
  }

  /** Publishes the workflows and begins to run them. */
  async start(): Promise<void> {
    this.#isStopping = false;
    this.#isStopRequested = false;
    if (this.#options.migrate ?? this.store.isSqlite) {
      await this.store.migrate();
    }
    const { name, executorGroup, concurrency, lease } = this.#options;
    const withStates = this.store.isServer
      ? this.workflows.find((workflow) => workflow instanceof StatesWorkflow)
      : undefined;
    if (withStates !== undefined) {
      throw new DefinitionError(
        `${withStates.place}: the workflow '${withStates.name}' has states, and a server gives none away`,
        {
          hint: 'give this worker the address of the store',
        },
      );
    }
    this.#parts = this.workflows.flatMap((workflow) => workflow.parts());
    const names = this.#parts.map((part) => part.name);
    const deliver: DeliverFunction = (handle, index, id, workspace, step, attempt, fence, input, traceparent) => {
      if (handle === undefined) {
        setImmediate(() => native.deliverMore(node, deliver));
      } else if (index === undefined) {
        this.#cancel(handle);
      } else {
        const workflow = this.#parts[index] as AnyWorkflow;
        const { name, secrets } = workflow;
        const context = new CallContext(handle, name, secrets, id, workspace, step, attempt, fence, traceparent);
        this.#begin(new Running(handle, workflow, context), input);
      }
    };
    const node = native.createNode(await this.store.handle(), names, deliver);
    const leaseUs = lease === undefined ? 0 : microseconds(lease);
    const folder = this.#options.secretsDirectory ?? process.env.WEIR_SECRETS_DIRECTORY ?? null;
    const group = executorGroup ?? null;
    await call(native.openNode(node, name ?? null, group, concurrency ?? 0, leaseUs, this.#graceUs, folder));
    try {
      await this.#publish();
      attach();
      await call(native.startNode(node)).catch((problem) => {
        detach();
        throw problem;
      });
    } catch (problem) {
      await call(native.closeNode(node));
      throw problem;
    }
    this.#node = node;
    this.#stopped = undefined;
    this.#logger.info(`the worker runs ${names.join(', ')}`);
    this.#logWhatItDoesNotRun(group ?? DEFAULT_GROUP);
  }

  /**
   * Takes nothing more and awaits running functions. After `grace` (at most that of the options) the rest is cancelled and
   * given back to other workers. False when something had to be.
   */
  stop(grace?: Duration): Promise<boolean> {
    const node = this.#node;
    if (node === undefined) {
      return this.#stopped ?? Promise.resolve(true);
    }
    this.#node = undefined;
    this.#stopped = this.#stop(node, grace === undefined ? -1 : microseconds(grace));
    return this.#stopped;
  }

  /** Starts, and stops at SIGTERM or SIGINT; a second signal ends the process at once. Throws when the node cannot go on. */
  async run(): Promise<boolean> {
    await this.start();
    return this.runStarted();
  }

  /** The same for a worker that was started. It stops as well when `mustEnd` returns true. */
  async runStarted(mustEnd: () => boolean = () => false): Promise<boolean> {
    let signals = 0;
    const onSignal = (_name: NodeJS.Signals, number: number) => {
      if (++signals > 1) {
        process.exit(128 + number);
      }
      this.requestStop();
    };
    process.on('SIGTERM', onSignal).on('SIGINT', onSignal);
    try {
      await this.#watch(mustEnd);
      return await this.stop();
    } finally {
      await this.stop(0).catch(() => undefined); // the error of the block above is the cause
      process.off('SIGTERM', onSignal).off('SIGINT', onSignal);
    }
  }

  /** Lets run() stop the worker and return. */
  requestStop(): void {
    this.#isStopRequested = true;
  }

  /** Throws when the node cannot go on, for example because it has lost its lease. */
  async check(): Promise<void> {
    if (this.#node === undefined) {
      throw new StoreUnavailable('the worker is not running', { status: 'stopped' });
    }
    await call(native.nodeHealth(this.#node));
  }

  // --- inside ---

  async #publish(): Promise<void> {
    for (const workflow of this.workflows) {
      const { name, place } = workflow;
      const published = await workflow.publish(this.store).catch((problem) => this.#unpublished(workflow, problem));
      if (published === undefined) {
        continue;
      }
      const { version, isNew, earlierVersion } = published;
      if (earlierVersion > 0) {
        this.#logger.warn(
          `${place}: ${name} has the new version ${version}, which is version ${earlierVersion} again: if this is no return ` +
            `to an earlier release, another program publishes a different definition of ${name} (give one of them another name)`,
        );
      } else if (isNew && version > 1) {
        this.#logger.info(`${place}: ${name} has the new version ${version}, because its definition changed`);
      }
    }
  }

  /** With a token that may not publish, those run that the server knows already. */
  #unpublished(workflow: AnyWorkflow, problem: unknown): undefined {
    if (!(problem instanceof WeirError) || problem.status !== 'not_permitted' || !this.store.isServer) {
      throw problem;
    }
    this.#logger.warn(`${workflow.place}: ${workflow.name} is not published by this worker: ${problem.message}`);
  }

  #logWhatItDoesNotRun(group: string): void {
    if (this.#leftOut.length > 0) {
      const places = this.#leftOut.slice(0, NAMED_MOST).map((one) => `${one.name} (${one.place})`);
      const more = this.#leftOut.length > NAMED_MOST ? ' ...' : '';
      this.#logger.info(`this worker has no handler for ${places.join(', ')}${more}: another one must run them`);
    }
    for (const one of this.#ofOtherGroups) {
      this.#logger.warn(
        `${one.place}: ${one.name} is of the group ${one.executorGroup}, and this worker is of the group ${group}: ` +
          `start one with --executor-group ${one.executorGroup}`,
      );
    }
  }

  /** Returns when a stop is requested; throws when the node cannot go on. */
  async #watch(mustEnd: () => boolean): Promise<void> {
    for (let at = 0; !this.#isStopRequested && !mustEnd(); at++) {
      await sleep(CHECK_MS);
      if (at % CHECKS_BETWEEN === 0) {
        await this.check();
      }
    }
  }

  async #stop(node: NodeHandle, graceUs: number): Promise<boolean> {
    this.#isStopping = true;
    for (const running of this.#running) {
      if (running?.context.isCancelled) {
        this.#abandonLater(running);
      }
    }
    try {
      return await call(native.stopNode(node, graceUs));
    } finally {
      native.abandonCalls(node); // what is left after a failed stop
      await call(native.closeNode(node));
      detach();
      for (const running of this.#running) {
        clearTimeout(running?.timer);
      }
    }
  }

  /** Must not throw: the addon calls it. */
  #begin(running: Running, input: string | null): void {
    this.#running[running.handle & HANDLE_PLACE_MASK] = running;
    this.#runningCount++;
    try {
      this.#run(running, input);
    } catch (problem) {
      void Promise.reject(problem); // of a logger: reported as that of an asynchronous function is
    }
  }

  /** Its place may have a new call. */
  #forget(running: Running): void {
    const place = running.handle & HANDLE_PLACE_MASK;
    if (running.isUnderWay) {
      running.isUnderWay = false;
      this.#runningCount--;
    }
    if (this.#running[place] === running) {
      this.#running[place] = undefined;
    }
  }

  /** Awaits a promise alone, and without `await`: that, and a promise for each call, would double its memory. */
  #run(running: Running, input: string | null): void {
    let value: unknown;
    try {
      const params = this.#readParams(running.workflow, input);
      value = runInLog(running, callFunction, running, params);
      if (isThenable(value)) {
        this.#await(running, value);
        return;
      }
    } catch (problem) {
      this.#endWithProblem(running, problem);
      return;
    }
    this.#end(running, value);
  }

  #await(running: Running, value: PromiseLike<unknown>): void {
    Promise.resolve(value).then(
      (result) => this.#end(running, result),
      (problem) => this.#endWithProblem(running, problem),
    );
  }

  #end(running: Running, value: unknown): void {
    let counted: boolean;
    try {
      running.close();
      counted = running.workflow.answer(running.handle, value);
    } catch (problem) {
      this.#endWithProblem(running, problem);
      return;
    }
    this.#noteEnd(running, counted);
  }

  #endWithProblem(running: Running, problem: unknown): void {
    let counted = true;
    try {
      counted = this.#answerProblem(running, problem);
    } finally {
      this.#noteEnd(running, counted);
    }
  }

  #noteEnd(running: Running, counted: boolean): void {
    if (running.timer !== undefined) {
      clearTimeout(running.timer);
    }
    this.#forget(running);
    if (!counted) {
      this.#logger.warn(`${this.#name(running)} ended after its attempt was over; its result is not recorded`);
    }
  }

  #readParams(workflow: AnyWorkflow, input: string | null): unknown {
    try {
      return workflow.read(input);
    } catch (problem) {
      throw new Fail('params_invalid', problem instanceof Error ? problem.message : String(problem));
    }
  }

  #answerProblem(running: Running, problem: unknown): boolean {
    const { handle } = running;
    running.close();
    if (isError(problem) && problem instanceof Retry) {
      return native.answerRetry(handle, clean(problem.code) || 'retry', clean(problem.text), problem.delayUs);
    }
    if (isError(problem) && problem instanceof Outcome) {
      return native.answerFail(handle, clean(problem.code) || 'failed', clean(problem.text));
    }
    if (isError(problem) && isCancellation(problem, running.context.signal)) {
      return native.answerRetry(handle, 'cancelled', 'the function ended because it was cancelled', -1);
    }
    const stack = attempt(() => (isError(problem) ? problem.stack : problem), describe(problem));
    this.#logger.error(`${this.#name(running)} failed: ${hideSecrets(running.context.secrets, stack)}`);
    native.log(handle, `${clean(stack)}\n`, STREAM_STDERR);
    return native.answerRetry(handle, clean(codeOf(problem)) || 'exception', clean(describe(problem)), -1);
  }

  #cancel(handle: CallHandle): void {
    const running = this.#running[handle & HANDLE_PLACE_MASK];
    if (running === undefined || running.handle !== handle) {
      return;
    }
    this.#abandonLater(running);
    const reason = new Cancelled(`execution ${running.context.executionId} was cancelled`);
    runInLog(running, () => running.context.cancel(reason)); // its listeners are part of the function
  }

  /** A promise cannot be ended from outside. One that ignores its cancellation loses its attempt, so that the slot is free. */
  #abandonLater(running: Running): void {
    const delayMs = this.#isStopping ? Math.min(this.#abandonMs, ABANDON_AT_STOP_MS) : this.#abandonMs;
    clearTimeout(running.timer);
    running.timer = setTimeout(() => {
      this.#forget(running);
      const text = `the function did not end within ${delayMs / 1000} s after its cancellation`;
      if (native.answerRetry(running.handle, 'abandoned', text, -1)) {
        this.#logger.error(`${this.#name(running)} is abandoned: ${text} (${running.workflow.place})`);
      }
    }, delayMs);
    running.timer.unref();
  }

  #name(running: Running): string {
    const { workflow, workspace, executionId, attempt } = running.context;
    return `${workflow} of ${workspace} (${executionId}, attempt ${attempt})`;
  }
}
