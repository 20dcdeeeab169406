// The first page: whether all is well, what waits and why, and the slots of every workspace, those in trouble first.
import { ask, hasAllWorkspaces, may, session, withQuery } from '../api.ts';
import { coarse, count, micros, rate } from '../format.ts';
import { useRead } from '../live.ts';
import type { Execution, HistoryPoint, Page, Scheduler, Status, Workspace, WorkspaceUse } from '../model.ts';
import { Empty, Id, Loaded, Panel, Time, WorkspaceLink } from '../parts/basics.tsx';
import { History } from '../parts/chart.tsx';
import { DemoPanel } from '../parts/demo.tsx';
import { ActButton } from '../parts/dialog.tsx';
import { Icon, Slots, State } from '../parts/state.tsx';
import { Table } from '../parts/table.tsx';
import { place, to, where } from '../router.ts';
import { texts } from '../texts.ts';

const SHOWN = 100;
const SHOWN_MOST = 1000;

/** The one word for a workspace that the numbers of its row give. */
export const stateOf = (row: { paused: boolean; slots_used: number; slots_max: number; pending: number }): string =>
  row.paused
    ? 'paused'
    : row.slots_used >= row.slots_max && row.pending > 0
      ? 'full'
      : row.slots_used + row.pending > 0
        ? 'open'
        : 'idle';

interface Trouble {
  key: string;
  text: string;
  link?: string;
}

/** Reasons that end only when a person does something. Those of the queue, the scheduler and the engine have texts of their own. */
const unserved = ['no_node_in_group', 'no_node_for_engine', 'quarantined'];

/** Why nothing is assigned; null when a node schedules. */
export function schedulerTrouble(scheduler: Scheduler): string | null {
  const { node, error, why } = scheduler;
  if (scheduler.is_free || node === null) {
    return texts.overview.schedulerFree([why, error].filter((text) => text !== null).join('; '));
  }
  if (scheduler.failing_since !== null) return texts.overview.schedulerFails(node, error ?? '');
  if (scheduler.lock_awaited_since !== null) return texts.overview.schedulerAwaits(node, scheduler.lock_holder ?? '');
  return null;
}

function troubles(status: Status): Trouble[] {
  const found: Trouble[] = [];
  const handlers = (names: string[]) => names.join(', ');
  if (status.nodes === 0) found.push({ key: 'nodes', text: texts.overview.noNodes, link: to('nodes') });
  const idle = schedulerTrouble(status.scheduler);
  if (idle !== null) found.push({ key: 'scheduler', text: idle, link: to('nodes') });
  if (status.queue_paused) found.push({ key: 'paused', text: texts.overview.paused, link: to('nodes') });
  if (!status.engine_reachable) {
    found.push({ key: 'engine', text: texts.overview.engine(status.engine_error ?? ''), link: to('nodes') });
  }
  if (status.schedules_late > 0) {
    found.push({ key: 'schedules', text: texts.overview.schedulesLate(status.schedules_late), link: to('schedules') });
  }
  if (status.stuck > 0) {
    found.push({ key: 'stuck', text: texts.overview.stuck(status.stuck), link: where({ stuck: 'yes' }) });
  }
  for (const reason of unserved) {
    const number = status.pending_reasons[reason] ?? 0;
    if (number > 0) {
      found.push({
        key: reason,
        text: texts.overview.unserved(texts.reason[reason] ?? reason, number),
        link: where({ status: 'PENDING', pending_reason: reason }),
      });
    }
  }
  for (const unserved of status.no_worker) {
    found.push({
      key: `worker ${unserved.workflow}`,
      text: texts.overview.noWorker(unserved.workflow, unserved.waiting, handlers(unserved.handlers_missing)),
      link: where({ workflow: unserved.workflow, status: 'PENDING' }),
    });
  }
  return found;
}

function Health({ status }: { status: Status }) {
  const found = troubles(status);
  const scheduler = status.scheduler.node;
  return (
    <section class={`health ${found.length > 0 ? 'is-trouble' : 'is-calm'}`}>
      <h2 aria-live="polite">
        <Icon kind={found.length > 0 ? 'bad' : 'good'} />
        {found.length > 0 ? texts.overview.trouble : texts.overview.calm}
      </h2>
      {found.length === 0 && <p>{texts.overview.calmDetail}</p>}
      {found.length > 0 && (
        <ul>
          {found.map((trouble) => (
            <li key={trouble.key}>{trouble.link ? <a href={trouble.link}>{trouble.text}</a> : trouble.text}</li>
          ))}
        </ul>
      )}
      <p class="facts">
        <a href={to('nodes')}>{texts.overview.nodes(status.nodes)}</a>
        {scheduler && <span>{texts.overview.schedulerOf(scheduler)}</span>}
        {status.scheduler.takeovers_hour > 1 && <span>{texts.overview.takeovers(status.scheduler.takeovers_hour)}</span>}
        {may('operate') && <QueuePause isPaused={status.queue_paused} />}
      </p>
    </section>
  );
}

