/** A class as a workflow with states: each method is the handler of a state, and its answer decides which one follows. */

import { DefinitionError, toError, WeirError } from './errors';
import { dumpJson, dumpParams } from './json';
import { type CallHandle, native } from './native';
import { Fail } from './outcome';
import { placeOfCaller } from './place';
import { type Duration, definitionText, microseconds } from './time';
import { type AnyWorkflow, type Context, type Registry, type RetryPolicy, registry, Workflow } from './workflow';

const NAME = /^[a-z0-9][a-z0-9_-]{0,63}$/;

/** The state that follows: at once, `after` a time, or `at` a time. A text as an answer is a Next without options. */
export class Next {
  constructor(
    readonly state: string | null = null,
    readonly options: { after?: Duration; at?: Date } = {},
  ) {}
}

/** `state` follows when the signal comes, or after `timeout`; its method finds the data in `ctx.received`. */
export class Wait {
  constructor(
    readonly signal: string,
    readonly state: string | null = null,
    readonly options: { timeout?: Duration } = {},
  ) {}
}

/** `state` follows when all executions have ended that this call has started with `ctx.start()`. */
export class WaitChildren {
  constructor(
    readonly state: string | null = null,
    readonly options: { timeout?: Duration } = {},
  ) {}
}

/** The execution is COMPLETED with this result. */
export class Done {
  constructor(readonly result: unknown = null) {}
}

export interface ChildOptions {
  /** The execution of the workspace with this idempotency key becomes the child, and goes on behind the end of this one. */
  key?: string;
}

/** The subject of one call of a state. */
export interface StateContext extends Context {
  readonly state: string;
  /** The params of the enqueue. */
  // biome-ignore lint/suspicious/noExplicitAny: they are what the enqueue gave
  readonly params: any;
  /** The data of the signal that has ended the wait for this state; null = there was none. */
  // biome-ignore lint/suspicious/noExplicitAny: it is what the sender gave
  readonly received: any;
  /** The last failure that has led to this state, or to a state before it. */
  readonly failure: { state: string; code: string; message: string | null } | null;
  /** The value of a variable; undefined = it has none. */
  // biome-ignore lint/suspicious/noExplicitAny: its type is that of the definition
  get(name: string): any;
  /** Sets a variable. It is saved with the answer of the method. */
  set(name: string, value: unknown): void;
  /** Starts a child with the answer of the method; the end of this execution cancels it. */
  start(workflow: string | AnyWorkflow, params?: object, options?: ChildOptions): void;
  /** Enqueues an execution with the answer of the method; it goes on behind the end of this one. */
  enqueue(workflow: string | AnyWorkflow, params?: object, options?: ChildOptions): void;
}

export interface StateOptions {
  /** The execution is FAILED when the method answers Done. */
  error?: boolean;
  initial?: boolean;
  retry?: RetryPolicy;
  timeout?: Duration;
  onFailure?: string;
  /** The only states that may follow. */
  next?: string[];
}

type VariableType = 'any' | 'string' | 'number' | 'integer' | 'boolean' | 'object' | 'array';

export interface StatesOptions {
  name: string;
  onError?: string;
  variables?: Record<string, VariableType | { type?: VariableType; initial?: unknown }>;
  /** Names for which states may wait. */
  signals?: string[];
  unknownState?: 'wait' | 'error';
  /** Of the execution. */
  timeout?: Duration;
  executorGroup?: string;
  register?: Registry;
}

type Method = (ctx: StateContext) => unknown;
// biome-ignore lint/suspicious/noExplicitAny: any class may have states
type Class = new () => any;

class Mark {
  constructor(
    readonly type: string | undefined,
    readonly options: StateOptions,
  ) {}
}

const marks = new WeakMap<object, Mark>();
const made = new WeakMap<object, StatesWorkflow>();

/** Makes a method the handler of the state of its name. */
export function state(options: StateOptions = {}) {
  return (method: Method, _context: ClassMethodDecoratorContext): void => {
    marks.set(method, new Mark(options.error ? 'error' : undefined, options));
  };
}

/** The value of a static field: a state that waits for a person, who moves it on with `store.update()`. */
export function manual(options: { next?: string[]; initial?: boolean } = {}): unknown {
  return new Mark('manual', options);
}

/** The value of a static field: a state that ends the execution; its result is the variables. */
export function end(): unknown {
  return new Mark('end', {});
}

/** The value of a static field: a state without a method that ends the execution as FAILED. */
export function errorEnd(): unknown {
  return new Mark('error', {});
}

class CallStateContext {
  readonly state: string;
  readonly received: unknown;
  readonly failure: StateContext['failure'];
  readonly idempotencyKey: string;

