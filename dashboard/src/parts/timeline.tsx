// The timeline of a workspace's slots: a row for each slot that was in use, with a bar for each execution that had it, and the limit
// as a line. Below the line are executions that waited without a slot. A bar leads to its execution. The same content is in a table, for
// the keyboard and for readers of the screen. It ends with the moment of its answer, so nothing moves by itself.
import { useMemo } from 'preact/hooks';
import { segment, withQuery } from '../api.ts';
import { absolute, duration, now } from '../format.ts';
import { useRead } from '../live.ts';
import type { SlotSpan, SlotTimeline, SlotUse } from '../model.ts';
import { pack } from '../packing.ts';
import { place, to } from '../router.ts';
import { texts } from '../texts.ts';
import { Id, Loaded, Panel, Time, WorkflowLink } from './basics.tsx';
import { clock } from './chart.tsx';
import { State } from './state.tsx';
import { Table } from './table.tsx';

const LIMIT = '200';
const WIDTH = 1000;
const ROW = 10;
/** More rows than these make the chart longer than a screen. */
const SLOT_ROWS_MOST = 40;
const WAIT_ROWS_MOST = 10;
/** A bar is at least so wide, so that it is seen and can be pressed. */
const LEAST = 3;
const MINUTE_MS = 60_000;
const spans: Record<string, number> = { '15m': 15, '1h': 60, '6h': 360 };

const chosen = (): string => {
  const asked = place.value.query.get('slots') ?? '';
  return asked in spans ? asked : '1h';
};

function Choice() {
  const { page, name, query } = place.value;
  const names: Record<string, string> = {
    '15m': texts.timeline.quarter,
    '1h': texts.timeline.hour,
    '6h': texts.timeline.day,
  };
  return (
    <p class="spans choice small">
      {Object.entries(names).map(([span, text]) => (
        <a
          key={span}
          href={to(page, name, { ...Object.fromEntries(query), slots: span })}
          aria-current={span === chosen() ? 'true' : undefined}
        >
          {text}
        </a>
      ))}
    </p>
  );
}

interface Piece {
  use: SlotUse;
  span: SlotSpan;
  from: number;
  until: number | null;
}

const piecesOf = (items: SlotUse[]): Piece[] =>
  items.flatMap((use) =>
    use.spans.map((span) => ({
      use,
      span,
      from: Date.parse(span.started_at),
      until: span.finished_at === null ? null : Date.parse(span.finished_at),
    })),
  );

/** The look of a bar: filled while it goes on, with a frame after its end, a thick one after a failure. */
function kindOf({ use, span }: Piece): string {
  if (!span.uses_slot) return 'waits';
  if (span.finished_at === null) return 'running';
  return use.status === 'FAILED' && span === use.spans.at(-1) ? 'failed' : 'ended';
}

const phaseOf = (span: SlotSpan): string => (span.uses_slot ? texts.timeline.uses : texts.timeline.none);
const lengthOf = ({ from, until }: Piece, end: number): string => duration(((until ?? end) - from) / 1000);

function Legend({ limit, isDrawn }: { limit: number; isDrawn: boolean }) {
  const sample = (kind: string, text: string) => (
    <span>
      <svg class="timeline" viewBox="0 0 24 10" aria-hidden="true">
        {kind === 'limit' ? <path class="limit" d="M0 5H24" /> : <Shape kind={kind} x={1} y={0} width={22} />}
      </svg>
      {text}
    </span>
  );
  return (
    <span class="legend small">
      {sample('running', texts.timeline.running)}
      {sample('ended', texts.timeline.ended)}
      {sample('failed', texts.timeline.failed)}
      {sample('waits', texts.timeline.waits)}
      {sample('limit', isDrawn ? texts.timeline.limit(limit) : texts.timeline.limitBelow(limit))}
    </span>
  );
}

function Shape({ kind, x, y, width }: { kind: string; x: number; y: number; width: number }) {
  const isThin = kind === 'waits';
  return <rect class={kind} x={x.toFixed(1)} y={y + (isThin ? 3 : 1)} width={width.toFixed(1)} height={isThin ? 4 : 8} />;
}

interface DrawingProps {
  pieces: Piece[];
  limit: number;
  begin: number;
  end: number;
}

