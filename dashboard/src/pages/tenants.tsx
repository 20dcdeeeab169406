// Workspaces, one workspace, plans.
import type { ComponentChildren } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { ask, hasAllWorkspaces, may, segment, session, withQuery } from '../api.ts';
import { coarse, count } from '../format.ts';
import { useRead } from '../live.ts';
import type { Page, Plan, Workspace, WorkspaceHistoryPoint } from '../model.ts';
import { Command, Empty, Loaded, Panel, Time } from '../parts/basics.tsx';
import { History } from '../parts/chart.tsx';
import { ActButton } from '../parts/dialog.tsx';
import { Find } from '../parts/find.tsx';
import { useExecutions } from '../parts/search.ts';
import { Slots, State } from '../parts/state.tsx';
import { Table, useList } from '../parts/table.tsx';
import { Timeline } from '../parts/timeline.tsx';
import { place, to, where } from '../router.ts';
import { texts } from '../texts.ts';
import { ExecutionTable } from './executions.tsx';
import { Overview, stateOf, WorkspaceTable } from './overview.tsx';

export function Workspaces() {
  return hasAllWorkspaces() ? <AllWorkspaces /> : <Overview />;
}

function AllWorkspaces() {
  const prefix = place.value.query.get('prefix');
  const [read, pager] = useList<Workspace>('v1/workspaces', { prefix });
  return (
    <>
      <Find page="workspaces" name="prefix" hint={texts.workspaces.find} />
      <Loaded read={read}>
        {(page) => (
          <>
            {page.items.length === 0 ? (
              <Empty
                text={prefix === null ? texts.overview.empty : texts.workspaces.none(prefix)}
                command={prefix === null ? texts.overview.emptyCommand : `weir workspace list`}
              />
            ) : (
              <WorkspaceTable rows={page.items} />
            )}
            {pager}
          </>
        )}
      </Loaded>
    </>
  );
}

interface SomeProps {
  workspace: string;
  status: string;
  title: string;
  none: string;
  order?: 'queue';
}

function Some({ workspace, status, title, none, order }: SomeProps) {
  const read = useExecutions({ workspace, status, limit: '10', order: order ?? null });
  return (
    <Panel title={title} aside={<a href={where({ workspace, status }, { order })}>{texts.workspace.all}</a>}>
      <Loaded read={read}>
        {(page) =>
          page.items.length === 0 ? (
            <p class="quiet">{page.next_cursor === null ? none : texts.executions.noneYet}</p>
          ) : (
            <ExecutionTable rows={page.items} label={title} isShort hasPlaces={order === 'queue'} />
          )
        }
      </Loaded>
    </Panel>
  );
}

export function OneWorkspace({ name }: { name: string }) {
  const read = useRead<Workspace>(`v1/workspaces/${segment(name)}`);
  const path = `v1/workspaces/${segment(name)}`;
  return (
    <Loaded read={read}>
      {(row) => (
        <>
          <div class="toolbar">
            <p class="title">
              <State state={stateOf(row)} />
              <Slots used={row.slots_used} most={row.slots_max} isPaused={row.paused} />
              <a href={where({ workspace: name, status: 'PENDING' })}>
                {count(row.pending)} {texts.overview.pending}
              </a>
              {row.oldest_pending_age_us !== null && (
                <span>{texts.overview.oldest(coarse(row.oldest_pending_age_us / 1e6))}</span>
              )}
              <a href={where({ workspace: name, status: 'FAILED' })}>
                {count(row.failed)} {texts.overview.failed}
              </a>
            </p>
            <div class="buttons">
              {row.paused ? (
                <ActButton
                  needs="operate"
                  name={texts.act.resume}
                  ask={texts.act.ask.resumeWorkspace(name)}
                  method="POST"
                  path={`${path}/resume`}
                />
              ) : (
                <ActButton
                  needs="operate"
                  name={texts.act.pause}
                  ask={texts.act.ask.pauseWorkspace(name)}
                  method="POST"
                  path={`${path}/pause`}
                />
              )}
              <Limits row={row} />
            </div>
          </div>
          <div class="columns">
            <div>
              <Some
                workspace={name}
                status="CLAIMED,DISPATCHED"
                title={texts.workspace.running}
                none={texts.workspace.noneRun}
              />
              <Timeline workspace={name} limit={row.slots_max} />
              <History<WorkspaceHistoryPoint>
                path={`${path}/history`}
                charts={[
                  {
                    title: texts.chart.slots,
                    format: count,
                    lines: [
                      { name: texts.chart.used, value: (point) => point.slots_used },
                      { name: texts.chart.limit, value: (point) => point.slots_max },
                      { name: texts.overview.pending, value: (point) => point.pending },
                    ],
                  },
                ]}
              />
              <Some
                workspace={name}
                status="PENDING"
                order="queue"
                title={texts.workspace.next}
                none={texts.workspace.noneWait}
              />
              <Some workspace={name} status="FAILED" title={texts.workspace.failed} none={texts.workspace.noneFailed} />
            </div>
            <div>
              <Panel title={texts.workspace.limits}>
                <dl class="facts-list">
                  <dt>{texts.workspace.plan}</dt>
                  <dd>
                    <a href={to('plans')}>{row.plan}</a>
                  </dd>
                  <dt>{texts.workspace.maxConcurrent}</dt>
                  <dd>
                    {row.slots_max} {row.max_concurrent === null && <span class="quiet">{texts.workspace.ofPlan}</span>}
                  </dd>
                  <dt>{texts.workspace.maxPending}</dt>
                  <dd>
                    {row.pending_max === 0 ? texts.workspace.noLimit : count(row.pending_max)}{' '}
                    {row.max_pending === null && <span class="quiet">{texts.workspace.ofPlan}</span>}
                  </dd>
                  <dt>created_at</dt>
                  <dd>
                    <Time at={row.created_at} />
                  </dd>
                </dl>
                <h3>{texts.workspace.command}</h3>
                <Command text={`weir workspace show ${name}`} />
              </Panel>
            </div>
          </div>
        </>
      )}
    </Loaded>
  );
}

