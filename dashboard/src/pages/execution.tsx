// One execution: first the reason why it waits or what it does, then its way through time, its steps and its history.
import { Fragment } from 'preact';
import { useState } from 'preact/hooks';
import { segment } from '../api.ts';
import { absolute, duration, micros, seconds } from '../format.ts';
import { useRead } from '../live.ts';
import type { Action, ChildrenOfStep, LogAttempt, LogChunk, Page, Report, Step, WholeExecution, Why } from '../model.ts';
import { Copy, Data, Id, Loaded, Panel, ProblemBox, Time, WorkflowLink, WorkspaceLink } from '../parts/basics.tsx';
import { ActButton } from '../parts/dialog.tsx';
import { useExecutions } from '../parts/search.ts';
import { Slots, State } from '../parts/state.tsx';
import { Table } from '../parts/table.tsx';
import { Waits } from '../parts/waits.tsx';
import { canQuote, go, to, where } from '../router.ts';
import { texts } from '../texts.ts';
import { ExecutionTable } from './executions.tsx';

const final = ['COMPLETED', 'FAILED', 'CANCELLED'];

function WhyBox({ execution }: { execution: WholeExecution }) {
  const read = useRead<Why>(`v1/executions/${segment(execution.id)}/why`, {
    isFinal: (why) => final.includes(why.status),
  });
  return (
    <section class={`why is-${execution.status.toLowerCase()}`} aria-labelledby="why-title">
      <h2 id="why-title">{texts.execution.why[execution.status] ?? execution.status}</h2>
      <Loaded read={read}>{(why) => <WhyText why={why} />}</Loaded>
    </section>
  );
}

function WhyText({ why }: { why: Why }) {
  const reason = why.pending_reason ?? why.waiting_for;
  const isWaiting = why.status === 'PENDING' || why.status === 'WAITING';
  return (
    <>
      <p class="because" aria-live="polite">
        {why.error ? why.error : why.because}
        {(reason ?? why.error_code) && (
          <>
            {' '}
            <code>{reason ?? why.error_code}</code>
          </>
        )}
      </p>
      {reason && !why.scheduler_error && texts.execution.hints[reason] && <p>{texts.execution.hints[reason]}</p>}
      {why.scheduler_error && <p>{texts.execution.schedulerFails(why.scheduler_error)}</p>}
      {why.cancel_requested && <p>{texts.execution.cancelRequested}</p>}
      {why.engine_error && <p>{why.engine_error}</p>}
      {why.handlers_missing && why.handlers_missing.length > 0 && (
        <p>{texts.execution.handlers(why.handlers_missing.join(', '))}</p>
      )}
      <ul class="facts">
        {why.full_nodes && (
          <li>{texts.execution.fullNodes(why.full_nodes.nodes, why.full_nodes.running, why.full_nodes.capacity)}</li>
        )}
        {why.slots_max !== undefined && why.slots_max !== null && (
          <li>
            <Slots used={why.slots_used ?? 0} most={why.slots_max} />
          </li>
        )}
        {isWaiting && why.place !== undefined && (
          <li>{texts.execution.place(why.place, why.place_is_exact ?? true, why.waiting_in_lane ?? why.place)}</li>
        )}
        {isWaiting && why.due_at && (
          <li>
            {texts.execution.due} <Time at={why.due_at} />
          </li>
        )}
        {why.starts_refused > 0 && why.starts_max !== undefined && (
          <li>{texts.execution.starts(why.starts_refused, why.starts_max)}</li>
        )}
      </ul>
      <Waits why={why} />
      {isWaiting && why.slot_holders && why.slot_holders.length > 0 && (
        <>
          <h3>{texts.execution.holders}</h3>
          <ul class="holders">
            {why.slot_holders.map((holder) => (
              <li key={holder.id}>
                <Id id={holder.id} /> <State state={holder.status} /> {micros(holder.running_us)}
                {holder.step_names && <span class="quiet"> · {holder.step_names}</span>}
                {holder.node && <span class="quiet"> · {holder.node}</span>}
              </li>
            ))}
          </ul>
        </>
      )}
    </>
  );
}

