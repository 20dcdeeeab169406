/** The addon: weir/weir.h as functions. Its folder also has libweir, its libraries and the program `weir`. */

import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { toError, WeirError } from './errors';

export type StoreHandle = { readonly store: unique symbol };
export type NodeHandle = { readonly node: unique symbol };
/** A number for the addon: the low bits (HANDLE_PLACE_MASK) are its place, which a call shares with no other open one. */
export type CallHandle = number & { readonly call: unique symbol };
/** native/handles.c */
export const HANDLE_PLACE_MASK = 0xfffff;
/** workspace, workflow, params, key, group, priority, runAt in microseconds, id, traceparent, business key, labels as JSON */
/** In the order of enum weir_key_mode. */
export const KEY_MODES = ['once', 'replace', 'debounce', 'one_active'] as const;

export type RequestArguments = [
  string,
  string,
  string,
  string | null,
  string | null,
  number,
  number,
  string | null,
  string | null,
  string | null,
  string | null,
  number,
  number,
  number,
];
/** The conditions of a filter, and a row with the name and the value of each label (native/lists.c). */
export type ConditionRows = (string | number | null)[][];
export type EventFunction = (level: number, name: string, message: string, ...fields: (string | number | null)[]) => void;
/**
 * With the handle alone it reports that the call is cancelled. With nothing it asks for deliverMore() in the next turn of the
 * event loop.
 */
export type DeliverFunction = (
  handle: CallHandle | undefined,
  handler: number | undefined,
  executionId: string,
  workspace: string,
  step: string,
  attempt: number,
  fence: number,
  /** null: {} */
  input: string | null,
  traceparent: string | null,
) => void;

/** How many executions an act matched, changed, and found in a state that does not allow it. */
export interface Acted {
  matched: number;
  changed: number;
  refused: number;
}