function Drawing({ pieces, limit, begin, end }: DrawingProps) {
  const slots = pack(pieces.filter(({ span }) => span.uses_slot));
  const waits = pack(pieces.filter(({ span }) => !span.uses_slot));
  const rowsOf = (packed: { row: number }[]) => packed.reduce((most, { row }) => Math.max(most, row + 1), 0);
  const isDrawn = limit <= SLOT_ROWS_MOST;
  const slotRows = Math.min(SLOT_ROWS_MOST, Math.max(rowsOf(slots), isDrawn ? limit : 1));
  const waitRows = Math.min(WAIT_ROWS_MOST, rowsOf(waits));
  const hidden = [...slots.filter(({ row }) => row >= slotRows), ...waits.filter(({ row }) => row >= waitRows)].length;
  const x = (at: number) => Math.min(WIDTH, Math.max(0, ((at - begin) / (end - begin)) * WIDTH));
  const bar = (piece: Piece, y: number) => {
    const left = Math.min(x(piece.from), WIDTH - LEAST);
    const { use, span } = piece;
    return (
      <a key={`${use.id} ${span.started_at} ${span.uses_slot}`} href={to('execution', use.id)} tabindex={-1}>
        <title>{`${use.workflow ?? texts.none}: ${phaseOf(span)}, ${lengthOf(piece, end)}`}</title>
        <Shape kind={kindOf(piece)} x={left} y={y} width={Math.max(LEAST, x(piece.until ?? end) - left)} />
      </a>
    );
  };
  const height = (slotRows + waitRows) * ROW + 4;
  return (
    <>
      <div class="plot" aria-hidden="true">
        <svg
          aria-hidden="true"
          class="timeline"
          viewBox={`0 0 ${WIDTH} ${height}`}
          preserveAspectRatio="none"
          style={{ height: `${height / ROW}rem` }}
        >
          {slots.map(({ bar: piece, row }) => row < slotRows && bar(piece, row * ROW))}
          {waits.map(({ bar: piece, row }) => row < waitRows && bar(piece, (slotRows + row) * ROW + 4))}
          {isDrawn && <path class="limit" d={`M0 ${limit * ROW + 1}H${WIDTH}`} />}
        </svg>
      </div>
      <p class="axis quiet small">
        <span>{clock(new Date(begin).toISOString())}</span>
        <span>{clock(new Date(end).toISOString())}</span>
      </p>
      {hidden > 0 && <p class="quiet small">{texts.timeline.more(hidden)}</p>}
      <Legend limit={limit} isDrawn={isDrawn} />
    </>
  );
}

function Chart({ data, limit, minutes }: { data: SlotTimeline; limit: number; minutes: number }) {
  const end = useMemo(() => now.peek(), [data]);
  const pieces = piecesOf(data.items);
  return (
    <figure class="chart">
      {pieces.length === 0 ? (
        <p class="quiet">{texts.timeline.empty}</p>
      ) : (
        <>
          <Drawing pieces={pieces} limit={limit} begin={end - minutes * MINUTE_MS} end={end} />
          <details>
            <summary>{texts.chart.table}</summary>
            <Table
              label={texts.timeline.title}
              rows={[...pieces].sort((a, b) => b.from - a.from)}
              id={({ use, span }) => `${use.id} ${span.started_at} ${span.uses_slot}`}
              columns={[
                { title: texts.column.execution, cell: ({ use }) => <Id id={use.id} /> },
                { title: texts.column.workflow, from: 'normal', cell: ({ use }) => <WorkflowLink name={use.workflow} /> },
                { title: texts.column.state, from: 'medium', cell: ({ use }) => <State state={use.status} /> },
                { title: texts.timeline.phase, cell: ({ span }) => phaseOf(span) },
                { title: texts.timeline.from, cell: ({ span }) => <Time at={span.started_at} /> },
                {
                  title: texts.timeline.until,
                  from: 'medium',
                  cell: ({ span }) => (span.finished_at === null ? texts.timeline.goesOn : <Time at={span.finished_at} />),
                },
                { title: texts.column.duration, kind: 'number', cell: (piece) => lengthOf(piece, end) },
              ]}
            />
          </details>
        </>
      )}
      {!data.count_is_exact && <p class="quiet small">{texts.timeline.narrowed(data.count)}</p>}
      {data.examined_since !== null && (
        <p class="quiet small">{texts.timeline.examined(absolute(data.examined_since, 'local'))}</p>
      )}
    </figure>
  );
}

/** `limit`: the slots that the workspace may use. */
export function Timeline({ workspace, limit }: { workspace: string; limit: number }) {
  const span = chosen();
  const read = useRead<SlotTimeline>(
    withQuery(`v1/workspaces/${segment(workspace)}/slot_timeline`, { since: span, limit: LIMIT }),
  );
  return (
    <Panel title={texts.timeline.title} aside={<Choice />}>
      <Loaded read={read}>{(data) => <Chart data={data} limit={limit} minutes={spans[span] ?? 60} />}</Loaded>
    </Panel>
  );
}
