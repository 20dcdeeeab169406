/**
 * The warning of an enqueue that no worker serves.
 *
 * The first enqueue of a workflow asks the store why the new execution does not run, and later ones ask again after a minute.
 * The caller of enqueue() does not wait for it. If the store names handlers without a worker, or a group without a node, the
 * process emits one warning for the workflow. An enqueue inside the caller's own transaction asks nothing: its row is not
 * there yet, and the question costs a round trip.
 */

/** Of the warnings, as `warning.code`. */
const CODE = 'WEIR_NO_WORKER';
const CHECK_EACH_MS = 60_000;
/** Of workflows that are watched; beyond it none is added. */
const WATCHED_MAX = 1000;
const NAMED_MAX = 5;

const nextCheck = new Map<string, number>();

/** Whether this enqueue asks; it takes the turn of the next minute. `subject`: store, workflow and group of the request. */
export function isDue(subject: string): boolean {
  const now = performance.now();
  const due = nextCheck.get(subject);
  if (due === undefined ? nextCheck.size >= WATCHED_MAX : now < due) {
    return false;
  }
  nextCheck.set(subject, now + CHECK_EACH_MS);
  return true;
}

/** `why`: the answer of the store for the new execution. */
export function warnIfUnserved(subject: string, workflow: string, why: Record<string, unknown>): void {
  const text = lack(why);
  if (text !== undefined && nextCheck.get(subject) !== Number.POSITIVE_INFINITY) {
    nextCheck.set(subject, Number.POSITIVE_INFINITY);
    process.emitWarning(`workflow ${workflow}: ${text}`, { type: 'WeirWarning', code: CODE });
  }
}

function lack(why: Record<string, unknown>): string | undefined {
  const missing = (why.handlers_missing ?? []) as string[];
  const group = why.executor_group;
  if (missing.length > 0) {
    const names = missing.slice(0, NAMED_MAX).join(', ') + (missing.length > NAMED_MAX ? ' and others' : '');
    const handlers = missing.length === 1 ? 'handler' : 'handlers';
    return (
      `no live worker of the group ${group} has the ${handlers} ${names}: execution ${why.id} waits for one; ` +
      'start it with: npx weir worker APP'
    );
  }
  if (why.pending_reason === 'no_node_in_group') {
    return `no live node serves the group ${group}: execution ${why.id} waits for one`;
  }
  return undefined;
}