  constructor(
    readonly base: Context,
    readonly params: unknown,
    readonly handle: CallHandle,
  ) {
    const [state, signal, failed, code, message] = native.callState(handle);
    this.state = state ?? '';
    this.received = signal === null ? null : JSON.parse(signal);
    this.failure = failed === null ? null : { state: failed, code: code ?? '', message };
    this.idempotencyKey = `${base.executionId}/${base.attempt}`;
  }

  get(name: string): unknown {
    const text = native.variable(this.handle, name);
    if (text === undefined) {
      throw ended();
    }
    return text === null ? undefined : JSON.parse(text);
  }

  set(name: string, value: unknown): void {
    raise(native.setVariable(this.handle, name, dumpJson(value)));
  }

  start(workflow: string | AnyWorkflow, params: object = {}, options: ChildOptions = {}): void {
    raise(native.startChild(this.handle, nameOf(workflow), dumpParams(params), options.key ?? null, 0));
  }

  enqueue(workflow: string | AnyWorkflow, params: object = {}, options: ChildOptions = {}): void {
    raise(native.startChild(this.handle, nameOf(workflow), dumpParams(params), options.key ?? null, 1));
  }
}

function ended(): WeirError {
  return new WeirError('the call has ended: nothing can be read or set any more', {
    hint: 'await all work of a state before its method returns',
  });
}

function raise(failure: unknown): void {
  if (failure === undefined) {
    throw ended();
  }
  if (failure !== null) {
    throw toError(failure);
  }
}

function nameOf(workflow: string | AnyWorkflow): string {
  return typeof workflow === 'string' ? workflow : workflow.name;
}

/** The context of a function with what a state has in addition. */
function contextOf(base: Context, params: unknown, handle: CallHandle): StateContext {
  const own = new CallStateContext(base, params, handle);
  return new Proxy(own, {
    get(target, key) {
      const from = key in target ? target : base;
      const value: unknown = Reflect.get(from, key);
      return typeof value === 'function' ? value.bind(from) : value;
    },
  }) as unknown as StateContext;
}

/** Throws Fail for what names no state and no signal. */
function checkNames(method: string, answer: Next | Wait | WaitChildren): void {
  const names: unknown[] = answer.state === null ? [] : [answer.state];
  if (answer instanceof Wait) {
    names.push(answer.signal);
  }
  if (names.some((name) => typeof name !== 'string' || name.includes('\0'))) {
    throw new Fail('state_no_answer', `${method} must name states and signals by texts`);
  }
}

/** The method of one state, as a worker calls it. */
class StateFunction extends Workflow<object, unknown> {
  readonly #owner: Class;
  readonly #method: Method;

  constructor(owner: Class, workflow: string, name: string, method: Method, place: string) {
    super({ name: `${workflow}-${name}` }, () => undefined, place, {});
    this.#owner = owner;
    this.#method = method;
  }

  override run(params: unknown, context: Context, handle: CallHandle): unknown {
    return this.#method.call(new this.#owner(), contextOf(context, params, handle));
  }

  override answer(handle: CallHandle, given: unknown): boolean {
    const value = typeof given === 'string' ? new Next(given) : given;
    if (value instanceof Next || value instanceof Wait || value instanceof WaitChildren) {
      checkNames(this.name, value);
    }
    if (value instanceof Next && value.options.at !== undefined) {
      const atUs = value.options.at.getTime() * 1000;
      if (!Number.isFinite(atUs)) {
        throw new Fail('state_no_answer', `${this.name} answers with a Date that is none`);
      }
      return native.answerNextAt(handle, value.state, atUs);
    }
    if (value instanceof Next) {
      const delayUs = value.options.after === undefined ? 0 : microseconds(value.options.after);
      return native.answerNext(handle, value.state, delayUs);
    }
    if (value instanceof Wait || value instanceof WaitChildren) {
      const timeoutUs = value.options.timeout === undefined ? 0 : microseconds(value.options.timeout);
      return value instanceof Wait
        ? native.answerWait(handle, value.state, value.signal, timeoutUs)
        : native.answerWaitChildren(handle, value.state, timeoutUs);
    }
    if (value instanceof Done) {
      return super.answer(handle, value.result);
    }
    throw new Fail('state_no_answer', `${this.name} must return a state, Next, Wait, WaitChildren or Done`);
  }
}

/** Made by the decorator states(); workflowOf() gives it. */
export class StatesWorkflow extends Workflow<object, unknown> {
  readonly #parts: StateFunction[];

  constructor(options: StatesOptions, definition: Record<string, unknown>, parts: StateFunction[], place: string) {
    const group = options.executorGroup === undefined ? {} : { executorGroup: options.executorGroup };
    super({ name: options.name, ...group }, () => undefined, place, definition);
    this.#parts = parts;
  }

  override parts(): AnyWorkflow[] {
    return this.#parts;
  }
}

