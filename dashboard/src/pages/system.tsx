// Failures, nodes, hooks, locks, tokens, the record of acts, settings.
import { segment, session, signOut, withQuery } from '../api.ts';
import { count, micros } from '../format.ts';
import { useRead } from '../live.ts';
import type { Act, FailureGroup, Hook, Lock, Node, Schedule, Status, Token } from '../model.ts';
import { Empty, Id, Loaded, Panel, Time, WorkflowLink, WorkspaceLink } from '../parts/basics.tsx';
import { ActButton } from '../parts/dialog.tsx';
import { Find } from '../parts/find.tsx';
import { State } from '../parts/state.tsx';
import { Table, useList } from '../parts/table.tsx';
import { chosenWorkspace, WorkspaceChoice } from '../parts/workspace_choice.tsx';
import { place, where } from '../router.ts';
import { type Theme, theme, themes, timeFormat, timeFormats } from '../settings.ts';
import { texts } from '../texts.ts';
import { QueuePause, schedulerTrouble } from './overview.tsx';

export function Failures() {
  const workspace = chosenWorkspace();
  const read = useRead<{ items: FailureGroup[]; executions_read: number; is_whole: boolean }>(
    withQuery('v1/failures', { workspace }),
  );
  const link = (row: FailureGroup) => {
    const conditions: Record<string, string> = { status: 'FAILED', retried: 'no', dismissed: 'no' };
    if (row.workspace) conditions.workspace = row.workspace;
    if (row.error_code) conditions.error_code = row.error_code;
    if (row.workflow) conditions.workflow = row.workflow;
    return where(conditions);
  };
  return (
    <>
      <WorkspaceChoice />
      <Loaded read={read}>
        {(page) =>
          page.items.length === 0 ? (
            <Empty text={texts.failures.empty} />
          ) : (
            <>
              <p class="quiet">{texts.failures.lead(page.executions_read, page.is_whole)}</p>
              <Table
                label={texts.pages.failures}
                rows={page.items}
                id={(row) => `${row.error_code} ${row.workflow} ${row.workspace}`}
                columns={[
                  {
                    title: texts.column.error,
                    cell: (row) => <a href={link(row)}>{row.error_code ?? texts.failures.noCode}</a>,
                  },
                  { title: texts.column.count, kind: 'number', cell: (row) => <a href={link(row)}>{count(row.count)}</a> },
                  { title: texts.column.workflow, cell: (row) => <WorkflowLink name={row.workflow} /> },
                  { title: texts.column.workspace, cell: (row) => <WorkspaceLink name={row.workspace} /> },
                  { title: texts.column.first, from: 'wide', cell: (row) => <Time at={row.first_at} /> },
                  { title: texts.column.last, from: 'medium', cell: (row) => <Time at={row.last_at} /> },
                  {
                    title: texts.column.sample,
                    kind: 'grow',
                    from: 'medium',
                    cell: (row) => (
                      <span class="cut" title={row.sample_error ?? ''}>
                        <Id id={row.sample_id} /> {row.sample_error}
                      </span>
                    ),
                  },
                ]}
              />
            </>
          )
        }
      </Loaded>
    </>
  );
}

