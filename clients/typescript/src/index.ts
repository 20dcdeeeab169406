/**
 * weir: a durable, fair workflow execution queue for many workspaces.
 *
 *     import { workflow } from 'weir';
 *
 *     export const sendInvoice = workflow(
 *       { name: 'send-invoice', retry: { attempts: 5, backoff: '10s' }, timeout: '5m' },
 *       async (params: { order: number }, ctx) => ({ sent: params.order, for: ctx.workspace }),
 *     );
 *
 *     await sendInvoice.enqueue({ workspace: 'acme', params: { order: 42 }, key: 'order-42' });
 *
 * `npx weir worker MODULE` runs the functions.
 */

import { native } from './native';
import { extensionPath } from './sqlite';

export * as define from './define';
export {
  CommitUnknown,
  DefinitionError,
  EnqueueManyError,
  ExecutionNotFound,
  KeyReused,
  type Kind,
  Misuse,
  NotFound,
  ParamsError,
  QueueFull,
  StoreUnavailable,
  TimedOut,
  WeirError,
  WorkflowNotFound,
  WorkspaceNotFound,
} from './errors';
export type { ExecutionState, Filter } from './filter';
export type { Acted } from './native';
export { Cancelled, Fail, Outcome, Retry, type RetryOptions } from './outcome';
export type { SqliteDatabase } from './sqlite';
export {
  type ChildOptions,
  Done,
  end,
  errorEnd,
  manual,
  Next,
  type StateContext,
  type StateOptions,
  type StatesOptions,
  StatesWorkflow,
  state,
  states,
  Wait,
  WaitChildren,
  workflowOf,
} from './states';
export {
  type Act,
  type CompleteOptions,
  configure,
  defaultStore,
  type EnqueueOptions,
  type Execution,
  ExecutionFailed,
  type ExecutionId,
  type KeyMode,
  type Request,
  type Row,
  Store,
  type StoreEvent,
  type StoreOptions,
  type WaitOptions,
} from './store';
export type { Duration } from './time';
export type { QueryFunction, Transaction } from './transactions';
export { type Logger, Worker, type WorkerOptions } from './worker';
export {
  type AnyWorkflow,
  type Context,
  type Handler,
  Registry,
  type RetryPolicy,
  Workflow,
  type WorkflowEnqueueOptions,
  type WorkflowOptions,
  workflow,
} from './workflow';

/** The version of the library. */
export const version: string = native.version();

/** Of the loadable extension `libweir_sqlite`, for loadExtension() of a library of SQLite. docs/sql.md has its functions. */
export function sqliteExtensionPath(): string {
  return extensionPath();
}