const barKinds: Record<string, string> = { FAILED: 'bad', COMPLETED: 'good', CANCELLED: 'off', INTERRUPTED: 'off' };

interface Bar {
  key: string;
  label: string;
  kind: string;
  from: number;
  to: number;
}

/** Phases and attempts of steps on one scale of time. */
function Timeline({ execution }: { execution: WholeExecution }) {
  const moment = (at: string) => Date.parse(at);
  const begin = moment(execution.created_at);
  const ended = execution.finished_at ? moment(execution.finished_at) : begin + seconds(execution.created_at, null) * 1000;
  const end = Math.max(ended, begin + 1);
  const bars: Bar[] = [];
  const add = (key: string, label: string, kind: string, from: string | null, until: string | null) => {
    if (from !== null) bars.push({ key, label, kind, from: moment(from), to: until ? moment(until) : end });
  };
  const { claimed_at: claimed, dispatched_at: dispatched, finished_at: finished } = execution;
  // After a takeover it was claimed once more while it ran.
  const isFirstClaim = claimed !== null && (dispatched === null || moment(claimed) <= moment(dispatched));
  add(
    'pending',
    texts.execution.phases.pending,
    'wait',
    execution.created_at,
    (isFirstClaim ? claimed : dispatched) ?? finished,
  );
  if (isFirstClaim) add('starting', texts.execution.phases.starting, 'start', claimed, dispatched ?? finished);
  add('running', texts.execution.phases.running, 'run', dispatched, finished);
  const attempts = [...execution.earlier_attempts, ...execution.steps].filter((step) => step.started_at);
  attempts.sort((a, b) => moment(a.started_at ?? '') - moment(b.started_at ?? ''));
  for (const step of attempts) {
    const kind = barKinds[step.status] ?? 'run';
    const label = step.attempt > 1 ? `${step.step} · ${step.attempt}` : step.step;
    add(`${step.step} ${step.attempt}`, label, kind, step.started_at, step.finished_at);
  }
  const percent = (at: number) => Math.min(100, Math.max(0, ((at - begin) / (end - begin)) * 100));
  return (
    <Panel
      title={texts.execution.timeline}
      aside={<span class="quiet small number">{duration((end - begin) / 1000)}</span>}
    >
      <ol class="timeline">
        {bars.map((bar) => (
          <li key={bar.key}>
            <span class="cut" title={bar.label}>
              {bar.label}
            </span>
            <span class="track" aria-hidden="true">
              <i
                class={`is-${bar.kind}`}
                style={{ left: `${percent(bar.from)}%`, width: `${percent(bar.to) - percent(bar.from)}%` }}
              />
            </span>
            <span class="number">{duration((bar.to - bar.from) / 1000)}</span>
          </li>
        ))}
      </ol>
    </Panel>
  );
}

function decode(piece: { text?: string; base64?: string }): string {
  if (piece.text !== undefined) return piece.text;
  const bytes = Uint8Array.from(atob(piece.base64 ?? ''), (letter) => letter.charCodeAt(0));
  return new TextDecoder().decode(bytes);
}

/** A run with a log of its own. */
type Run = Pick<Step, 'step' | 'attempt' | 'finished_at'>;

function Log({ id, step }: { id: string; step: Run }) {
  const read = useRead<Page<LogChunk>>(`v1/executions/${segment(id)}/logs/${segment(step.step)}/${step.attempt}`, {
    isFinal: () => step.finished_at !== null,
  });
  if (read.problem?.status === 404) return <p class="quiet">{texts.execution.noLog}</p>;
  return (
    <Loaded read={read}>
      {(page) => {
        const pieces = page.items.flatMap((chunk) => chunk.pieces);
        if (pieces.length === 0) return <p class="quiet">{texts.execution.noLog}</p>;
        return (
          // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by the keyboard
          <pre class="log" tabIndex={0} role="log" aria-label={texts.execution.showLog(step.step, step.attempt)}>
            {pieces.map((piece, at) => (
              <span key={at} class={piece.stream} title={`${piece.stream} · ${absolute(piece.at, 'utc')}`}>
                {decode(piece)}
              </span>
            ))}
          </pre>
        );
      }}
    </Loaded>
  );
}