export function Nodes() {
  const [read, pager] = useList<Node>('v1/nodes');
  const status = useRead<Status>('v1/status?workspaces=0');
  const isGone = (row: Node) => row.state === 'dead' || row.state === 'stopped';
  const path = (row: Node, order: string) => `v1/nodes/${segment(row.name)}/${order}`;
  return (
    <Loaded read={read}>
      {(page) => (
        <>
          <div class="toolbar">
            <p class="quiet">
              {status.data &&
                (schedulerTrouble(status.data.scheduler) ?? texts.overview.schedulerOf(status.data.scheduler.node ?? ''))}
            </p>
            {status.data && <QueuePause isPaused={status.data.queue_paused} />}
          </div>
          {page.items.length === 0 ? (
            <Empty text={texts.nodes.empty} command={texts.nodes.emptyCommand} />
          ) : (
            <Table
              label={texts.pages.nodes}
              rows={page.items}
              id={(row) => String(row.id)}
              columns={[
                {
                  title: texts.column.node,
                  kind: 'grow',
                  cell: (row) => (
                    <>
                      {row.name} {row.schedules && <span class="mark">{texts.nodes.schedules}</span>}
                      {row.handlers.length > 0 && (
                        <div class="quiet small">{texts.nodes.handlers(row.handlers.join(', '))}</div>
                      )}
                      {row.engine_error && <div class="is-bad small">{row.engine_error}</div>}
                    </>
                  ),
                },
                { title: texts.column.state, cell: (row) => <State state={row.state} /> },
                {
                  title: texts.column.running,
                  kind: 'number',
                  cell: (row) => (isGone(row) ? texts.none : `${count(row.running)}/${count(row.capacity)}`),
                },
                { title: texts.column.group, from: 'medium', cell: (row) => row.executor_group },
                { title: texts.column.engine, from: 'wide', cell: (row) => row.engine },
                { title: texts.column.host, from: 'wide', cell: (row) => row.host },
                { title: texts.column.version, from: 'wide', cell: (row) => row.weir_version },
                { title: texts.column.seen, from: 'medium', cell: (row) => <Time at={row.seen_at} /> },
                {
                  title: texts.column.actions,
                  kind: 'acts',
                  cell: (row) =>
                    !isGone(row) && (
                      <div class="buttons">
                        {row.desired_state === 'run' ? (
                          <ActButton
                            needs="operate"
                            name={texts.act.pause}
                            ask={texts.act.ask.pauseNode(row.name)}
                            method="POST"
                            path={path(row, 'pause')}
                          />
                        ) : (
                          <ActButton
                            needs="operate"
                            name={texts.act.resume}
                            ask={texts.act.ask.resumeNode(row.name)}
                            method="POST"
                            path={path(row, 'resume')}
                          />
                        )}
                        <ActButton
                          needs="operate"
                          isGrave
                          name={texts.act.drain}
                          ask={texts.act.ask.drainNode(row.name)}
                          method="POST"
                          path={path(row, 'drain')}
                        />
                      </div>
                    ),
                },
              ]}
            />
          )}
          {pager}
        </>
      )}
    </Loaded>
  );
}

const timesOf = (row: Schedule) =>
  row.cron !== null ? [row.cron, row.zone].filter(Boolean).join(' ') : texts.schedules.every(micros(row.every_us ?? 0));

export function Schedules() {
  const [read, pager] = useList<Schedule>('v1/schedules');
  const path = (row: Schedule, act: string) => `v1/schedules/${segment(row.name)}/${act}`;
  return (
    <Loaded read={read}>
      {(page) =>
        page.items.length === 0 ? (
          <Empty text={texts.schedules.empty} command={texts.schedules.emptyCommand} />
        ) : (
          <>
            <Table
              label={texts.pages.schedules}
              rows={page.items}
              id={(row) => row.name}
              columns={[
                {
                  title: texts.column.name,
                  kind: 'grow',
                  cell: (row) => (
                    <>
                      {row.name}
                      {row.error && <div class="is-bad small">{row.error}</div>}
                    </>
                  ),
                },
                { title: texts.column.state, cell: (row) => <State state={row.paused ? 'paused' : 'enabled'} /> },
                { title: texts.column.when, from: 'medium', cell: (row) => <code>{timesOf(row)}</code> },
                { title: texts.column.starts, from: 'medium', cell: (row) => <WorkflowLink name={row.workflow} /> },
                {
                  title: texts.column.workspaces,
                  from: 'wide',
                  cell: (row) => row.workspaces?.join(', ') ?? texts.schedules.ofPlan(row.plan ?? ''),
                },
                { title: texts.column.next, cell: (row) => <Time at={row.next_at} /> },
                {
                  title: texts.column.lastRun,
                  from: 'wide',
                  cell: (row) =>
                    row.last_execution_id === null ? (
                      <Time at={row.last_at} />
                    ) : (
                      <>
                        <Id id={row.last_execution_id} /> {row.last_status && <State state={row.last_status} />}
                      </>
                    ),
                },
                { title: texts.column.fired, kind: 'number', from: 'wide', cell: (row) => count(row.fired) },
                {
                  title: texts.column.actions,
                  kind: 'acts',
                  cell: (row) => (
                    <div class="buttons">
                      <ActButton
                        needs="operate"
                        name={texts.act.trigger}
                        ask={texts.act.ask.triggerSchedule(row.name)}
                        method="POST"
                        path={path(row, 'trigger')}
                        body={{}}
                      />
                      <ActButton
                        needs="operate"
                        name={row.paused ? texts.act.resume : texts.act.pause}
                        ask={row.paused ? texts.act.ask.resumeSchedule(row.name) : texts.act.ask.pauseSchedule(row.name)}
                        method="POST"
                        path={path(row, row.paused ? 'resume' : 'pause')}
                      />
                    </div>
                  ),
                },
              ]}
            />
            {pager}
          </>
        )
      }
    </Loaded>
  );
}