function writeState(mark: Mark, handler: string | undefined): Record<string, unknown> {
  const { retry, timeout, onFailure, next } = mark.options;
  const written: Record<string, unknown> = {};
  if (mark.type !== undefined) {
    written.type = mark.type;
  }
  if (handler !== undefined) {
    written.handler = handler;
  }
  if (retry !== undefined) {
    const policy: Record<string, unknown> = { ...retry };
    for (const key of ['backoff', 'max'] as const) {
      const duration = retry[key];
      if (duration !== undefined) {
        policy[key] = definitionText(duration);
      }
    }
    written.retry = policy;
  }
  if (timeout !== undefined) {
    written.timeout = definitionText(timeout);
  }
  if (onFailure !== undefined) {
    written.on_failure = onFailure;
  }
  if (next !== undefined) {
    written.next = next;
  }
  return written;
}

/** Methods in their order, then static fields; those of base classes first. A method that hides a state must be one. */
function membersOf(cls: Class, place: string): [string, Mark, Method | undefined][] {
  const members = new Map<string, [string, Mark, Method | undefined]>();
  const chain: Class[] = [];
  for (let base = cls; typeof base === 'function' && base.prototype; base = Object.getPrototypeOf(base)) {
    chain.unshift(base);
  }
  const take = (base: Class, name: string, value: unknown, mark: Mark | undefined, method: Method | undefined) => {
    if (mark !== undefined) {
      members.set(name, [name, mark, method]);
    } else if (members.has(name) && value !== undefined) {
      throw new DefinitionError(`${place}: '${name}' is a state of a base class and none in ${base.name}`, {
        hint: 'decorate the method with @state(), or give it another name',
      });
    }
  };
  for (const base of chain) {
    for (const name of Object.getOwnPropertyNames(base.prototype)) {
      const value: unknown = Object.getOwnPropertyDescriptor(base.prototype, name)?.value;
      const mark = typeof value === 'function' ? marks.get(value) : undefined;
      take(base, name, value, mark, value as Method);
    }
    for (const [name, value] of Object.entries(base)) {
      take(base, name, value, value instanceof Mark ? value : undefined, undefined);
    }
  }
  return [...members.values()];
}

function makeStates(cls: Class, options: StatesOptions, place: string): StatesWorkflow {
  const all: Record<string, unknown> = {};
  const parts: StateFunction[] = [];
  const members = membersOf(cls, place);
  const chosen = members.filter(([, mark]) => mark.options.initial).map(([name]) => name);
  if (chosen.length > 1) {
    throw new DefinitionError(`${place}: the workflow '${options.name}' has ${chosen.length} initial states`, {
      hint: `leave one of ${chosen.join(', ')}`,
    });
  }
  let initial = chosen[0];
  for (const [name, mark, method] of members) {
    const part = method === undefined ? undefined : new StateFunction(cls, options.name, name, method, place);
    all[name] = writeState(mark, part?.name);
    if (part !== undefined) {
      parts.push(part);
    }
    if (initial === undefined && part !== undefined && mark.type === undefined) {
      initial = name;
    }
  }
  if (parts.length === 0 || initial === undefined) {
    throw new DefinitionError(`${place}: the workflow '${options.name}' has no state`, {
      hint: 'decorate methods with @state()',
    });
  }
  const definition: Record<string, unknown> = { name: options.name, states: all, initial };
  const { onError, variables, signals, unknownState, timeout, executorGroup } = options;
  const more = {
    on_error: onError,
    variables,
    signals,
    unknown_state: unknownState,
    timeout: timeout === undefined ? undefined : definitionText(timeout),
    executor_group: executorGroup,
  };
  for (const [key, value] of Object.entries(more)) {
    if (value !== undefined) {
      definition[key] = value;
    }
  }
  return new StatesWorkflow(options, definition, parts, place);
}

/** Makes a class a workflow with states. The first method with @state() is the initial one, unless another is `initial`. */
export function states(options: StatesOptions) {
  const place = placeOfCaller();
  if (typeof options?.name !== 'string' || !NAME.test(options.name)) {
    throw new DefinitionError(`${place}: ${JSON.stringify(options?.name)} is no name of a workflow`, {
      hint: 'use 1 to 64 of a-z, 0-9, _ and -, and begin with a letter or digit',
    });
  }
  return (cls: Class, context: ClassDecoratorContext): void => {
    context.addInitializer(() => {
      const workflow = makeStates(cls, options, place); // static fields have their values by now
      made.set(cls, workflow);
      (options.register ?? registry).add(workflow);
    });
  };
}

/** The workflow of a class with states: enqueue() and publish() are there. */
export function workflowOf(cls: Class): StatesWorkflow {
  const workflow = made.get(cls);
  if (workflow === undefined) {
    throw new DefinitionError(`the class ${cls.name} has no @states()`, {
      hint: "write @states({ name: '...' }) before it",
    });
  }
  return workflow;
}