/** A limit of a workspace; empty: that of the plan. */
function LimitField({ name, value, children }: { name: string; value: number | null; children: ComponentChildren }) {
  return (
    <label class="field">
      <span>{children}</span>
      <input
        name={name}
        type="number"
        min="0"
        defaultValue={value === null ? '' : String(value)}
        placeholder={texts.workspace.ofPlan}
      />
    </label>
  );
}

function Limits({ row }: { row: Workspace }) {
  const isAllowed = may('admin') && hasAllWorkspaces();
  if (!isAllowed || session.value === null) return null;
  const readForm = (form: FormData) => {
    const most = String(form.get('max_concurrent')).trim();
    const pending = String(form.get('max_pending')).trim();
    const asked = {
      plan: String(form.get('plan')),
      max_concurrent: most === '' ? null : Number(most),
      max_pending: pending === '' ? null : Number(pending),
    };
    // What the user has not changed may have been changed by another one meanwhile.
    return {
      ...(asked.plan === row.plan ? {} : { plan: asked.plan }),
      ...(asked.max_concurrent === row.max_concurrent ? {} : { max_concurrent: asked.max_concurrent }),
      ...(asked.max_pending === row.max_pending ? {} : { max_pending: asked.max_pending }),
    };
  };
  return (
    <ActButton
      needs="admin"
      name={texts.workspace.limits}
      ask={texts.act.ask.workspace(row.name)}
      method="PATCH"
      path={`v1/workspaces/${segment(row.name)}`}
      read={readForm}
    >
      <PlanChoice plan={row.plan} />
      <LimitField name="max_concurrent" value={row.max_concurrent}>
        {texts.workspace.maxConcurrent}
      </LimitField>
      <LimitField name="max_pending" value={row.max_pending}>
        {texts.workspace.maxPending} <span class="quiet">{texts.workspace.zeroIsNone}</span>
      </LimitField>
    </ActButton>
  );
}

async function readPlans(): Promise<string[]> {
  const names: string[] = [];
  for (let cursor: string | null = null; ; ) {
    const page: Page<Plan> = await ask<Page<Plan>>(withQuery('v1/plans', { limit: '200', cursor }));
    names.push(...page.items.map((plan) => plan.name));
    cursor = page.next_cursor;
    if (cursor === null || page.items.length === 0) return names;
  }
}

function PlanChoice({ plan }: { plan: string }) {
  const [names, setNames] = useState([plan]);
  useEffect(() => {
    // Without the others the plan stays as it is.
    readPlans().then(setNames, () => undefined);
  }, []);
  return (
    <label class="field">
      <span>{texts.workspace.plan}</span>
      <select name="plan">
        {names.map((name) => (
          <option key={name} selected={name === plan}>
            {name}
          </option>
        ))}
      </select>
    </label>
  );
}

export function Plans() {
  const [read, pager] = useList<Plan>('v1/plans');
  const readForm = (form: FormData) => ({
    max_concurrent: Number(form.get('max_concurrent')),
    weight: Number(form.get('weight')),
    max_pending: Number(form.get('max_pending')),
  });
  return (
    <Loaded read={read}>
      {(page) =>
        page.items.length === 0 ? (
          <Empty text={texts.plans.empty} />
        ) : (
          <>
            <Table
              label={texts.pages.plans}
              rows={page.items}
              id={(row) => row.name}
              columns={[
                { title: texts.column.plan, kind: 'grow', cell: (row) => row.name },
                { title: texts.column.limit, kind: 'number', cell: (row) => count(row.max_concurrent) },
                {
                  title: texts.workspace.maxPending,
                  kind: 'number',
                  from: 'medium',
                  cell: (row) => (row.max_pending === 0 ? texts.workspace.noLimit : count(row.max_pending)),
                },
                { title: texts.column.weight, kind: 'number', cell: (row) => count(row.weight) },
                {
                  title: texts.column.workspaces,
                  kind: 'number',
                  from: 'medium',
                  cell: (row) => <a href={to('workspaces')}>{count(row.workspace_count)}</a>,
                },
                {
                  title: texts.column.actions,
                  kind: 'acts',
                  cell: (row) => (
                    <ActButton
                      needs="admin"
                      name={texts.workspace.limits}
                      ask={texts.act.ask.plan(row.name)}
                      method="PUT"
                      path={`v1/plans/${segment(row.name)}`}
                      read={readForm}
                    >
                      <label class="field">
                        <span>{texts.column.limit}</span>
                        <input
                          name="max_concurrent"
                          type="number"
                          min="0"
                          required
                          defaultValue={String(row.max_concurrent)}
                        />
                      </label>
                      <label class="field">
                        <span>{texts.column.weight}</span>
                        <input name="weight" type="number" min="1" required defaultValue={String(row.weight)} />
                      </label>
                      <label class="field">
                        <span>
                          {texts.workspace.maxPending} <span class="quiet">{texts.workspace.zeroIsNone}</span>
                        </span>
                        <input name="max_pending" type="number" min="0" required defaultValue={String(row.max_pending)} />
                      </label>
                    </ActButton>
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
