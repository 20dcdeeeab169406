// The list of executions: the filter is that of `weir list --where`, and is a part of the address.
import { useEffect, useRef } from 'preact/hooks';
import { may, withQuery } from '../api.ts';
import { count, duration, seconds } from '../format.ts';
import { type Read, useRead } from '../live.ts';
import type { Execution, Page } from '../model.ts';
import { Empty, Id, Loaded, Time, WorkflowLink, WorkspaceLink } from '../parts/basics.tsx';
import { bulk } from '../parts/bulk.tsx';
import { searchExecutions } from '../parts/search.ts';
import { State } from '../parts/state.tsx';
import { useWorkspaceNames } from '../parts/suggest.ts';
import { Table, useList } from '../parts/table.tsx';
import { chosenWorkspace, WorkspaceChoice } from '../parts/workspace_choice.tsx';
import { canQuote, conditionsOf, go, place, to, without, word } from '../router.ts';
import { texts } from '../texts.ts';

const LIMIT = '50';
const keys = [
  'id',
  'workspace',
  'workflow',
  'executor_group',
  'status',
  'pending_reason',
  'waiting_for',
  'parent',
  'business_key',
  'business_key_prefix',
  'error_code',
  'idempotency_key',
  'label.',
  'node',
  'version',
  'longer_than',
  'shorter_than',
  'error_text',
  'retried',
  'dismissed',
  'stuck',
  'since',
  'until',
  'finished_before',
];
const waits = ['sleep', 'retry', 'signal', 'callback', 'approval', 'child'];
const values: Record<string, string[]> = {
  status: ['PENDING', 'CLAIMED', 'DISPATCHED', 'WAITING', 'COMPLETED', 'FAILED', 'CANCELLED'],
  pending_reason: Object.keys(texts.reason).filter((name) => !waits.includes(name)),
  waiting_for: waits,
  retried: ['yes', 'no'],
  dismissed: ['yes', 'no'],
  stuck: ['yes', 'no'],
  since: ['10m', '1h', '24h', '7d'],
  until: ['10m', '1h', '24h', '7d'],
  finished_before: ['1h', '24h', '7d'],
  longer_than: ['10s', '1m', '10m', '1h'],
  shorter_than: ['10s', '1m', '10m', '1h'],
};
const tabs = ['PENDING', 'CLAIMED,DISPATCHED', 'WAITING', 'FAILED', 'COMPLETED', 'CANCELLED'];

/** Values of the rows on the page, for the keys whose values no list has. */
function valuesOf(rows: Execution[]): Record<string, string[]> {
  const found: Record<string, Set<string>> = {};
  const add = (key: string, value: string | null) => {
    if (value === null || !canQuote(value)) return;
    found[key] ??= new Set();
    found[key].add(value);
  };
  for (const row of rows) {
    add('business_key', row.business_key);
    if (row.waiting_for === 'child') add('parent', row.id);
    for (const [name, value] of Object.entries(row.labels ?? {})) add(`label.${name}`, value);
  }
  return Object.fromEntries(Object.entries(found).map(([key, texts]) => [key, [...texts]]));
}

/** The whole texts that the last word of the filter may become. A key that ends with a dot is the beginning of others. */
function suggestions(text: string, names: Record<string, string[]>): string[] {
  const [, before = '', last = ''] = /^(.*?\s)?(\S*)$/s.exec(text) ?? [];
  const [key = '', value] = last.split('=');
  if (value === undefined) {
    const all = [...keys, ...Object.keys(names).filter((name) => !keys.includes(name))];
    const fitting = all.filter((name) => name.startsWith(key));
    return fitting.map((name) => `${before}${name}${name.endsWith('.') ? '' : '='}`);
  }
  return ({ ...values, ...names }[key] ?? []).map((name) => `${before}${key}=${word(name)}`);
}

/** The filter without the condition on the status, and with another one. */
function withStatus(text: string, status: string | null): string {
  const rest = without(text, ['status', 'pending_reason', 'waiting_for']);
  return [rest, status === null ? '' : `status=${status}`].filter(Boolean).join(' ');
}

/** Those that executions in the state allow; without a state all of them. */
function actsFor(status: string | null): ('retry' | 'release' | 'cancel')[] {
  if (status === 'PENDING') return ['release', 'cancel'];
  if (status === 'FAILED' || status === 'CANCELLED') return ['retry'];
  return status === null ? ['retry', 'release', 'cancel'] : ['cancel'];
}