export function Hooks() {
  const [read, pager] = useList<Hook>('v1/hooks');
  return (
    <Loaded read={read}>
      {(page) =>
        page.items.length === 0 ? (
          <Empty text={texts.hooks.empty} command={texts.hooks.emptyCommand} />
        ) : (
          <>
            <Table
              label={texts.pages.hooks}
              rows={page.items}
              id={(row) => row.name}
              columns={[
                { title: texts.column.name, kind: 'grow', cell: (row) => row.name },
                { title: texts.column.state, cell: (row) => <State state={row.paused ? 'paused' : 'enabled'} /> },
                {
                  title: texts.column.on,
                  from: 'medium',
                  cell: (row) => row.on.map((end) => texts.state[end] ?? end).join(', '),
                },
                { title: texts.column.starts, from: 'medium', cell: (row) => <WorkflowLink name={row.start_workflow} /> },
                { title: texts.column.waiting, kind: 'number', cell: (row) => count(row.waiting) },
                { title: texts.column.dropped, kind: 'number', from: 'wide', cell: (row) => count(row.dropped) },
                { title: texts.column.error, from: 'wide', cell: (row) => row.error ?? '' },
                {
                  title: texts.column.actions,
                  kind: 'acts',
                  cell: (row) => (
                    <ActButton
                      needs="admin"
                      name={row.paused ? texts.act.resume : texts.act.pause}
                      ask={row.paused ? texts.act.ask.resumeHook(row.name) : texts.act.ask.pauseHook(row.name)}
                      method="POST"
                      path={`v1/hooks/${segment(row.name)}/${row.paused ? 'resume' : 'pause'}`}
                    />
                  ),
                },
              ]}
            />
            {pager}
          </>
        )
      }
    </Loaded>
  );
}

export function Locks() {
  const [read, pager] = useList<Lock>('v1/locks');
  return (
    <Loaded read={read}>
      {(page) =>
        page.items.length === 0 ? (
          <Empty text={texts.locks.empty} />
        ) : (
          <>
            <Table
              label={texts.pages.locks}
              rows={page.items}
              id={(row) => row.name}
              columns={[
                { title: texts.column.name, kind: 'grow', cell: (row) => row.name },
                { title: texts.column.state, cell: (row) => <State state={row.held ? 'held' : 'free'} /> },
                { title: texts.column.holder, cell: (row) => row.holder ?? texts.none },
                { title: texts.column.at, from: 'medium', cell: (row) => <Time at={row.locked_at} /> },
                { title: texts.column.until, from: 'medium', cell: (row) => <Time at={row.lock_until} /> },
                {
                  title: texts.column.actions,
                  kind: 'acts',
                  cell: (row) =>
                    row.held && (
                      <ActButton
                        needs="operate"
                        isGrave
                        name={texts.act.unlock}
                        ask={texts.act.ask.releaseLock(row.name)}
                        method="DELETE"
                        path={withQuery(`v1/locks/${segment(row.name)}`, { force: 'true' })}
                      />
                    ),
                },
              ]}
            />
            {pager}
          </>
        )
      }
    </Loaded>
  );
}

export function Tokens() {
  const [read, pager] = useList<Token>('v1/tokens');
  return (
    <Loaded read={read}>
      {(page) =>
        page.items.length === 0 ? (
          <Empty text={texts.tokens.empty} command={texts.tokens.emptyCommand} />
        ) : (
          <>
            <Table
              label={texts.pages.tokens}
              rows={page.items}
              id={(row) => String(row.id)}
              columns={[
                { title: texts.column.name, kind: 'grow', cell: (row) => row.name },
                { title: texts.column.state, cell: (row) => <State state={row.state} /> },
                { title: texts.column.role, cell: (row) => row.role },
                {
                  title: texts.column.rights,
                  from: 'medium',
                  cell: (row) => row.workspaces?.join(', ') ?? texts.tokens.all,
                },
                { title: texts.column.used, from: 'medium', cell: (row) => <Time at={row.last_used_at} /> },
                {
                  title: texts.column.expires,
                  from: 'wide',
                  cell: (row) => (row.expires_at ? <Time at={row.expires_at} /> : texts.tokens.never),
                },
                { title: texts.column.by, from: 'wide', cell: (row) => row.created_by },
                {
                  title: texts.column.actions,
                  kind: 'acts',
                  cell: (row) =>
                    row.state === 'live' && (
                      <ActButton
                        needs="admin"
                        isGrave
                        name={texts.act.revoke}
                        ask={texts.act.ask.revokeToken(row.name)}
                        method="DELETE"
                        path={`v1/tokens/${segment(row.name)}`}
                      />
                    ),
                },
              ]}
            />
            {pager}
          </>
        )
      }
    </Loaded>
  );
}