export interface Native {
  version(): string;
  migrate(url: string): Promise<number>;
  createStore(onEvent: EventFunction | null): StoreHandle;
  openStore(store: StoreHandle, url: string, deadlineUs: number): Promise<void>;
  closeStore(store: StoreHandle): Promise<void>;
  enqueue(store: StoreHandle, ...request: RequestArguments): Promise<string>;
  enqueueMany(store: StoreHandle, requests: RequestArguments[]): Promise<unknown[]>;
  show(store: StoreHandle, id: string): Promise<string>;
  why(store: StoreHandle, id: string): Promise<string>;
  wait(store: StoreHandle, id: string, timeoutUs: number): Promise<string>;
  metrics(store: StoreHandle): Promise<string>;
  list(
    store: StoreHandle,
    kind: number,
    cursor: string | null,
    limit: number,
    count: number,
    conditions: ConditionRows,
  ): Promise<string>;
  failures(store: StoreHandle, conditions: ConditionRows): Promise<string>;
  usage(store: StoreHandle, workspace: string): Promise<string>;
  act(store: StoreHandle, act: number, reason: string | null, conditions: ConditionRows): Promise<Acted>;
  cancel(store: StoreHandle, id: string, reason: string | null): Promise<void>;
  retry(
    store: StoreHandle,
    id: string,
    keepFinished: number,
    fromStep: string | null,
    reason: string | null,
  ): Promise<string>;
  release(store: StoreHandle, id: string, reason: string | null): Promise<void>;
  dismiss(store: StoreHandle, id: string, reason: string | null): Promise<void>;
  decide(
    store: StoreHandle,
    id: string,
    step: string | null,
    decision: 'approve' | 'reject',
    comment: string | null,
    reason: string | null,
  ): Promise<void>;
  callBack(
    store: StoreHandle,
    token: string,
    output: string | null,
    code: string | null,
    error: string | null,
    final: number,
  ): Promise<string>;
  update(
    store: StoreHandle,
    id: string,
    state: string | null,
    variables: string | null,
    reason: string | null,
    ifState: string | null,
  ): Promise<number>;
  wake(store: StoreHandle, id: string, waitingFor: string | null, reason: string | null): Promise<void>;
  migrateExecution(store: StoreHandle, id: string, version: number, reason: string | null): Promise<void>;
  signal(
    store: StoreHandle,
    id: string,
    name: string,
    data: string,
    key: string | null,
    reason: string | null,
  ): Promise<number>;
  complete(
    store: StoreHandle,
    id: string,
    end: number,
    result: string | null,
    code: string | null,
    error: string | null,
    runId: string | null,
    fence: number,
  ): Promise<void>;
  /** The version, whether it is new, and the older version with the same text, or 0. */
  publish(store: StoreHandle, definition: string, source: string): Promise<[number, boolean, number]>;
  setWorkspace(store: StoreHandle, name: string, plan: string | null, maxConcurrent: number): Promise<void>;
  pauseWorkspace(store: StoreHandle, name: string, paused: number): Promise<void>;
  renameWorkspace(store: StoreHandle, name: string, newName: string, reason: string | null): Promise<void>;
  /** How many PENDING and WAITING executions were ended. */
  deleteWorkspace(
    store: StoreHandle,
    name: string,
    failWaiting: number,
    erase: number,
    reason: string | null,
  ): Promise<number>;
  disableWorkflow(store: StoreHandle, name: string, workspace: string | null, disabled: number): Promise<void>;
  deleteWorkflow(store: StoreHandle, name: string, workspace: string | null): Promise<void>;
  setPlan(store: StoreHandle, name: string, maxConcurrent: number, weight: number): Promise<void>;
  setMaxPending(store: StoreHandle, name: string, isPlan: number, maxPending: number): Promise<void>;
  createNode(store: StoreHandle, names: string[], deliver: DeliverFunction): NodeHandle;
  openNode(
    node: NodeHandle,
    name: string | null,
    group: string | null,
    concurrency: number,
    leaseUs: number,
    graceUs: number,
    secretsDirectory: string | null,
  ): Promise<void>;
  startNode(node: NodeHandle): Promise<void>;
  nodeHealth(node: NodeHandle): Promise<void>;
  stopNode(node: NodeHandle, graceUs: number): Promise<boolean>;
  closeNode(node: NodeHandle): Promise<void>;
  deliverMore(node: NodeHandle, deliver: DeliverFunction): void;
  abandonCalls(node: NodeHandle): number;
  /** `output`: JSON text; null is shorter. */
  answerDone(call: CallHandle, output: string | null): boolean;
  answerRetry(call: CallHandle, code: string, message: string | null, delayUs: number): boolean;
  /** state, data of the signal, failed state, code and text of its failure */
  callState(call: CallHandle): [string | null, string | null, string | null, string | null, string | null];
  /** JSON text; null = it has no value; undefined = the call has ended, likewise below. */
  variable(call: CallHandle, name: string): string | null | undefined;
  /** null, or a failure for toError(). */
  setVariable(call: CallHandle, name: string, value: string): unknown;
  startChild(call: CallHandle, workflow: string, params: string, key: string | null, leaves: number): unknown;
  answerNext(call: CallHandle, state: string | null, delayUs: number): boolean;
  answerNextAt(call: CallHandle, state: string | null, timeUs: number): boolean;
  answerWait(call: CallHandle, state: string | null, signal: string, timeoutUs: number): boolean;
  answerWaitChildren(call: CallHandle, state: string | null, timeoutUs: number): boolean;
  answerFail(call: CallHandle, code: string, message: string | null): boolean;
  /** After the end of the call it does nothing. */
  log(call: CallHandle, text: string, stream: number): void;
  /** Less than 0 millionths: unknown. After the end of the call it does nothing. */
  progress(call: CallHandle, millionths: number, text: string | null): void;
  /** null: the step does not list it. */
  secret(call: CallHandle, name: string): string | null;
  /** null: the call has ended. */
  isCancelled(call: CallHandle): boolean | null;
}

const ROOT = join(__dirname, '..', 'native');
const PLATFORM = `${process.platform}-${process.arch}`;

/** The folder of the addon for this machine. */
export const FOLDER = join(ROOT, PLATFORM);

function load(): Native {
  try {
    return require(join(FOLDER, 'weir.node')) as Native;
  } catch (problem) {
    const built = readdirSync(ROOT).join(', ');
    throw new WeirError(`weir cannot run on ${PLATFORM}: ${(problem as Error).message}`, {
      hint: `this package was built for ${built}`,
    });
  }
}

export const native: Native = load();

/** Awaits a call of the addon. Its failures become errors with the stack of the caller. */
export async function call<Value>(promise: Promise<Value>): Promise<Value> {
  try {
    return await promise;
  } catch (problem) {
    throw toError(problem);
  }
}
