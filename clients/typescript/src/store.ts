/** A store: where executions wait. Every call runs beside the event loop, in the thread pool of libuv. */

import { setTimeout as sleep } from 'node:timers/promises';
import { EnqueueManyError, isFailure, Misuse, TimedOut, toError, WeirError } from './errors';
import { conditionRows, type Filter } from './filter';
import { dumpJson, dumpParams } from './json';
import { type Acted, type ConditionRows, call, KEY_MODES, native, type RequestArguments, type StoreHandle } from './native';
import { isDue, warnIfUnserved } from './served';
import { noteStoreClosed, noteStoreOpened, refuseGiven } from './sqlite';
import { type Duration, microseconds, moment } from './time';

const DEFAULT_URL = 'sqlite:./weir.db';
const LEVELS = ['debug', 'info', 'warn', 'error'] as const;
/** One wait at a time holds a thread of the pool, for this long; the others poll. */
const WAIT_PART_US = 100_000;
const POLL_FIRST_MS = 2;
const POLL_MOST_MS = 500;

/** The id of an execution; its type knows the type of the result. */
export type ExecutionId<Result = unknown> = string & { readonly __result?: Result };

/** In the order of enum weir_list_kind. */
const KINDS = [
  'executions',
  'events',
  'steps',
  'workspaces',
  'plans',
  'workflows',
  'nodes',
  'locks',
  'groups',
  'actions',
] as const;
/** In the order of enum weir_act. */
const ACTS = ['cancel', 'retry', 'release', 'purge', 'wake', 'dismiss'] as const;

/** One execution, as `weir show --json` prints it. */
export interface Execution {
  id: string;
  workspace: string;
  workflow: string;
  status: 'PENDING' | 'CLAIMED' | 'DISPATCHED' | 'WAITING' | 'COMPLETED' | 'FAILED' | 'CANCELLED';
  // biome-ignore lint/suspicious/noExplicitAny: the keys are those of the view `executions`
  [key: string]: any;
}

/** One row of a list; the keys are those of the view of that name. */
// biome-ignore lint/suspicious/noExplicitAny: the keys are those of the view
export type Row = Record<string, any>;

export type Act = (typeof ACTS)[number];

type Kind = (typeof KINDS)[number];

interface Page {
  items: Row[];
  next_cursor: string | null;
  count?: number;
}

export interface StoreEvent {
  level: (typeof LEVELS)[number];
  name: string;
  message: string;
  executionId: string | null;
  workspace: string | null;
  workflow: string | null;
  code: string | null;
  error: string | null;
  startNumber: number;
}

export interface StoreOptions {
  /** Of every call but wait() and result(); without it 5 s. */
  deadline?: Duration;
  /** Called in the event loop for each event of the store and of its workers. */
  onEvent?: (event: StoreEvent) => void;
}

/**
 * once: the id of the first execution. replace: one that has not started is cancelled for the new one. debounce: the same, and
 * the new one starts later. one_active: the id of the last execution while it has not ended.
 */
export type KeyMode = (typeof KEY_MODES)[number];

export interface EnqueueOptions {
  workspace: string;
  /** The same key of a workspace makes one execution. */
  key?: string;
  /** Another effect of a known key. */
  keyMode?: KeyMode;
  /** Of the mode debounce: it starts so long after the last request of the key. */
  debounce?: Duration;
  /** But at most so long after the first; without it 10 times `debounce`. */
  debounceMax?: Duration;
  /** Of the workers that may run it. */
  executorGroup?: string;
  /** -100 to 100; higher goes first. */
  priority?: number;
  /** Not before this moment. */
  runAt?: Date;
  /** Not before this duration has passed, by this machine's clock. */
  delay?: Duration;
  /** Your own UUIDv7 makes a call repeatable after CommitUnknown. */
  id?: string;
  /** The W3C trace context that the execution belongs to. */
  traceparent?: string;
  /** What it is about, as order-17; many executions may have the same. */
  businessKey?: string;
  /** Texts by which lists and acts find it. */
  labels?: Record<string, string>;
}

export interface Request extends EnqueueOptions {
  /** Its name, or the value that workflow() returned. */
  workflow: string | { readonly name: string };
  params?: object;
}

export interface WaitOptions {
  timeout?: Duration;
  signal?: AbortSignal;
}

export interface CompleteOptions {
  result?: unknown;
  /** The code of a failure. */
  failed?: string;
  error?: string;
  cancelled?: boolean;
  fence?: number;
}

