// The objects of the API that the pages show (docs/names.md has their fields).

export interface Page<T> {
  items: T[];
  next_cursor: string | null;
  count: number | null;
  count_is_exact: boolean;
}

export interface Execution {
  id: string;
  workspace: string | null;
  workflow: string | null;
  version: number | null;
  status: string;
  pending_reason: string | null;
  waiting_for: string | null;
  priority: number;
  run_at: string;
  starts_refused: number;
  deferrals: number;
  handovers: number;
  node: string | null;
  error_code: string | null;
  error: string | null;
  created_at: string;
  claimed_at: string | null;
  dispatched_at: string | null;
  stuck_since: string | null;
  finished_at: string | null;
  executor_group: string | null;
  idempotency_key: string | null;
  retry_of: string | null;
  business_key: string | null;
  labels: Record<string, string> | null;
  progress: Report[];
  /** In the order of the queue alone: the place in the lane. */
  place?: number | null;
}

/** The last report of a step whose handler runs. */
export interface Report {
  step: string;
  attempt: number;
  fraction: number | null;
  text: string | null;
  at: string;
}

export interface Step {
  step: string;
  status: string;
  attempt: number;
  failures: number;
  exit_code: number | null;
  error_code: string | null;
  error: string | null;
  due_at: string | null;
  started_at: string | null;
  finished_at: string | null;
  node: string | null;
  output: unknown;
}

/** An ended run of the handler of a state, or an update by a person, which has no log. */
export interface Action {
  seq: number;
  state: string;
  outcome: string;
  next_state: string | null;
  started_at: string;
  finished_at: string;
  node: string | null;
  actor: string | null;
  error_code: string | null;
  error: string | null;
}

/** An attempt with a log; `step` is the name of a step or of a state. */
export interface LogAttempt {
  step: string;
  attempt: number;
}

export interface HistoryEvent {
  at: string;
  event: string;
  node: string | null;
  actor: string | null;
  reason: string | null;
  detail: string | null;
  attempt: number | null;
}

export interface WholeExecution extends Execution {
  params: unknown;
  steps: Step[];
  earlier_attempts: Step[];
  events: HistoryEvent[];
  earlier_events: number;
  /** Of a workflow with states: the present one, and the last actions. Else null. */
  state: string | null;
  actions: Action[] | null;
  earlier_actions?: number;
  parent: { id: string; step: string; index: number } | null;
  children?: ChildrenOfStep[];
}

/** Of the queue, in an interval. */
export interface HistoryPoint {
  at: string;
  span_us: number;
  starts: number;
  completed: number;
  failed: number;
  cancelled: number;
  slots_used: number;
  pending: number;
  wait_p50_us: number | null;
  wait_p95_us: number | null;
  capacity_wait_p95_us: number | null;
  pause_wait_p95_us: number | null;
  dispatch_wait_p95_us: number | null;
}

export interface WorkspaceHistoryPoint {
  at: string;
  span_us: number;
  slots_used: number;
  slots_max: number | null;
  pending: number;
}

/** When an execution had a slot, or waited without one. `finished_at` null: it still does. */
export interface SlotSpan {
  uses_slot: boolean;
  started_at: string;
  finished_at: string | null;
}

export interface SlotUse {
  id: string;
  workflow: string | null;
  status: string;
  spans: SlotSpan[];
}

/** `examined_since`: executions that were enqueued earlier are in it only if they hold a slot; null: all were examined. */
export interface SlotTimeline {
  items: SlotUse[];
  count: number;
  count_is_exact: boolean;
  examined_since: string | null;
}

/** The children of one step. */
export interface ChildrenOfStep {
  step: string;
  workflow: string;
  count: number;
  not_started: number;
  open: number;
  completed: number;
  not_completed: number;
  adopted: number;
}

export interface SlotHolder {
  id: string;
  status: string;
  node: string | null;
  step_names: string | null;
  running_us: number;
}

/** `signal`: its name, or one with the beginning approve: or callback:, which no caller can send. */
export interface UnfinishedStep {
  step: string;
  status: string;
  attempt: number;
  attempts_max: number | null;
  error_code: string | null;
  error: string | null;
  due_at: string | null;
  signal: string | null;
  approvers: string | null;
  prompt: string | null;
  children_count: number | null;
}