function LogButton({
  step,
  attempt,
  isOpen,
  press,
}: {
  step: string;
  attempt: number;
  isOpen: boolean;
  press: () => void;
}) {
  return (
    <button
      type="button"
      class="plain"
      aria-expanded={isOpen}
      title={texts.execution.showLog(step, attempt)}
      onClick={press}
    >
      {texts.execution.log}
    </button>
  );
}

function ErrorCell({ error_code, error }: Pick<Step, 'error_code' | 'error'>) {
  if (!error_code) return '';
  return (
    <span class="cut" title={error ?? ''}>
      <code>{error_code}</code> {error}
    </span>
  );
}

/** An action, or a run of a handler that is none: it goes on, or its node or worker has gone. */
interface ActionRow extends Omit<Action, 'outcome' | 'started_at' | 'finished_at'> {
  outcome: string | null;
  started_at: string | null;
  finished_at: string | null;
}

/** The runs that have a log and no action. Those of actions that are not shown are left out. */
function otherRuns({ earlier_actions }: WholeExecution, actions: Action[], logs: LogAttempt[]): ActionRow[] {
  const least = earlier_actions ? Math.min(...actions.map((action) => action.seq)) : 0;
  const rest = { outcome: null, next_state: null, node: null, actor: null, error_code: null, error: null };
  return logs
    .filter(({ step, attempt }) => attempt > least && !actions.some(({ seq, state }) => seq === attempt && state === step))
    .map(({ step, attempt }) => ({ ...rest, seq: attempt, state: step, started_at: null, finished_at: null }));
}

/** Of a workflow with states. The log of an action has the name of its state and the number of the action. */
function Actions({ execution, actions }: { execution: WholeExecution; actions: Action[] }) {
  const logs = useRead<{ items: LogAttempt[] }>(`v1/executions/${segment(execution.id)}/logs`, {
    isFinal: () => final.includes(execution.status),
  });
  const rows = [...actions, ...otherRuns(execution, actions, logs.data?.items ?? [])].sort((a, b) => a.seq - b.seq);
  const [open, setOpen] = useState<number | null>(null);
  const opened = rows.find((action) => action.seq === open);
  const runs = execution.status === 'DISPATCHED' ? rows.at(-1) : undefined;
  const earlier = execution.earlier_actions ?? 0;
  return (
    <Panel title={texts.execution.actions}>
      {earlier > 0 && <p class="quiet">{texts.execution.earlierActions(earlier)}</p>}
      {rows.length === 0 ? (
        <p class="quiet">{texts.execution.noActions}</p>
      ) : (
        <Table
          label={texts.execution.actions}
          rows={rows}
          id={(action) => String(action.seq)}
          columns={[
            { title: texts.column.action, kind: 'number', cell: (action) => action.seq },
            { title: texts.column.state, cell: (action) => action.state },
            {
              title: texts.column.outcome,
              cell: (action) => action.outcome ?? (action === runs ? <State state="RUNNING" /> : texts.execution.noAnswer),
            },
            { title: texts.column.next, cell: (action) => action.next_state ?? '' },
            {
              title: texts.column.duration,
              kind: 'number',
              from: 'medium',
              cell: (action) => (action.started_at ? duration(seconds(action.started_at, action.finished_at)) : texts.none),
            },
            { title: texts.column.by, from: 'wide', cell: (action) => action.actor ?? action.node ?? '' },
            {
              title: texts.column.error,
              kind: 'grow',
              from: 'medium',
              cell: ErrorCell,
            },
            {
              title: texts.execution.log,
              kind: 'acts',
              cell: (action) =>
                action.outcome === 'update' ? (
                  ''
                ) : (
                  <LogButton
                    step={action.state}
                    attempt={action.seq}
                    isOpen={open === action.seq}
                    press={() => setOpen(open === action.seq ? null : action.seq)}
                  />
                ),
            },
          ]}
        />
      )}
      {opened && (
        <div class="opened">
          <h3>{texts.execution.showLog(opened.state, opened.seq)}</h3>
          <Log id={execution.id} step={{ step: opened.state, attempt: opened.seq, finished_at: opened.finished_at }} />
        </div>
      )}
    </Panel>
  );
}

