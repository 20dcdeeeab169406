/** A function as a workflow: its definition, its enqueue, and the registry that a worker runs. */

import { DefinitionError, EnqueueManyError, Misuse, ParamsError, WorkflowNotFound } from './errors';
import { dumpJson, dumpParams } from './json';
import { type CallHandle, native } from './native';
import { Cancelled, Fail } from './outcome';
import { placeOfCaller } from './place';
import { enqueueOnSqlite, type SqliteDatabase } from './sqlite';
import {
  defaultStore,
  type EnqueueOptions,
  type ExecutionId,
  type Request,
  requestArguments,
  type Store,
  type WaitOptions,
} from './store';
import { type Duration, definitionText } from './time';
import { enqueueUsing, type Transaction } from './transactions';

const NAME = /^[a-z0-9][a-z0-9_-]{0,63}$/;
const STEP = 'run';
const RETRY_OPTIONS = ['attempts', 'backoff', 'factor', 'max', 'not_on'];
const OPTIONS = ['name', 'retry', 'timeout', 'executorGroup', 'secrets', 'parse'];
const SECRET = /^[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}$/;

export interface RetryPolicy {
  /** Runs in all, at most. */
  attempts?: number;
  /** The delay before the second run; it grows by `factor` up to `max`. */
  backoff?: Duration;
  factor?: number;
  max?: Duration;
  /** Codes of failures that are not tried again. */
  not_on?: string[];
}

export interface WorkflowOptions<Params> {
  name: string;
  retry?: RetryPolicy;
  /** Of one attempt. */
  timeout?: Duration;
  /** Of the workers that run it. */
  executorGroup?: string;
  /** Names of the values that `ctx.secrets` holds. */
  secrets?: readonly string[];
  /** Checks params at enqueue and before each call, for example the `parse` of a zod schema. It throws when they do not fit. */
  parse?: (params: unknown) => Params;
}

/** The subject of one call. */
export interface Context {
  readonly workflow: string;
  readonly workspace: string;
  readonly executionId: string;
  readonly step: string;
  /** From 1; no number is used twice. */
  readonly attempt: number;
  /** A later claim of the same execution has a larger one. */
  readonly fence: number;
  /** The W3C trace context for all that the function calls; null = there is no trace. */
  readonly traceparent: string | null;
  /** The same at every attempt: give it to services that know idempotency keys. */
  readonly idempotencyKey: string;
  /** Aborted when the execution is cancelled, times out, or loses its lease, and when the worker stops. */
  readonly signal: AbortSignal;
  /** By name, as the worker read them when this attempt began. A name that the workflow does not list throws. */
  readonly secrets: Readonly<Record<string, string>>;
  /** Adds values, written as console.log() writes them, to the log of this attempt, for `weir logs`. Never throws. */
  log(...values: unknown[]): void;
  /**
   * Shows how far the function is: a number from 0 to 1, null = unknown, and a text of at most 200 bytes. Each report replaces
   * the one before. It is shown while the attempt runs, and gone after it.
   */
  progress(fraction: number | null, text?: string | null): void;
  /** Throws Cancelled when the function must end, also while the event loop has not seen it yet. */
  heartbeat(): void;
}

export type Handler<Params, Result> = (params: Params, ctx: Context) => Result | Promise<Result>;

/** A function that takes no params may be enqueued without them. */
type WithParams<Params> = Record<never, never> extends Params ? { params?: Params } : { params: Params };

export type WorkflowEnqueueOptions<Params> = EnqueueOptions &
  WithParams<Params> & {
    /** Your own open transaction: of pg, Knex, Drizzle or Prisma. */
    using?: Transaction;
    store?: Store;
  };

/** For weir/testing: the function that runs what is enqueued, instead of a store. */
export const inline: {
  enqueue: ((workflow: AnyWorkflow, options: WorkflowEnqueueOptions<object>) => Promise<string>) | undefined;
  enqueueSync: ((workflow: AnyWorkflow, options: WorkflowEnqueueOptions<object>) => string) | undefined;
} = { enqueue: undefined, enqueueSync: undefined };