export function QueuePause({ isPaused }: { isPaused: boolean }) {
  return isPaused ? (
    <ActButton
      needs="operate"
      name={texts.nodes.resumeQueue}
      ask={texts.act.ask.resumeQueue}
      method="POST"
      path="v1/resume"
    />
  ) : (
    <ActButton needs="operate" name={texts.nodes.pauseQueue} ask={texts.act.ask.pauseQueue} method="POST" path="v1/pause" />
  );
}

function Numbers({ status }: { status: Status }) {
  const oldest = status.oldest_pending_age_us;
  return (
    <dl class="numbers">
      <div>
        <dt>{texts.overview.running}</dt>
        <dd>
          <a href={where({ status: 'CLAIMED,DISPATCHED' })}>{count(status.slots_used)}</a>
        </dd>
      </div>
      <div>
        <dt>{texts.overview.pending}</dt>
        <dd>
          <a href={where({ status: 'PENDING' })}>{count(status.pending)}</a>
          {oldest !== null && <small>{texts.overview.oldest(coarse(oldest / 1e6))}</small>}
        </dd>
      </div>
      <div>
        <dt>{texts.overview.waiting}</dt>
        <dd>
          <a href={where({ status: 'WAITING' })}>{count(status.waiting)}</a>
        </dd>
      </div>
      <div>
        <dt>{texts.overview.failed}</dt>
        <dd>
          <a href={to('failures')}>{count(status.failed)}</a>
        </dd>
      </div>
      <div>
        <dt>{texts.overview.completed}</dt>
        <dd>
          <a href={where({ status: 'COMPLETED' })}>{count(status.completed)}</a>
        </dd>
      </div>
    </dl>
  );
}

/** The newest ends that need a person. */
function LastFailures() {
  const read = useRead<Page<Execution>>(withQuery('v1/executions', { status: 'FAILED', limit: '5' }));
  if (read.data !== null && read.data.items.length === 0) return null;
  return (
    <Panel title={texts.workspace.failed} aside={<a href={to('failures')}>{texts.pages.failures}</a>}>
      <Loaded read={read}>
        {(page) => (
          <ul class="failed">
            {page.items.map((row) => (
              <li key={row.id}>
                <Id id={row.id} /> <WorkspaceLink name={row.workspace} />
                <Time at={row.finished_at} />
                <span class="cut quiet" title={row.error ?? ''}>
                  <code>{row.error_code}</code> {row.error}
                </span>
              </li>
            ))}
          </ul>
        )}
      </Loaded>
    </Panel>
  );
}

function Reasons({ status }: { status: Status }) {
  const rows = Object.entries(status.pending_reasons)
    .filter(([, number]) => number > 0)
    .sort(([, a], [, b]) => b - a);
  const most = Math.max(1, ...rows.map(([, number]) => number));
  return (
    <Panel title={texts.overview.why}>
      {rows.length === 0 && <p class="quiet">{texts.overview.noneWait}</p>}
      <ul class="reasons">
        {rows.map(([reason, number]) => (
          <li key={reason}>
            <a href={where({ status: 'PENDING', pending_reason: reason })}>
              <span class="word">{texts.reason[reason] ?? reason}</span>
              <code>{reason}</code>
              <span class="meter" aria-hidden="true">
                <i style={{ width: `${(number / most) * 100}%` }} />
              </span>
              <span class="number">{count(number)}</span>
            </a>
          </li>
        ))}
      </ul>
    </Panel>
  );
}

const pressureOf = (row: Workspace | WorkspaceUse): number => row.pending / Math.max(1, row.slots_max);

export function WorkspaceTable({ rows }: { rows: (Workspace | WorkspaceUse)[] }) {
  const most = Math.max(...rows.map(pressureOf)) || 1;
  return (
    <Table
      label={texts.overview.slots}
      rows={rows}
      id={(row) => row.name}
      columns={[
        {
          title: texts.column.workspace,
          cell: (row) => (
            <span class="cut name" title={row.name}>
              <WorkspaceLink name={row.name} />
            </span>
          ),
        },
        {
          title: texts.column.slots,
          kind: 'fill',
          cell: (row) => (
            <a class="bare" href={where({ workspace: row.name, status: 'CLAIMED,DISPATCHED' })}>
              <Slots used={row.slots_used} most={row.slots_max} isPaused={row.paused} />
              <span class="pressure from-normal" aria-hidden="true">
                <i style={{ width: `${(pressureOf(row) / most) * 100}%` }} />
              </span>
            </a>
          ),
        },
        { title: texts.column.state, from: 'medium', cell: (row) => <State state={stateOf(row)} /> },
        {
          title: texts.column.pending,
          kind: 'number',
          cell: (row) => (
            <a class={row.pending > 0 ? '' : 'zero'} href={where({ workspace: row.name, status: 'PENDING' })}>
              {count(row.pending)}
            </a>
          ),
        },
        {
          title: texts.column.oldest,
          kind: 'number',
          from: 'medium',
          cell: ({ oldest_pending_age_us: oldest }) =>
            oldest === null ? <span class="quiet">{texts.none}</span> : coarse(oldest / 1e6),
        },
        {
          title: texts.column.failed,
          kind: 'number',
          from: 'medium',
          cell: (row) => (
            <a class={row.failed > 0 ? 'is-bad' : 'zero'} href={where({ workspace: row.name, status: 'FAILED' })}>
              {count(row.failed)}
            </a>
          ),
        },
        { title: texts.column.plan, from: 'normal', cell: (row) => <a href={to('plans')}>{row.plan}</a> },
      ]}
    />
  );
}

