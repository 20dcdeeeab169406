// Workflows, their steps as a graph in layers, and the sources of their versions.
import { useState } from 'preact/hooks';
import { segment, withQuery } from '../api.ts';
import { useRead } from '../live.ts';
import type { Page, Workflow } from '../model.ts';
import { Data, Empty, Loaded, Panel, Time, WorkflowLink } from '../parts/basics.tsx';
import { ActButton } from '../parts/dialog.tsx';
import { State } from '../parts/state.tsx';
import { Table, useList } from '../parts/table.tsx';
import { chosenWorkspace, WorkspaceChoice } from '../parts/workspace_choice.tsx';
import { place, to, where } from '../router.ts';
import { texts } from '../texts.ts';

const VERSIONS_SHOWN = 10;

/** A token of all workspaces may name that of a workflow. */
const owner = (): string | null => chosenWorkspace() ?? place.value.query.get('workspace');

export function Workflows() {
  const [read, pager] = useList<Workflow>('v1/workflows', { workspace: owner() });
  return (
    <>
      <WorkspaceChoice />
      <Loaded read={read}>
        {(page) => (
          <>
            {page.items.length === 0 ? (
              <Empty text={texts.workflows.empty} command={texts.workflows.emptyCommand} />
            ) : (
              <Table
                label={texts.pages.workflows}
                rows={page.items}
                id={(row) => `${row.workspace ?? ''} ${row.name} ${row.version}`}
                columns={[
                  {
                    title: texts.column.workflow,
                    kind: 'grow',
                    cell: (row) =>
                      row.workspace === null ? (
                        <WorkflowLink name={row.name} />
                      ) : (
                        <a href={to('workflow', row.name, { workspace: row.workspace })}>{row.name}</a>
                      ),
                  },
                  { title: texts.column.version, kind: 'number', cell: (row) => row.version },
                  { title: texts.column.state, cell: (row) => <State state={row.disabled ? 'disabled' : 'enabled'} /> },
                  {
                    title: texts.column.workspace,
                    from: 'medium',
                    cell: (row) =>
                      row.workspace === null ? <span class="quiet">{texts.workflows.everybody}</span> : row.workspace,
                  },
                  { title: texts.column.published, from: 'medium', cell: (row) => <Time at={row.created_at} /> },
                  {
                    title: texts.pages.executions,
                    kind: 'acts',
                    cell: (row) => <a href={where({ workflow: row.name })}>{texts.pages.executions}</a>,
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

interface Definition {
  steps?: Record<string, { needs?: string[] } & Record<string, unknown>>;
}

/** The steps in layers: each stands behind all that it needs. */
export function layersOf(definition: Definition): { name: string; needs: string[]; kind: string }[][] {
  const steps = Object.entries(definition.steps ?? {});
  const depth = new Map<string, number>();
  const depthOf = (name: string, seen: string[]): number => {
    const known = depth.get(name);
    if (known !== undefined) return known;
    const needs = definition.steps?.[name]?.needs ?? [];
    const found = seen.includes(name) ? 0 : 1 + Math.max(-1, ...needs.map((need) => depthOf(need, [...seen, name])));
    depth.set(name, found);
    return found;
  };
  const layers: { name: string; needs: string[]; kind: string }[][] = [];
  for (const [name, step] of steps) {
    const kind = ['exec', 'http', 'sleep', 'handler'].find((key) => key in step) ?? '';
    const layer = depthOf(name, []);
    layers[layer] ??= [];
    layers[layer].push({ name, needs: step.needs ?? [], kind });
  }
  return Array.from(layers, (layer) => layer ?? []);
}

function Graph({ text }: { text: string }) {
  let definition: Definition = {};
  try {
    definition = JSON.parse(text) as Definition;
  } catch {
    // An older node may answer a text that this page cannot read: it shows the source alone.
  }
  const layers = layersOf(definition);
  if (layers.length === 0) return <p class="quiet">{texts.workflow.temporal}</p>;
  return (
    <ol class="graph">
      {layers.map((layer) => (
        <li key={layer.map((step) => step.name).join(' ')}>
          {layer.map((step) => (
            <div key={step.name} class="step">
              <strong>{step.name}</strong>
              <code>{step.kind}</code>
              {step.needs.length > 0 && <small>{texts.workflow.after(step.needs.join(', '))}</small>}
            </div>
          ))}
        </li>
      ))}
    </ol>
  );
}

/** The newest first; the older ones on request. */
function Versions({ rows }: { rows: Workflow[] }) {
  const [areAll, setAll] = useState(false);
  const shown = areAll ? rows : rows.slice(0, VERSIONS_SHOWN);
  return (
    <>
      {shown.map((row, at) => (
        <details key={row.version} class="panel" open={at === 0}>
          <summary>
            {texts.workflow.version(row.version)} · <Time at={row.created_at} />
          </summary>
          <Data value={row.source ?? row.definition} />
        </details>
      ))}
      {shown.length < rows.length && (
        <p>
          <button type="button" onClick={() => setAll(true)}>
            {texts.workflow.earlier(rows.length - shown.length)}
          </button>
        </p>
      )}
    </>
  );
}

export function OneWorkflow({ name }: { name: string }) {
  const workspace = owner();
  const path = `v1/workflows/${segment(name)}`;
  const read = useRead<Page<Workflow>>(withQuery(path, { workspace }));
  return (
    <Loaded read={read}>
      {(page) => {
        const newest = page.items.reduce(
          (best, row) => (row.version > best.version ? row : best),
          page.items[0] as Workflow,
        );
        const act = newest.disabled ? 'enable' : 'disable';
        return (
          <>
            <div class="toolbar">
              <p class="title">
                <State state={newest.disabled ? 'disabled' : 'enabled'} />
                <span>{texts.workflow.version(newest.version)}</span>
                <Time at={newest.created_at} />
                <a href={where({ workflow: name })}>{texts.workflow.executions}</a>
              </p>
              <div class="buttons">
                <ActButton
                  needs="admin"
                  name={texts.act[act]}
                  ask={texts.act.ask[act](name)}
                  method="POST"
                  path={withQuery(`${path}/${act}`, { workspace: newest.workspace })}
                />
              </div>
            </div>
            <Panel title={texts.workflow.graph}>
              <Graph text={newest.definition} />
            </Panel>
            <Versions rows={[...page.items].sort((a, b) => b.version - a.version)} />
          </>
        );
      }}
    </Loaded>
  );
}