function Steps({ execution }: { execution: WholeExecution }) {
  const rows = [...execution.steps, ...execution.earlier_attempts];
  const [open, setOpen] = useState<string | null>(null);
  const key = (step: Step) => `${step.step} ${step.attempt}`;
  const opened = rows.find((step) => key(step) === open);
  return (
    <Panel title={texts.execution.steps}>
      {rows.length === 0 ? (
        <p class="quiet">{texts.execution.noSteps}</p>
      ) : (
        <Table
          label={texts.execution.steps}
          rows={rows}
          id={key}
          columns={[
            { title: texts.column.step, cell: (step) => step.step },
            { title: texts.column.state, cell: (step) => <State state={step.status} /> },
            { title: texts.column.attempt, kind: 'number', from: 'medium', cell: (step) => step.attempt },
            {
              title: texts.column.duration,
              kind: 'number',
              cell: (step) => (step.started_at ? duration(seconds(step.started_at, step.finished_at)) : texts.none),
            },
            { title: texts.column.node, from: 'wide', cell: (step) => step.node ?? texts.none },
            {
              title: texts.column.error,
              kind: 'grow',
              from: 'medium',
              cell: ErrorCell,
            },
            {
              title: texts.execution.log,
              kind: 'acts',
              cell: (step) => (
                <LogButton
                  step={step.step}
                  attempt={step.attempt}
                  isOpen={open === key(step)}
                  press={() => setOpen(open === key(step) ? null : key(step))}
                />
              ),
            },
          ]}
        />
      )}
      {opened && (
        <div class="opened">
          <h3>{texts.execution.showLog(opened.step, opened.attempt)}</h3>
          <Log id={execution.id} step={opened} />
          {opened.output !== null && opened.output !== '' && (
            <>
              <h3>{texts.execution.output}</h3>
              <Data value={opened.output} />
            </>
          )}
        </div>
      )}
    </Panel>
  );
}

function Events({ execution }: { execution: WholeExecution }) {
  return (
    <Panel title={texts.execution.events}>
      {execution.earlier_events > 0 && <p class="quiet">{texts.execution.earlier(execution.earlier_events)}</p>}
      <Table
        label={texts.execution.events}
        rows={execution.events.map((event, number) => ({ ...event, number }))}
        id={(event) => String(event.number)}
        columns={[
          {
            title: texts.column.at,
            cell: (event) => (
              <time title={absolute(event.at, 'utc')}>{`+${duration(seconds(execution.created_at, event.at))}`}</time>
            ),
          },
          { title: texts.column.event, cell: (event) => <code>{event.event}</code> },
          {
            title: texts.column.detail,
            kind: 'grow',
            cell: (event) => [event.reason, event.detail].filter(Boolean).join(' · '),
          },
          { title: texts.column.by, from: 'medium', cell: (event) => event.actor ?? event.node ?? '' },
        ]}
      />
    </Panel>
  );
}

/** A condition of the list; a value that no filter can hold is a text alone. */
function Condition({ execution, name, value }: { execution: WholeExecution; name: string; value: string }) {
  const text = <code class="wrap">{value}</code>;
  if (!canQuote(value) || value === '') return text;
  const beside: Record<string, string> = execution.workspace === null ? {} : { workspace: execution.workspace };
  return <a href={where({ ...beside, [name]: value })}>{text}</a>;
}

const SHOWN_CHILDREN = '20';