function isEmpty(object: object): boolean {
  return Object.keys(object).length === 0;
}

/** Made by workflow(). */
export class Workflow<Params extends object, Result> {
  readonly name: string;
  readonly handler: Handler<Params, Result>;
  readonly definition: Readonly<Record<string, unknown>>;
  /** Names of secrets. */
  readonly secrets: readonly string[];
  /** Of the workers that run it, when it names one. */
  readonly executorGroup: string | undefined;
  /** File and line of the call of workflow(). */
  readonly place: string;
  readonly #parse: ((params: unknown) => Params) | undefined;

  constructor(
    options: WorkflowOptions<Params>,
    handler: Handler<Params, Result>,
    place: string,
    definition?: Record<string, unknown>,
  ) {
    this.name = options.name;
    this.handler = handler;
    this.place = place;
    this.definition = definition ?? makeDefinition(options, place);
    this.secrets = [...(options.secrets ?? [])];
    this.executorGroup = options.executorGroup;
    this.#parse = options.parse;
  }

  /** Enqueues an execution of this function. With `using` it exists when you commit, and never when you roll back. */
  async enqueue(options: WorkflowEnqueueOptions<Params>): Promise<ExecutionId<Result>> {
    if (inline.enqueue !== undefined) {
      return (await inline.enqueue(this, options)) as ExecutionId<Result>;
    }
    const { using, store: given, ...rest } = options;
    const store = given ?? defaultStore();
    const request: Request = { ...rest, workflow: this.name };
    this.check(request.params);
    if (using !== undefined) {
      return (await enqueueUsing(using, store, request)) as ExecutionId<Result>;
    }
    return (await this.#published(store, () => store.enqueue(request))) as ExecutionId<Result>;
  }

  /**
   * Enqueues an execution inside the transaction of `using`, a Database of better-sqlite3 or a DatabaseSync of node:sqlite on
   * the file of the store. The workflow must be published, and no store of this process may have the file open.
   */
  enqueueSync(
    options: EnqueueOptions & WithParams<Params> & { using: SqliteDatabase; store?: Store },
  ): ExecutionId<Result> {
    if (inline.enqueueSync !== undefined) {
      return inline.enqueueSync(this, options) as ExecutionId<Result>;
    }
    const { using, store: given, ...rest } = options;
    const request: Request = { ...rest, workflow: this.name };
    this.check(request.params);
    const store = given ?? defaultStore();
    if (!store.isSqlite) {
      const kind = store.isServer ? 'behind a server' : 'on PostgreSQL';
      throw new Misuse(`the store is ${kind}: an execution in it cannot be part of a transaction on SQLite`, {
        hint: 'enqueue after your commit, with a key, so that a repeated call makes no second execution',
      });
    }
    return enqueueOnSqlite(using, requestArguments(request)) as ExecutionId<Result>;
  }

  /** Enqueues a set in one transaction of its own; see Store.enqueueMany(). */
  async enqueueMany(
    requests: Iterable<EnqueueOptions & WithParams<Params>>,
    options: { store?: Store } = {},
  ): Promise<ExecutionId<Result>[]> {
    if (inline.enqueue !== undefined) {
      const ids: string[] = [];
      for (const request of requests) {
        ids.push(await inline.enqueue(this, request));
      }
      return ids as ExecutionId<Result>[];
    }
    const store = options.store ?? defaultStore();
    const made = Array.from(requests, (request): Request => ({ ...request, workflow: this.name }));
    for (const request of made) {
      this.check(request.params);
    }
    return (await this.#published(store, () => store.enqueueMany(made))) as ExecutionId<Result>[];
  }

  /** What the function returned; see Store.result(). */
  result(id: ExecutionId<Result>, options: WaitOptions & { store?: Store } = {}): Promise<Result> {
    return (options.store ?? defaultStore()).result(id, options);
  }

  /** Makes the definition known to the store. */
  publish(store: Store = defaultStore()): ReturnType<Store['publish']> {
    return store.publish(JSON.stringify(this.definition), this.place);
  }

  /** For the package's own use: what a worker calls, each under the name of a handler. */
  parts(): AnyWorkflow[] {
    return [this];
  }

  /** For the package's own use: calls the function. */
  // biome-ignore lint/suspicious/noExplicitAny: the params of a call are those of its enqueue
  run(params: any, context: Context, _handle: CallHandle): unknown {
    return this.handler(params, context);
  }

  /** For the package's own use: answers the call with what the function returned; false = the call had ended. */
  answer(handle: CallHandle, value: unknown): boolean {
    const output = value === undefined || value === null ? null : dumpResult(this.name, value);
    return native.answerDone(handle, output);
  }

  /** Throws ParamsError when the function could not be called with these. */
  check(params: unknown): void {
    const text = dumpParams(params ?? {}, this);
    if (this.#parse !== undefined) {
      this.read(text);
    }
  }

  /** For the package's own use: the params of a call, from JSON text; null = there are none. */
  read(text: string | null): Params {
    const params: unknown = text === null ? {} : JSON.parse(text);
    if (this.#parse === undefined) {
      return params as Params;
    }
    let parsed: Params;
    try {
      parsed = this.#parse(params);
    } catch (problem) {
      const message = problem instanceof Error ? problem.message : String(problem);
      throw new ParamsError(`${this.name}: ${message}`, { hint: `see ${this.place}` });
    }
    if (parsed instanceof Promise) {
      parsed.catch(() => undefined);
      throw new DefinitionError(`${this.place}: parse of ${this.name} returned a promise`, {
        hint: 'it must not be async',
      });
    }
    return parsed;
  }

  /** When no worker has run yet, the store does not know the workflow. */
  async #published<Value>(store: Store, act: () => Promise<Value>): Promise<Value> {
    try {
      return await act();
    } catch (problem) {
      const problems = problem instanceof EnqueueManyError ? problem.results : [problem];
      if (!problems.every((one) => one instanceof WorkflowNotFound)) {
        throw problem;
      }
      await this.publish(store);
      return act();
    }
  }
}

// biome-ignore lint/suspicious/noExplicitAny: workflows of all types share a registry
export type AnyWorkflow = Workflow<any, any>;

/** Throws when two functions have one name. */
export function refuseTwo(one: AnyWorkflow, other: AnyWorkflow): void {
  if (one.name === other.name && one.place !== other.place) {
    throw new DefinitionError(`two workflows are named '${one.name}': ${one.place} and ${other.place}`, {
      hint: 'give one of them another name',
    });
  }
}

/** The workflows of a program, by name. */
export class Registry {
  readonly workflows = new Map<string, AnyWorkflow>();

