// Executions that wait without a slot, by the kind of their wait. The steps of one of them are asked for when the user opens it, so
// that the list is one request.
import { useState } from 'preact/hooks';
import { segment } from '../api.ts';
import { useRead } from '../live.ts';
import type { Execution, Why } from '../model.ts';
import { Empty, Id, Loaded, Time, WorkflowLink, WorkspaceLink } from '../parts/basics.tsx';
import { searchExecutions } from '../parts/search.ts';
import { Table, useList } from '../parts/table.tsx';
import { Waits } from '../parts/waits.tsx';
import { chosenWorkspace, WorkspaceChoice } from '../parts/workspace_choice.tsx';
import { place, to } from '../router.ts';
import { texts } from '../texts.ts';

const kinds = ['approval', 'signal', 'callback', 'child', 'sleep', 'retry'];

function Opened({ row }: { row: Execution }) {
  const read = useRead<Why>(`v1/executions/${segment(row.id)}/why`);
  return (
    <section class="why is-waiting opened" aria-labelledby="opened-title">
      <h2 id="opened-title">
        {texts.waits.stepsOfOne} <Id id={row.id} />
      </h2>
      <Loaded read={read}>
        {(why) => (
          <>
            <p class="because" aria-live="polite">
              {why.because}
            </p>
            <Waits why={why} />
          </>
        )}
      </Loaded>
    </section>
  );
}

function WaitingTable({ rows }: { rows: Execution[] }) {
  const [open, setOpen] = useState<string | null>(null);
  const opened = rows.find((row) => row.id === open);
  return (
    <>
      <Table
        label={texts.pages.waiting}
        rows={rows}
        id={(row) => row.id}
        columns={[
          { title: texts.column.execution, cell: (row) => <Id id={row.id} /> },
          { title: texts.column.workspace, cell: (row) => <WorkspaceLink name={row.workspace} /> },
          { title: texts.column.workflow, from: 'medium', cell: (row) => <WorkflowLink name={row.workflow} /> },
          {
            title: texts.column.reason,
            kind: 'grow',
            from: 'medium',
            cell: (row) => (
              <span class="cut" title={row.waiting_for ?? ''}>
                {texts.reason[row.waiting_for ?? ''] ?? row.waiting_for}
              </span>
            ),
          },
          { title: texts.column.created, from: 'normal', cell: (row) => <Time at={row.created_at} /> },
          {
            title: texts.column.actions,
            kind: 'acts',
            cell: (row) => (
              <button
                type="button"
                class="plain"
                aria-expanded={open === row.id}
                title={texts.waits.stepsOf(row.id)}
                onClick={() => setOpen(open === row.id ? null : row.id)}
              >
                {texts.waits.open}
              </button>
            ),
          },
        ]}
      />
      {opened && <Opened key={opened.id} row={opened} />}
    </>
  );
}

export function WaitingExecutions() {
  const { query } = place.value;
  const kind = query.get('where');
  const [read, pager] = useList<Execution>(
    'v1/executions',
    { status: 'WAITING', waiting_for: kind, workspace: chosenWorkspace(), limit: '50' },
    searchExecutions,
  );
  const address = (name: string | null) => to('waiting', null, { where: name, workspace: query.get('workspace') });
  return (
    <>
      <WorkspaceChoice />
      <nav class="tabs" aria-label={texts.column.reason}>
        {[null, ...kinds].map((name) => (
          <a key={name} href={address(name)} aria-current={kind === name ? 'page' : undefined}>
            {name === null ? texts.executions.all : texts.waits.tabs[name]}
          </a>
        ))}
      </nav>
      <Loaded read={read}>
        {(page) => (
          <>
            {page.items.length > 0 ? (
              <WaitingTable rows={page.items} />
            ) : page.next_cursor !== null ? (
              <p class="quiet">{texts.executions.noneYet}</p>
            ) : (
              <Empty text={texts.waits.empty} />
            )}
            {pager}
          </>
        )}
      </Loaded>
    </>
  );
}