const REQUEST_OPTIONS: ReadonlySet<string> = new Set<keyof Request>([
  'workspace',
  'workflow',
  'params',
  'key',
  'keyMode',
  'debounce',
  'debounceMax',
  'executorGroup',
  'priority',
  'runAt',
  'delay',
  'id',
  'traceparent',
  'businessKey',
  'labels',
]);

/** In JavaScript a misspelled `params` or `key` would be lost in silence. */
export function refuseUnknownOptions(request: object): void {
  for (const name in request) {
    if (!REQUEST_OPTIONS.has(name)) {
      throw new Misuse(`a request has no option '${name}'`, { hint: `it has ${[...REQUEST_OPTIONS].join(', ')}` });
    }
  }
}

export function requestArguments(request: Request): RequestArguments {
  refuseUnknownOptions(request);
  const { workspace, workflow, key, executorGroup, priority, id, traceparent, businessKey } = request;
  const name = typeof workflow === 'string' ? workflow : workflow?.name;
  if (typeof workspace !== 'string' || typeof name !== 'string') {
    throw new Misuse('a request has no workspace or no workflow', { hint: "give workspace: 'acme'" });
  }
  if (priority !== undefined && !Number.isInteger(priority)) {
    throw new Misuse(`priority ${priority} is no whole number`, { hint: 'give -100 to 100' });
  }
  const params = dumpParams(request.params ?? {});
  const at = moment(request.runAt, request.delay);
  const group = executorGroup ?? null;
  const labels = request.labels === undefined ? null : JSON.stringify(request.labels);
  const trace = traceparent ?? null;
  const mode = KEY_MODES.indexOf(request.keyMode ?? 'once');
  if (mode < 0) {
    throw new Misuse(`${request.keyMode} is not a mode of a key`, { hint: `the modes are ${KEY_MODES.join(', ')}` });
  }
  const windows = [request.debounce, request.debounceMax].map((duration) => microseconds(duration ?? 0));
  const [window, longest] = windows as [number, number];
  const about = businessKey ?? null;
  return [
    workspace,
    name,
    params,
    key ?? null,
    group,
    priority ?? 0,
    at,
    id ?? null,
    trace,
    about,
    labels,
    mode,
    window,
    longest,
  ];
}

/** Opened at the first use. */
export class Store {
  /**
   * "sqlite:PATH", a path, "postgres://...", or a server before the store: "https://HOST:PORT", several with commas, with the
   * token in the variable WEIR_TOKEN. Without it WEIR_STORE of the environment, else ./weir.db.
   */
  readonly url: string;
  readonly #deadlineUs: number;
  readonly #onEvent: ((event: StoreEvent) => void) | undefined;
  readonly #pending = new Set<Promise<unknown>>();
  #opened: Promise<StoreHandle> | undefined;
  #isWaiting = false;
  /** Of SQLite, while it is open. */
  #file: string | undefined;

  constructor(url?: string, options: StoreOptions = {}) {
    this.url = url || process.env.WEIR_STORE || DEFAULT_URL;
    this.#deadlineUs = options.deadline === undefined ? 0 : microseconds(options.deadline);
    this.#onEvent = options.onEvent;
  }

  get isPostgres(): boolean {
    return /^postgres(ql)?:\/\//.test(this.url);
  }

  /** A server of weir before the store. */
  get isServer(): boolean {
    return /^(https?:\/\/|unix:)/.test(this.url);
  }

  get isSqlite(): boolean {
    return !this.isPostgres && !this.isServer;
  }

  /** For the package's own use: the addon's handle. */
  async handle(): Promise<StoreHandle> {
    if (this.#opened === undefined) {
      if (this.isSqlite) {
        this.#file = noteStoreOpened(this.url);
      }
      this.#opened = this.#open();
    }
    return this.#opened;
  }

