/**
 * Definitions of several steps, written in TypeScript. docs/definitions.md describes what each step does.
 *
 *     import { define } from 'weir';
 *
 *     const trip = new define.Definition('trip', { timeout: '1h' })
 *       .step('hotel', define.handler(bookHotel), { undo: define.handler(cancelHotel) })
 *       .step('ask', define.approve({ by: ['token:ops'], timeout: '2d', default: 'reject' }), { needs: ['hotel'] })
 *       .step('pay', define.http('https://pay.example.com/charges', { body: { trip: 1 } }), { needs: ['ask'] })
 *       .onFailure('tell', define.handler(tellSupport))
 *       .finally('clean', define.exec('rm', '-rf', '${.input.folder}'));
 *     await trip.publish();
 *
 * The store checks a definition as a whole, and refuses it with the place in your file.
 */

import { DefinitionError, Misuse } from './errors';
import { placeOfCaller } from './place';
import { defaultStore, type Store } from './store';
import { type Duration, definitionText } from './time';
import type { AnyWorkflow, RetryPolicy } from './workflow';

/** A function that workflow() has made, or a name. */
export type Target = string | AnyWorkflow;

/** Environment variables or headers by name, or for a function names alone. */
export type Secrets = readonly string[] | Readonly<Record<string, string>>;

/** The kind of a step with its keys. */
export interface Work {
  readonly keys: Readonly<Record<string, unknown>>;
  /** Those of the function, unless the step names others. */
  readonly secrets: readonly string[];
}

/** What an undo may have beside its kind. */
export interface UndoOptions {
  when?: string;
  timeout?: Duration;
  retry?: RetryPolicy;
  secrets?: Secrets;
}

export interface StepOptions extends UndoOptions {
  needs?: string | readonly string[];
  holdSlot?: boolean;
  continueOnError?: boolean;
}

export interface HttpOptions {
  method?: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE' | 'HEAD';
  headers?: Record<string, unknown>;
  body?: unknown;
  expect?: number | string | readonly (number | string)[];
  redirects?: number;
  /** The name of a secret. */
  bearer?: string;
  /** The name of a secret. */
  sign?: string;
  /** After an answer 202 the step waits so long for the report of the function. */
  callback?: Duration;
}

export interface StartOptions {
  params?: unknown;
  /** A fixed name. */
  workspace?: string;
  forEach?: string;
  maxParallel?: number;
  wait?: 'all' | 'any' | 'none' | number;
  onParentEnd?: 'cancel' | 'leave';
  key?: string;
  executorGroup?: string;
  priority?: number;
}

export interface ScheduleOptions {
  /** Five fields of cron, or `@daily`; or else `every`. */
  cron?: string;
  every?: Duration;
  zone?: string;
  from?: string;
  until?: string;
  jitter?: Duration;
  workspaces?: readonly string[];
  plan?: string;
  params?: Record<string, unknown>;
  overlap?: 'skip' | 'queue_one' | 'queue_all' | 'cancel_running';
  catchUp?: Duration;
}

export interface DefinitionOptions {
  workspace?: string;
  executorGroup?: string;
  timeout?: Duration;
  stuckAfter?: Duration;
  startsMax?: number;
  holdSlot?: boolean;
  labels?: Record<string, string>;
}

const STEP_OPTIONS = ['needs', 'when', 'timeout', 'retry', 'secrets', 'holdSlot', 'continueOnError'];

/** Without the members that are not given. */
function given(keys: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(keys).filter(([, value]) => value !== undefined));
}

/** A text is for the store to read, which knows more units. */
function duration(value: Duration | undefined): string | undefined {
  return value === undefined || typeof value === 'string' ? value : definitionText(value);
}

function retryKeys(policy: RetryPolicy | undefined): Record<string, unknown> | undefined {
  return policy && given({ ...policy, backoff: duration(policy.backoff), max: duration(policy.max) });
}

function nameOf(target: Target): string {
  return typeof target === 'string' ? target : target.name;
}

function makeWork(keys: Record<string, unknown>, secrets: readonly string[] = []): Work {
  return { keys, secrets };
}

function withOptions(work: Work, options: UndoOptions): Record<string, unknown> {
  const { when, timeout, retry } = options;
  const secrets = options.secrets ?? (work.secrets.length > 0 ? work.secrets : undefined);
  return { ...work.keys, ...given({ when, timeout: duration(timeout), retry: retryKeys(retry), secrets }) };
}

/** Calls the function of a worker. `input`: its params, with expressions; without it those of the execution. */
export function handler(target: Target, input?: unknown): Work {
  return makeWork(given({ handler: nameOf(target), input }), typeof target === 'string' ? [] : target.secrets);
}

export interface ExecOptions {
  env?: Record<string, unknown>;
  envFrom?: readonly string[];
  cwd?: string;
  stdin?: unknown;
  outputMax?: string | number;
}

/** Runs a program: its words, and perhaps options as the last argument. */
export function exec(...command: (string | number | ExecOptions)[]): Work {
  const last = command[command.length - 1];
  const options = typeof last === 'object' ? last : {};
  const words = command.filter((word) => typeof word !== 'object');
  const { env, envFrom, cwd, stdin, outputMax } = options;
  return makeWork(given({ exec: words, env, env_from: envFrom, cwd, stdin, output_max: outputMax }));
}

/** Sends a request. */
export function http(url: string, options: HttpOptions = {}): Work {
  return makeWork({ http: given({ ...options, url, callback: duration(options.callback) }) });
}

/** Waits so long, which may be an expression, or until a time. */
export function sleep(time: Duration | { until: string }): Work {
  if (typeof time === 'object') {
    return makeWork({ sleep: { until: time.until } });
  }
  const isExpression = typeof time === 'string' && time.includes('$' + '{');
  return makeWork({ sleep: isExpression ? { for: time } : duration(time) });
}