function FilterBar({ text, workspace, rows }: { text: string; workspace: string | null; rows: Execution[] }) {
  const input = useRef<HTMLInputElement>(null);
  const list = useRef<HTMLDataListElement>(null);
  const [found, find] = useWorkspaceNames();
  const workflows = useRead<Page<{ name: string }>>(withQuery('v1/workflows', { limit: '200', workspace }));
  const names = {
    ...valuesOf(rows),
    workspace: workspace === null ? found : [workspace],
    workflow: [...new Set(workflows.data?.items.map((row) => row.name) ?? [])],
  };
  const suggest = () => {
    const typed = input.current?.value ?? '';
    const part = /(?:^|\s)workspace=["']?(\S*)$/.exec(typed)?.[1];
    if (part !== undefined && workspace === null) find(part);
    const options = suggestions(typed, names).slice(0, 50);
    list.current?.replaceChildren(...options.map((value) => Object.assign(document.createElement('option'), { value })));
  };
  useEffect(suggest, [found]);
  useEffect(() => {
    if (input.current) input.current.value = text;
  }, [text]);
  const apply = (event: SubmitEvent) => {
    event.preventDefault();
    go(to('executions', null, { where: input.current?.value.trim(), workspace: place.value.query.get('workspace') }));
  };
  return (
    <form class="filter" role="search" aria-label={texts.pages.executions} onSubmit={apply}>
      <WorkspaceChoice />
      <input
        ref={input}
        type="search"
        class="find"
        aria-label={texts.executions.filter}
        title={texts.executions.keys}
        placeholder={texts.executions.filterHint}
        list="filter-words"
        autoComplete="off"
        spellcheck={false}
        defaultValue={text}
        onInput={suggest}
        onFocus={suggest}
      />
      <datalist id="filter-words" ref={list} />
      <button type="submit" class="main">
        {texts.executions.apply}
      </button>
    </form>
  );
}

const placeOf = (row: Execution) => (row.place ? count(row.place) : <span class="quiet">{texts.none}</span>);

interface TableProps {
  rows: Execution[];
  label: string;
  isShort?: boolean;
  /** The rows are in the order of the queue. */
  hasPlaces?: boolean;
}

export function ExecutionTable({ rows, label, isShort, hasPlaces }: TableProps) {
  return (
    <Table
      label={label}
      rows={rows}
      id={(row) => row.id}
      columns={[
        ...(hasPlaces ? [{ title: texts.column.place, kind: 'number' as const, cell: placeOf }] : []),
        { title: texts.column.execution, cell: (row) => <Id id={row.id} /> },
        { title: texts.column.state, cell: (row) => <State state={row.status} /> },
        ...(isShort
          ? []
          : [{ title: texts.column.workspace, cell: (row: Execution) => <WorkspaceLink name={row.workspace} /> }]),
        { title: texts.column.workflow, from: 'normal', cell: (row) => <WorkflowLink name={row.workflow} /> },
        {
          title: texts.column.reason,
          kind: 'grow',
          from: 'medium',
          cell: (row) =>
            row.pending_reason !== null || row.waiting_for !== null ? (
              <span class="cut" title={row.pending_reason ?? row.waiting_for ?? ''}>
                {texts.reason[row.pending_reason ?? row.waiting_for ?? ''] ?? row.pending_reason}
              </span>
            ) : row.error_code ? (
              <span class="cut" title={row.error ?? ''}>
                <code>{row.error_code}</code> {row.error}
              </span>
            ) : (
              ''
            ),
        },
        { title: texts.column.created, from: 'medium', cell: (row) => <Time at={row.created_at} /> },
        {
          title: texts.column.took,
          kind: 'number',
          from: 'normal',
          cell: (row) =>
            row.claimed_at ? duration(seconds(row.claimed_at, row.finished_at)) : <span class="quiet">{texts.none}</span>,
        },
      ]}
    />
  );
}

/** How many match. More than one page of them is counted by a request of its own, since that may take long. Reasons are
 * not stored, so the node would work them out for each execution that waits: the overview has their numbers. */
function useCount(read: Read<Page<Execution>>, text: string, workspace: string | null): string {
  const isWhole = read.data !== null && read.data.next_cursor === null;
  const isCounted =
    read.data !== null && !read.isLoading && !isWhole && !conditionsOf(text).some(({ key }) => key === 'pending_reason');
  const path = withQuery('v1/executions', { where: text || null, workspace, limit: '1', count: 'true' });
  const answer = useRead<Page<Execution>>(isCounted ? path : null);
  if (read.isLoading) return texts.executions.counting;
  if (isWhole) return texts.executions.count(read.data?.items.length ?? 0, true);
  if (isCounted && answer.isLoading) return texts.executions.counting;
  return answer.data === null ? '' : texts.executions.count(answer.data.count ?? 0, answer.data.count_is_exact);
}

/** What the node is asked for: a token of some workspaces names one of them beside the filter, and not in both. So does a link to
 * a workspace that the filter cannot name. */
function requestOf(text: string): { workspace: string | null; condition: string } {
  const own = chosenWorkspace();
  const named = conditionsOf(text).find(({ key }) => key === 'workspace');
  if (own === null) return { workspace: place.value.query.get('workspace'), condition: text };
  return named === undefined
    ? { workspace: own, condition: text }
    : { workspace: named.value, condition: without(text, ['workspace']) };
}

/** The pending executions of one workspace can be listed in the order in which they start. */
function hasQueueOrder(condition: string, workspace: string | null): boolean {
  const conditions = conditionsOf(condition);
  const values = (key: string) => conditions.filter((one) => one.key === key).map(({ value }) => value);
  const named = [...values('workspace'), ...(workspace === null ? [] : [workspace])];
  const isPlain = conditions.every(({ key }) => key === 'workspace' || key === 'status');
  return isPlain && named.length === 1 && values('status').join().toUpperCase() === 'PENDING';
}

const orderOf = (query: URLSearchParams): 'queue' | null => (query.get('order') === 'queue' ? 'queue' : null);

function OrderChoice({ isQueue }: { isQueue: boolean }) {
  const { cursor: _, order: __, ...kept } = Object.fromEntries(place.value.query);
  const link = (text: string, isOn: boolean, query: Record<string, string>) => (
    <a href={to('executions', null, { ...kept, ...query })} aria-current={isOn ? 'true' : undefined}>
      {text}
    </a>
  );
  return (
    <p class="spans small">
      {link(texts.executions.newest, !isQueue, {})} {link(texts.executions.queue, isQueue, { order: 'queue' })}
    </p>
  );
}

export function Executions() {
  const query = place.value.query;
  const text = query.get('where') ?? '';
  const cursor = query.get('cursor');
  const { workspace, condition } = requestOf(text);
  const canOrder = hasQueueOrder(condition, workspace);
  const [read, pager] = useList<Execution>(
    'v1/executions',
    { where: condition || null, workspace, limit: LIMIT, order: canOrder ? orderOf(query) : null },
    searchExecutions,
  );
  const counted = useCount(read, condition, workspace);
  const order = canOrder ? orderOf(query) : null;
  const conditions = conditionsOf(text);
  const status = conditions.find(({ key }) => key === 'status')?.value ?? null;
  const address = (filter: string) => to('executions', null, { where: filter, workspace: query.get('workspace') });
  const names = workspace !== null && !conditions.some(({ key }) => key === 'workspace');
  const canAct = workspace === null || canQuote(workspace);
  const filter = names ? `workspace=${word(workspace)} ${text}`.trim() : text;
  return (
    <>
      <FilterBar text={text} workspace={workspace} rows={read.data?.items ?? []} />
      <nav class="tabs" aria-label={texts.column.state}>
        <a href={address(withStatus(text, null))} aria-current={status === null ? 'page' : undefined}>
          {texts.executions.all}
        </a>
        {tabs.map((tab) => (
          <a key={tab} href={address(withStatus(text, tab))} aria-current={status === tab ? 'page' : undefined}>
            {texts.state[tab.split(',').at(-1) ?? tab]}
          </a>
        ))}
      </nav>
      {canOrder && <OrderChoice isQueue={order !== null} />}
      {order !== null && <p class="quiet small">{texts.executions.queueLead}</p>}
      <Loaded read={read}>
        {(page) => (
          <>
            <div class="toolbar">
              <p aria-live="polite" aria-busy={counted === texts.executions.counting}>
                {cursor === null ? counted : ''}
              </p>
              {may('operate') && canAct && page.items.length > 0 && filter !== '' && status !== 'COMPLETED' && (
                <div class="buttons" role="group" aria-label={texts.executions.bulk}>
                  <span class="quiet small">{texts.executions.bulk}</span>
                  {actsFor(status).map((action) => (
                    <button
                      key={action}
                      type="button"
                      class={action === 'cancel' ? 'grave' : ''}
                      disabled={read.isLoading}
                      onClick={() => bulk(action, filter)}
                    >
                      {texts.act[action]}
                    </button>
                  ))}
                </div>
              )}
            </div>
            {page.items.length === 0 && page.next_cursor !== null ? (
              <p class="quiet">{texts.executions.noneYet}</p>
            ) : page.items.length === 0 ? (
              <Empty text={texts.executions.empty} command={texts.executions.emptyCommand} />
            ) : (
              <ExecutionTable rows={page.items} label={texts.pages.executions} hasPlaces={order !== null} />
            )}
            {pager}
          </>
        )}
      </Loaded>
    </>
  );
}