  add(added: AnyWorkflow): void {
    const known = this.workflows.get(added.name);
    if (known !== undefined) {
      refuseTwo(known, added);
    }
    // The same place again is a module that was loaded anew; with another definition it is a call in a loop.
    if (known !== undefined && JSON.stringify(known.definition) !== JSON.stringify(added.definition)) {
      throw new DefinitionError(`${added.place}: the workflow '${added.name}' was made twice, with different options`, {
        hint: 'call workflow() once for each name',
      });
    }
    this.workflows.set(added.name, added);
  }
}

export const registry = new Registry();

/** Makes a function a workflow, and adds it to those that a worker of this program runs. */
export function workflow<Params extends object = Record<string, never>, Result = unknown>(
  options: WorkflowOptions<Params> & { register?: Registry },
  handler: Handler<Params, Result>,
): Workflow<Params, Result> {
  const place = placeOfCaller();
  if (typeof options !== 'object' || options === null || options.name === undefined) {
    throw new DefinitionError(`${place}: the workflow has no name`, {
      hint: "workflow({name: 'send-invoice'}, async (params, ctx) => { ... })",
    });
  }
  const name: unknown = options.name;
  if (typeof name !== 'string' || !NAME.test(name)) {
    throw new DefinitionError(`${place}: ${JSON.stringify(name)} is no name of a workflow`, {
      hint: 'use 1 to 64 of a-z, 0-9, _ and -, and begin with a letter or digit',
    });
  }
  if (typeof handler !== 'function') {
    throw new DefinitionError(`${place}: the workflow '${name}' has no function`, {
      hint: `workflow({name: '${name}'}, async (params, ctx) => { ... })`,
    });
  }
  const made = new Workflow(options, handler, place);
  (options.register ?? registry).add(made);
  return made;
}

function refuseUnknown(place: string, what: string, given: object, known: readonly string[]): void {
  const unknown = Object.keys(given).find((key) => !known.includes(key));
  if (unknown !== undefined) {
    throw new DefinitionError(`${place}: ${what} has no option '${unknown}'`, { hint: `it has ${known.join(', ')}` });
  }
}

function makeDefinition(options: WorkflowOptions<unknown>, place: string): Record<string, unknown> {
  const step: Record<string, unknown> = { handler: options.name };
  refuseUnknown(place, 'workflow()', options, [...OPTIONS, 'register']);
  const retry: unknown = options.retry ?? {};
  if (typeof retry !== 'object' || Array.isArray(retry)) {
    throw new DefinitionError(`${place}: retry ${JSON.stringify(retry)} is no object`, {
      hint: "write retry: { attempts: 5, backoff: '10s' }",
    });
  }
  if (options.executorGroup !== undefined && typeof options.executorGroup !== 'string') {
    throw new DefinitionError(`${place}: executorGroup ${JSON.stringify(options.executorGroup)} is no text`, {
      hint: "write executorGroup: 'gpu'",
    });
  }
  if (options.parse !== undefined && typeof options.parse !== 'function') {
    throw new DefinitionError(`${place}: parse of '${options.name}' is no function`, {
      hint: 'give a function that returns the params or throws, for example the parse of a zod schema',
    });
  }
  refuseUnknown(place, 'retry', options.retry ?? {}, RETRY_OPTIONS);
  const secrets: unknown = options.secrets ?? [];
  if (!Array.isArray(secrets) || !secrets.every((name) => typeof name === 'string' && SECRET.test(name))) {
    throw new DefinitionError(`${place}: ${JSON.stringify(secrets)} are no names of secrets`, {
      hint: 'give an array; a name has 1 to 64 letters, digits, _, - and ., and begins with a letter, digit or _',
    });
  }
  if (secrets.length > 0) {
    step.secrets = secrets;
  }
  try {
    if (options.retry !== undefined && !isEmpty(options.retry)) {
      const policy: Record<string, unknown> = { ...options.retry };
      for (const key of ['backoff', 'max'] as const) {
        const duration = options.retry[key];
        if (duration !== undefined) {
          policy[key] = definitionText(duration);
        }
      }
      step.retry = policy;
    }
    if (options.timeout !== undefined) {
      step.timeout = definitionText(options.timeout);
    }
  } catch (problem) {
    throw problem instanceof Misuse ? new DefinitionError(`${place}: ${problem.message}`) : problem;
  }
  const definition: Record<string, unknown> = { name: options.name, steps: { [STEP]: step } };
  if (options.executorGroup !== undefined) {
    definition.executor_group = options.executorGroup;
  }
  return definition;
}

/** For the package's own use: the JSON text of a result. */
export function dumpResult(name: string, value: unknown): string {
  try {
    return dumpJson(value);
  } catch (problem) {
    throw new Fail('result_not_json', `the result of ${name} is no JSON: ${(problem as Error).message}`);
  }
}

export function isCancellation(problem: unknown, signal: AbortSignal): boolean {
  return (
    problem instanceof Cancelled ||
    (signal.aborted && (problem === signal.reason || (problem instanceof Error && problem.name === 'AbortError')))
  );
}