/** How many children each step has, and the newest of them. */
function Children({ execution, steps }: { execution: WholeExecution; steps: ChildrenOfStep[] }) {
  const condition = `parent=${execution.id}`;
  const read = useExecutions({ where: condition, workspace: execution.workspace, limit: SHOWN_CHILDREN });
  return (
    <Panel
      title={texts.execution.children}
      aside={<a href={to('executions', null, { where: condition })}>{texts.workspace.all}</a>}
    >
      <ul class="facts">
        {steps.map((step) => (
          <li key={step.step}>{texts.execution.childrenOf(step)}</li>
        ))}
      </ul>
      <Loaded read={read}>
        {(page) =>
          page.items.length === 0 ? (
            <p class="quiet">{texts.execution.noChildren}</p>
          ) : (
            <ExecutionTable rows={page.items} label={texts.execution.children} isShort />
          )
        }
      </Loaded>
    </Panel>
  );
}

function Result({ id }: { id: string }) {
  const [isOpen, setOpen] = useState(false);
  const read = useRead<unknown>(isOpen ? `v1/executions/${segment(id)}/result` : null, { isFinal: () => true });
  return (
    <details onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>{texts.execution.result}</summary>
      {read.problem && <ProblemBox problem={read.problem} />}
      {!read.isLoading && !read.problem && <Data value={read.data} />}
    </details>
  );
}

/** Where a retry begins. Without a finished step there is no choice. */
function RetryStart({ steps }: { steps: Step[] }) {
  const finished = steps.filter((step) => step.status === 'COMPLETED' || step.status === 'SKIPPED');
  if (finished.length === 0) return null;
  return (
    <label class="field">
      <span>{texts.act.retryStart}</span>
      <select name="start">
        <option value="">{texts.act.retryAll}</option>
        <option value="finished">{texts.act.retryKeep}</option>
        {finished.map(({ step }) => (
          <option key={step} value={`step ${step}`}>
            {texts.act.retryFrom(step)}
          </option>
        ))}
      </select>
    </label>
  );
}

function retryOrder(form: FormData): unknown {
  const start = String(form.get('start') ?? '');
  if (start === 'finished') return { keep_finished: true };
  return start.startsWith('step ') ? { from_step: start.slice('step '.length) } : {};
}

function Acts({ execution }: { execution: WholeExecution }) {
  const path = (act: string) => `v1/executions/${segment(execution.id)}/${act}`;
  const isFinal = final.includes(execution.status);
  const isWaiting = execution.status === 'PENDING';
  const open = (answer: Record<string, unknown>) => typeof answer.new_id === 'string' && go(to('execution', answer.new_id));
  return (
    <div class="buttons">
      {isWaiting && (
        <ActButton
          needs="operate"
          name={texts.act.release}
          ask={texts.act.ask.release}
          method="POST"
          path={path('release')}
        />
      )}
      {isFinal && execution.status !== 'COMPLETED' && (
        <ActButton
          needs="operate"
          name={texts.act.retry}
          ask={texts.act.ask.retry}
          method="POST"
          path={path('retry')}
          read={retryOrder}
          done={open}
        >
          <RetryStart steps={execution.steps} />
        </ActButton>
      )}
      {!isFinal && (
        <ActButton
          needs="operate"
          name={texts.act.cancel}
          ask={texts.act.ask.cancel}
          isGrave
          method="POST"
          path={path('cancel')}
        />
      )}
    </div>
  );
}

function Copies({ id }: { id: string }) {
  const address = new URL(`v1/executions/${id}`, document.baseURI).href;
  const forms: [string, string][] = [
    [texts.execution.copyCli, `weir show ${id}`],
    [texts.execution.copyCurl, `curl -H "Authorization: Bearer $WEIR_TOKEN" ${address}`],
    [texts.execution.copySql, `SELECT * FROM weir.executions WHERE id = '${id}';`],
    [texts.execution.copySqlite, `SELECT * FROM executions WHERE id = '${id}';`],
  ];
  return (
    <div class="buttons copies">
      {forms.map(([name, text]) => (
        <Copy key={name} text={text} label={`${texts.execution.copy} ${name}`} />
      ))}
    </div>
  );
}