  /** Calls that are under way end first. A later call opens the store again. */
  async close(): Promise<void> {
    const opened = this.#opened;
    this.#opened = undefined;
    if (opened === undefined) {
      return;
    }
    await Promise.allSettled(this.#pending);
    try {
      await call(native.closeStore(await opened));
      this.#noteClosed();
    } catch (problem) {
      this.#opened ??= opened; // a worker still uses it
      throw problem;
    }
  }

  /** Makes the store, or brings its schema up to this version; the number of applied migrations. */
  async migrate(): Promise<number> {
    if (this.isSqlite) {
      refuseGiven(this.url);
    }
    return call(native.migrate(this.url));
  }

  // --- executions ---

  /** Enqueues one execution, durably. A known key returns the id of the first one. */
  async enqueue(request: Request): Promise<string> {
    const made = requestArguments(request);
    const id = await this.#call((store) => native.enqueue(store, ...made));
    this.#watch([[made, id]]);
    return id;
  }

  /** Enqueues a set in one transaction. If some are refused, the rest exists all the same: see EnqueueManyError. */
  async enqueueMany(requests: Iterable<Request>): Promise<string[]> {
    const made = Array.from(requests, requestArguments);
    const answers = await this.#call((store) => native.enqueueMany(store, made));
    const results = answers.map((answer) => (isFailure(answer) ? (toError(answer) as WeirError) : (answer as string)));
    this.#watch(made.map((request, at) => [request, results[at]]));
    if (results.some((result) => result instanceof WeirError)) {
      throw new EnqueueManyError(results);
    }
    return results as string[];
  }

  /** One execution with params, steps and events. */
  async show(id: string): Promise<Execution> {
    return JSON.parse(await this.#call((store) => native.show(store, id))) as Execution;
  }

  /** Why it is not running yet: `pending_reason` with the numbers behind it. */
  async why(id: string): Promise<Record<string, unknown>> {
    return JSON.parse(await this.#call((store) => native.why(store, id)));
  }

  /** Waits until the execution has ended, in any way. Throws TimedOut, or the reason of `signal`. */
  async wait(id: string, options: WaitOptions = {}): Promise<Execution> {
    const timeoutMs = options.timeout === undefined ? Number.POSITIVE_INFINITY : microseconds(options.timeout) / 1000;
    const until = performance.now() + timeoutMs;
    for (let pauseMs = POLL_FIRST_MS; ; pauseMs = Math.min(pauseMs * 1.5, POLL_MOST_MS)) {
      options.signal?.throwIfAborted();
      const leftMs = Math.max(0, until - performance.now());
      try {
        return JSON.parse(await this.#waitPart(id, Math.min(WAIT_PART_US, Math.round(leftMs * 1000)))) as Execution;
      } catch (problem) {
        if (!(problem instanceof TimedOut) || leftMs === 0) {
          throw problem;
        }
      }
      if (this.#isWaiting) {
        await sleep(Math.min(pauseMs, Math.max(0, until - performance.now())), undefined, { signal: options.signal });
      }
    }
  }

  /** What the function returned. Waits for the end; throws ExecutionFailed when the execution did not complete. */
  result<Result>(id: ExecutionId<Result>, options?: WaitOptions): Promise<Result>;
  result(id: string, options?: WaitOptions): Promise<unknown>;
  async result(id: string, options: WaitOptions = {}): Promise<unknown> {
    const execution = await this.wait(id, options);
    if (execution.status !== 'COMPLETED') {
      throw new ExecutionFailed(execution);
    }
    const steps = (execution.steps ?? []) as { output?: unknown }[];
    return steps.length > 0 ? steps[steps.length - 1]?.output : execution.result;
  }

  /** A PENDING or WAITING execution ends at once; a running one is stopped by its worker, soon. */
  async cancel(id: string, reason?: string): Promise<void> {
    await this.#call((store) => native.cancel(store, id, reason ?? null));
  }

  /**
   * Enqueues a failed or cancelled execution again, as a new one, and returns its id. `keepFinished`: its finished steps are
   * kept with their outputs. `fromStep`: the same, but this one and all that need it run again.
   */
  async retry(id: string, options: { keepFinished?: boolean; fromStep?: string; reason?: string } = {}): Promise<string> {
    const { keepFinished, fromStep, reason } = options;
    return this.#call((store) => native.retry(store, id, keepFinished ? 1 : 0, fromStep ?? null, reason ?? null));
  }

  /** A PENDING execution may start at once, before its time or the end of its back-off. */
  async release(id: string, reason?: string): Promise<void> {
    await this.#call((store) => native.release(store, id, reason ?? null));
  }

  /** A FAILED execution is dealt with: `weir failures` counts it no more. */
  async dismiss(id: string, reason?: string): Promise<void> {
    await this.#call((store) => native.dismiss(store, id, reason ?? null));
  }

  /** Approves a step that waits for it; without `step`, the only one that does. `comment` is a part of its output. */
  async approve(id: string, options: { step?: string; comment?: string; reason?: string } = {}): Promise<void> {
    const { step, comment, reason } = options;
    await this.#call((store) => native.decide(store, id, step ?? null, 'approve', comment ?? null, reason ?? null));
  }

  /** Rejects a step that waits for an approval, as approve() approves it. */
  async reject(id: string, options: { step?: string; comment?: string; reason?: string } = {}): Promise<void> {
    const { step, comment, reason } = options;
    await this.#call((store) => native.decide(store, id, step ?? null, 'reject', comment ?? null, reason ?? null));
  }

  /**
   * Reports the end of the work of an `http` step with `callback`, for the function that it has called, and returns the id
   * of the execution. `token`: of the header Weir-Callback. `failed`: the code of a failure, `error` its text; `final`:
   * without another attempt. The same report again is no error.
   */
  async callBack(
    token: string,
    options: { output?: unknown; failed?: string; error?: string; final?: boolean } = {},
  ): Promise<string> {
    const { output = null, failed, error, final } = options;
    const text = failed === undefined ? dumpJson(output) : null;
    return this.#call((store) => native.callBack(store, token, text, failed ?? null, error ?? null, final ? 1 : 0));
  }

  /**
   * Moves an execution with states to another state, and sets variables, while no worker has it. Gives the number of the
   * update in its history of actions. `ifState`: only while this is its present state; the same update twice is
   * then refused (`conflict`).
   */
  async update(
    id: string,
    change: { state?: string; variables?: Record<string, unknown>; reason?: string; ifState?: string },
  ): Promise<number> {
    const { state, reason, ifState } = change;
    const variables = change.variables === undefined ? null : dumpJson(change.variables);
    return this.#call((store) => native.update(store, id, state ?? null, variables, reason ?? null, ifState ?? null));
  }

  /**
   * Ends the waits of an execution before their time: sleeps are finished, and the next attempts begin. `waitingFor`: only
   * waits of this kind, 'sleep' or 'retry'; 'signal', 'callback' (the report of a function) or 'child' end those with a
   * timeout, as if the time had come.
   */
  async wake(id: string, options: { waitingFor?: string; reason?: string } = {}): Promise<void> {
    await this.#call((store) => native.wake(store, id, options.waitingFor ?? null, options.reason ?? null));
  }

  /**
   * Lets a waiting execution go on with this version of its workflow. Its steps on record must fit; else it is refused with
   * `illegal_state`, and the message names them.
   */
  async migrateExecution(id: string, version: number, options: { reason?: string } = {}): Promise<void> {
    await this.#call((store) => native.migrateExecution(store, id, version, options.reason ?? null));
  }

  /**
   * Sends data to a step that waits for a signal of this name, or will wait; the same key again is the same signal. Returns
   * the number of the signal among those of the execution.
   */
  async signal(
    id: string,
    name: string,
    data: unknown = null,
    options: { key?: string; reason?: string } = {},
  ): Promise<number> {
    const { key, reason } = options;
    return this.#call((store) => native.signal(store, id, name, dumpJson(data), key ?? null, reason ?? null));
  }

  /**
   * For the worker of a workflow on Temporal: reports its end, as the last act, so that the slot is free at once.
   * `runId`: the workflow's own run, or the first one of its chain; the end of another run is refused.
   */
  async complete(id: string, runId: string, options: CompleteOptions = {}): Promise<void> {
    const { failed, error, fence } = options;
    const end = options.cancelled ? 2 : failed !== undefined ? 1 : 0;
    const result = options.result === undefined ? null : dumpJson(options.result);
    await this.#call((store) => native.complete(store, id, end, result, failed ?? null, error ?? null, runId, fence ?? 0));
  }

  // --- lists, and acts on executions ---

  /** The executions that meet the conditions, newest first, page by page as you go on. */
  executions(filter: Filter = {}): AsyncGenerator<Execution> {
    return this.#rows('executions', conditionRows(filter)) as AsyncGenerator<Execution>;
  }

  /** How many meet the conditions; at most 100,000 are counted. */
  async count(filter: Filter = {}): Promise<number> {
    return (await this.#page('executions', conditionRows(filter), null, 1, 1)).count as number;
  }

  steps(id: string): AsyncGenerator<Row> {
    return this.#rows('steps', conditionRows({}, id));
  }

  events(id: string): AsyncGenerator<Row> {
    return this.#rows('events', conditionRows({}, id));
  }

  /** The history of an execution with states, oldest first. */
  actions(id: string): AsyncGenerator<Row> {
    return this.#rows('actions', conditionRows({}, id));
  }

  workspaces(): AsyncGenerator<Row> {
    return this.#rows('workspaces');
  }

  plans(): AsyncGenerator<Row> {
    return this.#rows('plans');
  }

  workflows(): AsyncGenerator<Row> {
    return this.#rows('workflows');
  }

  /** Workers and other nodes, also stopped and dead ones: see the key `state`. */
  nodes(): AsyncGenerator<Row> {
    return this.#rows('nodes');
  }

  /** Plan, cap, slots in use and waiting executions of a workspace. */
  async usage(workspace: string): Promise<Row> {
    return JSON.parse(await this.#call((store) => native.usage(store, workspace)));
  }

  /** Failed executions that nobody has retried or dismissed, grouped by code, workflow and workspace, the largest first. */
  async failures(filter: Filter = {}): Promise<Row[]> {
    const rows = conditionRows(filter);
    return JSON.parse(await this.#call((store) => native.failures(store, rows))).items;
  }

  /** Does it to all executions that meet the conditions; one is needed. */
  async act(act: Act, filter: Filter, options: { because?: string } = {}): Promise<Acted> {
    const number = ACTS.indexOf(act);
    if (number < 0) {
      throw new Misuse(`${act} is no act`, { hint: `there are ${ACTS.join(', ')}` });
    }
    const rows = conditionRows(filter);
    return this.#call((store) => native.act(store, number, options.because ?? null, rows));
  }

  /** The metrics of the store and of this process as Prometheus text. */
  metrics(): Promise<string> {
    return this.#call((store) => native.metrics(store));
  }

  // --- workflows, workspaces, plans ---

  /**
   * Publishes a definition (YAML or JSON text); an unchanged one makes no new version. `earlierVersion`: the new version has
   * the text of this older one, so that the definition goes back; 0 = none has.
   */
  async publish(
    definition: string,
    source = 'workflow',
  ): Promise<{ version: number; isNew: boolean; earlierVersion: number }> {
    const [version, isNew, earlierVersion] = await this.#call((store) => native.publish(store, definition, source));
    return { version, isNew, earlierVersion };
  }

  /** Makes or changes a workspace. `maxConcurrent`: its own limit; without it as it is, null = that of the plan. */
  async setWorkspace(name: string, options: { plan?: string; maxConcurrent?: number | null } = {}): Promise<void> {
    const most = options.maxConcurrent === null ? -1 : (options.maxConcurrent ?? 0);
    await this.#call((store) => native.setWorkspace(store, name, options.plan ?? null, most));
  }

  /**
   * Changes how many executions of a workspace may be PENDING; 0 = no limit, null = that of the plan. Beyond it an enqueue is refused
   * with QueueFull.
   */
  async setMaxPending(name: string, maxPending: number | null): Promise<void> {
    await this.#call((store) => native.setMaxPending(store, name, 0, maxPending ?? -1));
  }

  /** Nothing more of it is started; running executions go on. */
  async pauseWorkspace(name: string): Promise<void> {
    await this.#call((store) => native.pauseWorkspace(store, name, 1));
  }

  async resumeWorkspace(name: string): Promise<void> {
    await this.#call((store) => native.pauseWorkspace(store, name, 0));
  }

  /**
   * Gives a workspace another name; it keeps all that belongs to it. Executions that start later run under the new name. A request for
   * the old name is refused with WorkspaceNotFound.
   */
  async renameWorkspace(name: string, newName: string, options: { reason?: string } = {}): Promise<void> {
    await this.#call((store) => native.renameWorkspace(store, name, newName, options.reason ?? null));
  }

  /**
   * Deletes a workspace and returns how many PENDING and WAITING executions were ended. Refused while executions run, or wait without
   * `failWaiting`. `erase` removes its history.
   */
  async deleteWorkspace(
    name: string,
    options: { failWaiting?: boolean; erase?: boolean; reason?: string } = {},
  ): Promise<number> {
    const { failWaiting = false, erase = false, reason = null } = options;
    return this.#call((store) => native.deleteWorkspace(store, name, Number(failWaiting), Number(erase), reason));
  }

  /** It takes no new executions; what is in the queue goes on. `workspace`: its owner, if it has one. */
  async disableWorkflow(name: string, workspace?: string): Promise<void> {
    await this.#call((store) => native.disableWorkflow(store, name, workspace ?? null, 1));
  }

  async enableWorkflow(name: string, workspace?: string): Promise<void> {
    await this.#call((store) => native.disableWorkflow(store, name, workspace ?? null, 0));
  }

  /** Refused while executions of it have not ended. A worker that has the function publishes it again. */
  async deleteWorkflow(name: string, workspace?: string): Promise<void> {
    await this.#call((store) => native.deleteWorkflow(store, name, workspace ?? null));
  }

  /** Makes or changes a plan; a new one needs `maxConcurrent`. */
  async setPlan(name: string, options: { maxConcurrent?: number; weight?: number } = {}): Promise<void> {
    await this.#call((store) => native.setPlan(store, name, options.maxConcurrent ?? 0, options.weight ?? 0));
  }

  /** Changes the limit of setMaxPending() for the workspaces of a plan; 0 = no limit, as of a new plan. */
  async setPlanMaxPending(name: string, maxPending: number): Promise<void> {
    await this.#call((store) => native.setMaxPending(store, name, 1, maxPending));
  }

  // --- inside ---

  async #open(): Promise<StoreHandle> {
    const onEvent = this.#onEvent;
    const store = native.createStore(
      onEvent === undefined
        ? null
        : (level, name, message, executionId, workspace, workflow, code, error, startNumber) =>
            onEvent({
              level: LEVELS[level] ?? 'info',
              name,
              message,
              executionId: executionId as string | null,
              workspace: workspace as string | null,
              workflow: workflow as string | null,
              code: code as string | null,
              error: error as string | null,
              startNumber: startNumber as number,
            }),
    );
    try {
      await call(native.openStore(store, this.url, this.#deadlineUs));
      return store;
    } catch (problem) {
      this.#noteClosed();
      this.#opened = undefined; // the next call tries again
      throw problem;
    }
  }

  #noteClosed(): void {
    if (this.#file !== undefined) {
      noteStoreClosed(this.#file);
      this.#file = undefined;
    }
  }

  async #call<Value>(act: (store: StoreHandle) => Promise<Value>): Promise<Value> {
    const store = await this.handle();
    const pending = call(act(store));
    this.#pending.add(pending);
    try {
      return await pending;
    } finally {
      this.#pending.delete(pending);
    }
  }

  /** Behind the answer of an enqueue: asks the store, now and then, whether a worker has the workflow of the request. */
  #watch(enqueued: [RequestArguments, string | Error | undefined][]): void {
    for (const [[, workflow, , , group], id] of enqueued) {
      const subject = JSON.stringify([this.url, workflow, group]);
      if (typeof id === 'string' && this.#opened !== undefined && isDue(subject)) {
        const asked = this.#call((store) => native.why(store, id))
          .then((why) => warnIfUnserved(subject, workflow, JSON.parse(why)))
          .catch(() => undefined) // the execution is enqueued, whether the store answers or not
          .finally(() => this.#pending.delete(asked));
        this.#pending.add(asked); // close() waits for it
      }
    }
  }

  async #page(kind: Kind, rows: ConditionRows, cursor: string | null, limit = 0, count = 0): Promise<Page> {
    return JSON.parse(await this.#call((store) => native.list(store, KINDS.indexOf(kind), cursor, limit, count, rows)));
  }

  async *#rows(kind: Kind, rows: ConditionRows = conditionRows({})): AsyncGenerator<Row> {
    let cursor: string | null = null;
    do {
      const page: Page = await this.#page(kind, rows, cursor);
      yield* page.items;
      cursor = page.next_cursor;
    } while (cursor !== null);
  }

  async #waitPart(id: string, partUs: number): Promise<string> {
    const isFirst = !this.#isWaiting;
    this.#isWaiting = true;
    try {
      return await this.#call((store) => native.wait(store, id, isFirst ? partUs : 0));
    } finally {
      if (isFirst) {
        this.#isWaiting = false;
      }
    }
  }
}

/** The execution ended, but not COMPLETED. `execution` is the answer of show(). */
export class ExecutionFailed extends WeirError {
  readonly execution: Execution;
  readonly code: string;

  constructor(execution: Execution) {
    const code = String(execution.error_code ?? execution.status.toLowerCase());
    super(`execution ${execution.id} is ${execution.status}: ${code}: ${execution.error ?? ''}`);
    this.execution = execution;
    this.code = code;
  }
}

let theDefault: Store | undefined;

/** Sets the store that enqueue() uses; without it WEIR_STORE of the environment, else ./weir.db. */
export function configure(store?: string | Store, options?: StoreOptions): Store {
  theDefault = store instanceof Store ? store : new Store(store, options);
  return theDefault;
}

export function defaultStore(): Store {
  return theDefault ?? configure();
}