export interface Why {
  id: string;
  status: string;
  because: string;
  pending_reason: string | null;
  waiting_for?: string | null;
  error_code: string | null;
  error: string | null;
  slots_used?: number;
  slots_max?: number | null;
  slot_holders?: SlotHolder[];
  place?: number;
  place_is_exact?: boolean;
  waiting_in_lane?: number;
  waiting_us?: number;
  starts_refused: number;
  starts_max?: number;
  due_at?: string | null;
  cancel_requested?: boolean;
  engine_error?: string | null;
  scheduler_why?: string | null;
  scheduler_error?: string | null;
  handlers_missing?: string[];
  full_nodes?: { nodes: number; capacity: number; running: number } | null;
  unfinished_steps?: UnfinishedStep[];
}

export interface LogChunk {
  position: number;
  pieces: { at: string; stream: string; text?: string; base64?: string }[];
}

export interface Workspace {
  name: string;
  plan: string;
  slots_used: number;
  slots_max: number;
  max_concurrent: number | null;
  pending_max: number;
  max_pending: number | null;
  paused: boolean;
  pending: number;
  waiting: number;
  completed: number;
  failed: number;
  cancelled: number;
  oldest_pending_age_us: number | null;
  created_at: string;
}

export interface WorkspaceUse {
  name: string;
  plan: string;
  slots_used: number;
  slots_max: number;
  paused: boolean;
  pending: number;
  waiting: number;
  failed: number;
  oldest_pending_age_us: number | null;
}

export interface Scheduler {
  node: string | null;
  taken_at: string | null;
  takeovers_hour: number;
  is_free: boolean;
  why: string | null;
  failing_since: string | null;
  error: string | null;
  lock_awaited_since: string | null;
  lock_holder?: string | null;
}

export interface Status {
  pending: number;
  waiting: number;
  schedules_late: number;
  slots_used: number;
  completed: number;
  failed: number;
  cancelled: number;
  workspace_count: number;
  queue_paused: boolean;
  nodes: number;
  stuck: number;
  engine_reachable: boolean;
  engine_error: string | null;
  pending_reasons: Record<string, number>;
  stuck_executions: { id: string; workspace: string | null; workflow: string | null; stuck_since: string }[];
  no_worker: { workflow: string; waiting: number; handlers_missing: string[] }[];
  scheduler: Scheduler;
  oldest_pending_age_us: number | null;
  workspaces: WorkspaceUse[];
  now_at: string;
}

export interface Node {
  id: number;
  name: string;
  executor_group: string;
  host: string;
  weir_version: string;
  engine: string;
  engine_reachable: boolean;
  engine_error: string | null;
  desired_state: string;
  state: string;
  running: number;
  stuck: number;
  holds: number;
  schedules: boolean;
  started_at: string;
  seen_at: string;
  handlers: string[];
  capacity: number;
}

export interface Workflow {
  name: string;
  workspace: string | null;
  version: number;
  created_at: string;
  disabled: boolean;
  definition: string;
  source: string | null;
}

export interface Plan {
  name: string;
  max_concurrent: number;
  max_pending: number;
  weight: number;
  workspace_count: number;
}

export interface FailureGroup {
  error_code: string | null;
  workflow: string | null;
  workspace: string | null;
  count: number;
  first_at: string;
  last_at: string;
  sample_id: string;
  sample_error: string | null;
}

export interface Hook {
  name: string;
  on: string[];
  workspace: string | null;
  workflow: string | null;
  start_workspace: string | null;
  start_workflow: string;
  paused: boolean;
  waiting: number;
  dropped: number;
  error: string | null;
}

export interface Schedule {
  name: string;
  cron: string | null;
  zone: string | null;
  every_us: number | null;
  workflow: string;
  workspaces: string[] | null;
  plan: string | null;
  paused: boolean;
  next_at: string | null;
  waiting: number;
  fired: number;
  last_at: string | null;
  last_execution_id: string | null;
  last_status: string | null;
  error: string | null;
}

export interface Lock {
  name: string;
  holder: string | null;
  held: boolean;
  locked_at: string | null;
  lock_until: string | null;
}

export interface Token {
  id: number;
  name: string;
  role: string;
  workspaces: string[] | null;
  state: string;
  created_at: string;
  created_by: string;
  expires_at: string | null;
  last_used_at: string | null;
}

export interface Act {
  at: string;
  actor: string;
  act: string;
  subject: string;
  reason: string | null;
  before: unknown;
  after: unknown;
  affected: number;
}

export interface BulkJob {
  id: string;
  node?: string | null;
  act: string;
  state: string;
  matched: number;
  matched_is_exact: boolean;
  changed: number;
  requested: number;
  refused: number;
  first_refusal?: { code: string; detail: string } | null;
  error?: { code: string; detail: string } | null;
}