export function Audit() {
  const subject = place.value.query.get('subject');
  const [read, pager] = useList<Act>('v1/audit', { limit: '50', subject });
  return (
    <>
      <Find page="audit" name="subject" hint={texts.audit.filter} />
      <Loaded read={read}>
        {(page) => (
          <>
            {page.items.length === 0 ? (
              <Empty text={texts.audit.empty} />
            ) : (
              <Table
                label={texts.pages.audit}
                rows={page.items.map((row, number) => ({ ...row, number }))}
                id={(row) => `${row.at} ${row.number}`}
                columns={[
                  { title: texts.column.at, cell: (row) => <Time at={row.at} /> },
                  { title: texts.column.act, cell: (row) => row.act },
                  {
                    title: texts.column.subject,
                    cell: (row) => (
                      <span class="cut" title={row.subject}>
                        {row.subject}
                      </span>
                    ),
                  },
                  { title: texts.column.by, from: 'medium', cell: (row) => row.actor },
                  {
                    title: texts.column.detail,
                    kind: 'grow',
                    from: 'wide',
                    cell: (row) => (
                      <span class="cut" title={JSON.stringify({ before: row.before, after: row.after })}>
                        {row.reason ?? (row.after === null ? '' : <code>{JSON.stringify(row.after)}</code>)}
                      </span>
                    ),
                  },
                ]}
              />
            )}
            {pager}
          </>
        )}
      </Loaded>
    </>
  );
}

function Choice<T extends string>(props: {
  label: string;
  values: readonly T[];
  names: Record<string, string>;
  value: T;
  choose: (value: T) => void;
}) {
  return (
    <fieldset class="choice">
      <legend>{props.label}</legend>
      {props.values.map((value) => (
        <label key={value}>
          <input type="radio" name={props.label} checked={props.value === value} onChange={() => props.choose(value)} />
          {props.names[value]}
        </label>
      ))}
    </fieldset>
  );
}

export function Settings() {
  const you = session.value;
  const choose = (value: Theme) => {
    theme.value = value;
  };
  return (
    <div class="columns">
      <Panel title={texts.pages.settings}>
        <Choice
          label={texts.settings.theme}
          values={themes}
          names={texts.settings.themes}
          value={theme.value}
          choose={choose}
        />
        <Choice
          label={texts.settings.times}
          values={timeFormats}
          names={texts.settings.timeFormats}
          value={timeFormat.value}
          choose={(value) => {
            timeFormat.value = value;
          }}
        />
        <p class="quiet small">{texts.settings.kept}</p>
      </Panel>
      <div>
        <Panel title={texts.settings.you}>
          <dl class="facts-list">
            <dt>{texts.settings.token}</dt>
            <dd>{you?.token ?? texts.signIn.nobody}</dd>
            <dt>{texts.settings.role}</dt>
            <dd>{you?.role}</dd>
            <dt>{texts.column.workspaces}</dt>
            <dd>{you?.workspaces?.join(', ') ?? texts.tokens.all}</dd>
          </dl>
          {you?.token && (
            <button type="button" onClick={() => void signOut()}>
              {texts.signIn.out}
            </button>
          )}
        </Panel>
        <Panel title={texts.settings.about}>
          <dl class="facts-list">
            <dt>{texts.settings.version}</dt>
            <dd>{you?.weir_version}</dd>
          </dl>
          <p>
            <a href="docs">{texts.settings.api}</a>
          </p>
          <p>
            <a href={new URL(/* @vite-ignore */ 'licenses.txt', import.meta.url).href}>{texts.settings.licenses}</a>
          </p>
        </Panel>
      </div>
    </div>
  );
}