/** Waits for a signal. `default`: the output after the timeout; without it the step fails then. */
export function signal(name: string, options: { timeout?: Duration; default?: unknown } = {}): Work {
  return makeWork({ signal: given({ name, timeout: duration(options.timeout), default: options.default }) });
}

/** Waits for the decision of an actor. */
export function approve(
  options: {
    by?: readonly string[];
    prompt?: string;
    timeout?: Duration;
    default?: 'approve' | 'reject';
    onReject?: 'fail' | 'complete';
  } = {},
): Work {
  const { by, prompt, timeout, onReject } = options;
  const keys = { by, prompt, timeout: duration(timeout), default: options.default, on_reject: onReject };
  return makeWork({ approve: given(keys) });
}

/** Starts executions of another workflow, one or one for each item, and waits for their ends. */
export function start(workflow: Target, options: StartOptions = {}): Work {
  const { params, workspace, key, forEach, maxParallel, wait, onParentEnd, executorGroup, priority } = options;
  const keys = {
    workflow: nameOf(workflow),
    params,
    workspace,
    key,
    for_each: forEach,
    max_parallel: maxParallel,
    wait,
    on_parent_end: onParentEnd,
    executor_group: executorGroup,
    priority,
  };
  return makeWork({ start: given(keys) });
}

/** The same work as an undo with a condition, a timeout, a retry or secrets. */
export function undo(work: Work, options: UndoOptions): Work {
  return makeWork(withOptions(work, options));
}

/** The steps of a workflow. */
export class Definition {
  readonly name: string;
  /** File and line of its making. */
  readonly place: string;
  readonly #keys: Record<string, unknown>;
  readonly #steps: Record<string, Record<string, unknown>> = {};
  readonly #onFailure: Record<string, Record<string, unknown>> = {};
  readonly #finally: Record<string, Record<string, unknown>> = {};
  readonly #schedules: Record<string, Record<string, unknown>> = {};

  constructor(name: string, options: DefinitionOptions = {}) {
    const { workspace, executorGroup, timeout, stuckAfter, startsMax, holdSlot, labels } = options;
    this.name = name;
    this.place = placeOfCaller();
    this.#keys = given({
      name,
      workspace,
      executor_group: executorGroup,
      timeout: duration(timeout),
      stuck_after: duration(stuckAfter),
      starts_max: startsMax,
      hold_slot: holdSlot,
      labels,
    });
  }

  /** Adds a step. `undo`: takes its effect back after a failure of the execution. */
  step(id: string, work: Work, options: StepOptions & { undo?: Work } = {}): this {
    const { undo: back, ...rest } = options;
    const made = this.#make(id, work, rest);
    if (back !== undefined) {
      made.undo = withOptions(back, {});
    }
    this.#steps[id] = made;
    return this;
  }

  /** Adds a step that runs after a failure of the execution and the undos. */
  onFailure(id: string, work: Work, options: StepOptions = {}): this {
    this.#onFailure[id] = this.#make(id, work, options);
    return this;
  }

  /** Adds a step that runs after all else, on success and on failure. */
  finally(id: string, work: Work, options: StepOptions = {}): this {
    this.#finally[id] = this.#make(id, work, options);
    return this;
  }

  /** Starts the workflow at the times of a calendar. A later version without this schedule removes it. */
  schedule(name: string, options: ScheduleOptions): this {
    if (Object.hasOwn(this.#schedules, name)) {
      const problem = `${placeOfCaller()}: ${this.name} has two schedules '${name}'`;
      throw new DefinitionError(problem, { hint: 'give one of them another name' });
    }
    const { every, jitter, catchUp, ...rest } = options;
    this.#schedules[name] = given({
      ...rest,
      every: duration(every),
      jitter: duration(jitter),
      catch_up: duration(catchUp),
    });
    return this;
  }

  toJSON(): Record<string, unknown> {
    const maps = {
      steps: this.#steps,
      on_failure: this.#onFailure,
      finally: this.#finally,
      schedules: this.#schedules,
    };
    return { ...this.#keys, ...Object.fromEntries(Object.entries(maps).filter(([, map]) => Object.keys(map).length > 0)) };
  }

  /** Makes the definition known to the store. */
  publish(store: Store = defaultStore()): ReturnType<Store['publish']> {
    return store.publish(JSON.stringify(this), this.place);
  }

  #make(id: string, work: Work, options: StepOptions): Record<string, unknown> {
    const place = placeOfCaller();
    if ([this.#steps, this.#onFailure, this.#finally].some((map) => Object.hasOwn(map, id))) {
      throw new DefinitionError(`${place}: ${this.name} has two steps '${id}'`, { hint: 'give one of them another id' });
    }
    if (typeof work !== 'object' || work === null || typeof work.keys !== 'object') {
      throw new DefinitionError(`${place}: the step '${id}' has no kind`, {
        hint: "write step('pay', define.handler('charge-card'))",
      });
    }
    const unknown = Object.keys(options).find((key) => !STEP_OPTIONS.includes(key));
    if (unknown !== undefined) {
      throw new DefinitionError(`${place}: a step has no option '${unknown}'`, {
        hint: `it has ${STEP_OPTIONS.join(', ')}`,
      });
    }
    const { needs, holdSlot, continueOnError } = options;
    const list = typeof needs === 'string' ? [needs] : needs;
    try {
      return {
        ...withOptions(work, options),
        ...given({ needs: list, hold_slot: holdSlot, continue_on_error: continueOnError }),
      };
    } catch (problem) {
      throw problem instanceof Misuse ? new DefinitionError(`${place}: the step '${id}': ${problem.message}`) : problem;
    }
  }
}