/** How far the handlers are that run, by their own reports. Without a number there is no bar. */
function Progress({ reports }: { reports: Report[] }) {
  return (
    <Panel title={texts.execution.progress}>
      {reports.map(({ step, fraction, text, at }) => (
        <div class="field" key={step}>
          <span>
            {step} {fraction !== null && texts.execution.percent(fraction)} <Time at={at} />
          </span>
          {fraction !== null && <progress max={1} value={fraction} aria-label={step} />}
          {text !== null && <p>{text}</p>}
        </div>
      ))}
    </Panel>
  );
}

export function OneExecution({ id }: { id: string }) {
  const read = useRead<WholeExecution>(`v1/executions/${segment(id)}`, { isFinal: (row) => final.includes(row.status) });
  return (
    <Loaded read={read}>
      {(execution) => (
        <>
          <div class="toolbar">
            <p class="title">
              <State state={execution.status} /> <WorkflowLink name={execution.workflow} />
              <span class="quiet"> v{execution.version} · </span>
              <WorkspaceLink name={execution.workspace} />
            </p>
            <Acts execution={execution} />
          </div>
          <WhyBox execution={execution} />
          <div class="columns">
            <div>
              {execution.progress.length > 0 && <Progress reports={execution.progress} />}
              <Timeline execution={execution} />
              {execution.actions || execution.state ? (
                <Actions execution={execution} actions={execution.actions ?? []} />
              ) : (
                <Steps execution={execution} />
              )}
              {execution.children && execution.children.length > 0 && (
                <Children execution={execution} steps={execution.children} />
              )}
              <Events execution={execution} />
            </div>
            <div>
              <Panel title={texts.execution.facts}>
                <Facts execution={execution} />
                <Copies id={execution.id} />
              </Panel>
              <Panel title={texts.execution.params}>
                <Data value={execution.params} />
                {execution.status === 'COMPLETED' && <Result id={execution.id} />}
              </Panel>
            </div>
          </div>
        </>
      )}
    </Loaded>
  );
}

function Facts({ execution }: { execution: WholeExecution }) {
  return (
    <dl class="facts-list">
      {(['created_at', 'run_at', 'claimed_at', 'dispatched_at', 'finished_at'] as const).map((name) => (
        <>
          <dt>{name}</dt>
          <dd>
            <Time at={execution[name]} />
          </dd>
        </>
      ))}
      <dt>executor_group</dt>
      <dd>{execution.executor_group ?? texts.none}</dd>
      <dt>node</dt>
      <dd>{execution.node ? <a href={to('nodes')}>{execution.node}</a> : texts.none}</dd>
      <dt>priority</dt>
      <dd>{execution.priority}</dd>
      {(['starts_refused', 'deferrals', 'handovers'] as const).map((name) => (
        <>
          <dt>{name}</dt>
          <dd>{execution[name]}</dd>
        </>
      ))}
      {execution.idempotency_key && (
        <>
          <dt>idempotency_key</dt>
          <dd>
            <code class="wrap">{execution.idempotency_key}</code>
          </dd>
        </>
      )}
      {execution.business_key !== null && (
        <>
          <dt>business_key</dt>
          <dd>
            <Condition execution={execution} name="business_key" value={execution.business_key} />
          </dd>
        </>
      )}
      {Object.entries(execution.labels ?? {}).map(([name, value]) => (
        <Fragment key={name}>
          <dt>label.{name}</dt>
          <dd>
            <Condition execution={execution} name={`label.${name}`} value={value} />
          </dd>
        </Fragment>
      ))}
      {execution.parent && (
        <>
          <dt>parent</dt>
          <dd>
            <Id id={execution.parent.id} /> {texts.execution.childOf(execution.parent.step, execution.parent.index)}
          </dd>
        </>
      )}
      {execution.retry_of && (
        <>
          <dt>retry_of</dt>
          <dd>
            <Id id={execution.retry_of} />
          </dd>
        </>
      )}
    </dl>
  );
}
