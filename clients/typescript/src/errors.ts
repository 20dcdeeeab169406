/** The errors of weir. `status` is the name that every surface of weir uses. */

/** Whether trying again can help, and whose fault a failure is. */
export type Kind = 'fine' | 'transient' | 'permanent' | 'unknown' | 'at_capacity' | 'programmer';

const KINDS: readonly Kind[] = ['fine', 'transient', 'permanent', 'unknown', 'at_capacity', 'programmer'];

export interface ErrorDetail {
  hint?: string;
  status?: string;
  kind?: Kind;
}

/** A refusal or failure of weir. `hint` names the remedy, or is empty. */
export class WeirError extends Error {
  readonly status: string;
  readonly kind: Kind;
  readonly hint: string;

  constructor(message: string, detail: ErrorDetail = {}) {
    super(detail.hint ? `${message} (${detail.hint})` : message);
    this.name = new.target.name;
    this.status = detail.status ?? 'failed';
    this.kind = detail.kind ?? 'permanent';
    this.hint = detail.hint ?? '';
  }
}

function withStatus(detail: ErrorDetail, status: string, kind: Kind = 'permanent'): ErrorDetail {
  return { status, kind, ...detail };
}

/** Something that the call names does not exist. */
export class NotFound extends WeirError {
  constructor(message: string, detail: ErrorDetail = {}) {
    super(message, withStatus(detail, 'not_found'));
  }
}

export class WorkspaceNotFound extends NotFound {}
export class WorkflowNotFound extends NotFound {}
export class ExecutionNotFound extends NotFound {}

/** The idempotency key was used for another workflow or other params. */
export class KeyReused extends WeirError {}

/** The workspace has as many PENDING executions as its plan allows: repeat the call later. */
export class QueueFull extends WeirError {
  constructor(message: string, detail: ErrorDetail = {}) {
    super(message, withStatus(detail, 'queue_full', 'at_capacity'));
  }
}

/** The params do not fit the workflow, or are no JSON object. */
export class ParamsError extends WeirError {
  constructor(message: string, detail: ErrorDetail = {}) {
    super(message, withStatus(detail, 'params_invalid'));
  }
}

/** A workflow cannot be what its options ask for. Thrown at import or at the start of a worker; names file and line. */
export class DefinitionError extends WeirError {
  constructor(message: string, detail: ErrorDetail = {}) {
    super(message, withStatus(detail, 'definition_invalid'));
  }
}

/** The store cannot be reached, is busy, or was not made yet. */
export class StoreUnavailable extends WeirError {
  constructor(message: string, detail: ErrorDetail = {}) {
    super(message, withStatus(detail, 'store_unreachable', 'transient'));
  }
}

/** The time is over; the execution goes on. */
export class TimedOut extends WeirError {
  constructor(message: string, detail: ErrorDetail = {}) {
    super(message, withStatus(detail, 'timed_out', 'transient'));
  }
}

/** The connection was lost while the store committed: repeat the call with the same `id` or `key`. */
export class CommitUnknown extends WeirError {}

/** A call that breaks the contract of this package. */
export class Misuse extends WeirError {
  constructor(message: string, detail: ErrorDetail = {}) {
    super(message, withStatus(detail, 'misuse', 'programmer'));
  }
}

/** Some requests of a set were refused. `results` has an id or an error for each request, in their order. */
export class EnqueueManyError extends WeirError {
  readonly results: (string | WeirError)[];

  constructor(results: (string | WeirError)[]) {
    const refused = results.filter((result) => result instanceof WeirError);
    super(`${refused.length} of ${results.length} requests were refused; the first: ${refused[0]?.message}`);
    this.results = results;
  }
}

type ErrorClass = new (message: string, detail: ErrorDetail) => WeirError;

const BY_STATUS: Record<string, ErrorClass> = {
  not_found: NotFound,
  plan_not_found: NotFound,
  workspace_not_found: WorkspaceNotFound,
  workflow_not_found: WorkflowNotFound,
  execution_not_found: ExecutionNotFound,
  idempotency_key_reused: KeyReused,
  queue_full: QueueFull,
  params_invalid: ParamsError,
  params_too_large: ParamsError,
  definition_invalid: DefinitionError,
  store_unreachable: StoreUnavailable,
  store_busy: StoreUnavailable,
  store_full: StoreUnavailable,
  schema_missing: StoreUnavailable,
  schema_older: StoreUnavailable,
  schema_newer: StoreUnavailable,
  timed_out: TimedOut,
  commit_unknown: CommitUnknown,
  misuse: Misuse,
};

/** What the addon rejects with. */
export interface Failure {
  status: string;
  kind: number;
  message: string;
  hint: string;
}

export function isFailure(value: unknown): value is Failure {
  return typeof value === 'object' && value !== null && !(value instanceof Error) && 'status' in value && 'hint' in value;
}

export function makeError(status: string, kind: Kind, message: string, hint: string): WeirError {
  return new (BY_STATUS[status] ?? WeirError)(message || status, { hint, status, kind });
}

/** The error of a failure of the addon; anything else is returned as it is. */
export function toError(value: unknown): unknown {
  if (!isFailure(value)) {
    return value;
  }
  return makeError(value.status, KINDS[value.kind] ?? 'permanent', value.message, value.hint);
}