function OfAll() {
  const shown = place.value.query.get('shown') === 'more' ? SHOWN_MOST : SHOWN;
  const read = useRead<Status>(withQuery('v1/status', { workspaces: String(shown) }));
  return (
    <Loaded read={read}>
      {(status) => (
        <>
          <Health status={status} />
          <DemoPanel />
          <Numbers status={status} />
          <div class="columns">
            <Panel title={texts.overview.slots} aside={<p class="quiet small">{texts.overview.slotsLead}</p>}>
              {status.workspaces.length === 0 && (
                <Empty text={texts.overview.empty} command={texts.overview.emptyCommand} />
              )}
              {status.workspaces.length > 0 && <WorkspaceTable rows={status.workspaces} />}
              {status.workspaces.length < status.workspace_count && (
                <p class="pager">
                  <span class="quiet">{texts.overview.more(status.workspaces.length, status.workspace_count)}</span>
                  {shown === SHOWN && <a href={to('overview', null, { shown: 'more' })}>{count(SHOWN_MOST)}</a>}
                  <a href={to('workspaces')}>{texts.pages.workspaces}</a>
                </p>
              )}
            </Panel>
            <div>
              <Reasons status={status} />
              <LastFailures />
              {status.stuck_executions.length > 0 && (
                <Panel title={texts.overview.stuck(status.stuck)}>
                  <ul class="plain">
                    {status.stuck_executions.map((row) => (
                      <li key={row.id}>
                        <Id id={row.id} /> {row.workflow} · {row.workspace}
                      </li>
                    ))}
                  </ul>
                </Panel>
              )}
            </div>
          </div>
          <QueueHistory />
        </>
      )}
    </Loaded>
  );
}

const perSecond = (of: (point: HistoryPoint) => number) => (point: HistoryPoint) =>
  point.span_us > 0 ? (of(point) * 1e6) / point.span_us : null;

function QueueHistory() {
  return (
    <History<HistoryPoint>
      path="v1/history"
      charts={[
        {
          title: texts.chart.rates,
          format: rate,
          lines: [
            { name: texts.chart.starts, value: perSecond((point) => point.starts) },
            { name: texts.overview.completed, value: perSecond((point) => point.completed) },
            { name: texts.overview.failed, value: perSecond((point) => point.failed) },
          ],
        },
        {
          title: texts.chart.waits,
          format: micros,
          lines: [
            { name: texts.chart.p50, value: (point) => point.wait_p50_us },
            { name: texts.chart.p95, value: (point) => point.wait_p95_us },
          ],
        },
        {
          title: texts.chart.phases,
          format: micros,
          lines: [
            { name: texts.chart.capacity, value: (point) => point.capacity_wait_p95_us },
            { name: texts.chart.pause, value: (point) => point.pause_wait_p95_us },
            { name: texts.chart.dispatch, value: (point) => point.dispatch_wait_p95_us },
          ],
        },
        {
          title: texts.chart.load,
          format: count,
          lines: [
            { name: texts.overview.running, value: (point) => point.slots_used },
            { name: texts.overview.pending, value: (point) => point.pending },
          ],
        },
      ]}
    />
  );
}

/** A token of some workspaces sees its own: one request for each, one after the other. */
function OfSome({ names }: { names: string[] }) {
  const load = async (signal: AbortSignal) => {
    const rows: Workspace[] = [];
    for (const workspace of names) {
      rows.push(...(await ask<Page<Workspace>>(withQuery('v1/workspaces', { workspace }), { signal })).items);
    }
    return rows.sort((a, b) => pressureOf(b) - pressureOf(a));
  };
  const read = useRead<Workspace[]>('own workspaces', { load });
  return (
    <Panel title={texts.overview.slots}>
      <Loaded read={read}>{(rows) => <WorkspaceTable rows={rows} />}</Loaded>
    </Panel>
  );
}

export const Overview = () => (hasAllWorkspaces() ? <OfAll /> : <OfSome names={session.value?.workspaces ?? []} />);
