// A chart of the history: lines over time. The pointer, or the slider below by the keyboard, chooses a point, whose values stand above
// the lines. The same values are in a table. Nothing moves by itself.
import { useState } from 'preact/hooks';
import { ask, withQuery } from '../api.ts';
import { absolute } from '../format.ts';
import { type Read, useRead } from '../live.ts';
import { place, to } from '../router.ts';
import { timeFormat } from '../settings.ts';
import { texts } from '../texts.ts';
import { Loaded, Panel } from './basics.tsx';
import { Table } from './table.tsx';

export interface HistoryMoment {
  at: string;
  span_us: number;
}

export interface Line<T> {
  name: string;
  /** null: there is no value, so the line has a gap. */
  value: (point: T) => number | null;
}

const WIDTH = 600;
const HEIGHT = 120;
/** A longer time between the end of a point and the begin of the next one is a gap (ms). */
const GAP_MS = 30_000;
/** A point is made each minute, so an answer is used for so long (ms). */
const FRESH_MS = 30_000;

const answers = new Map<string, { data: unknown; at: number }>();

/** The history of the last hour, or of the day when the address names it. */
export function useHistory<T>(path: string): Read<{ items: T[] }> {
  const address = withQuery(path, { since: isDay() ? '24h' : '1h' });
  const load = async (signal: AbortSignal) => {
    const last = answers.get(address);
    if (last && Date.now() - last.at < FRESH_MS) return last.data as { items: T[] };
    const data = await ask<{ items: T[] }>(address, { signal });
    answers.clear();
    answers.set(address, { data, at: Date.now() });
    return data;
  };
  return useRead<{ items: T[] }>(address, { load });
}

const isDay = (): boolean => place.value.query.get('span') === 'day';

export function SpanChoice() {
  const { page, name } = place.value;
  const link = (text: string, isOn: boolean, query: Record<string, string>) => (
    <a href={to(page, name, query)} aria-current={isOn ? 'true' : undefined}>
      {text}
    </a>
  );
  return (
    <p class="spans small">
      {link(texts.chart.hour, !isDay(), {})} {link(texts.chart.day, isDay(), { span: 'day' })}
    </p>
  );
}

export const clock = (at: string): string =>
  timeFormat.value === 'utc'
    ? `${at.slice(11, 16)} UTC`
    : new Date(at).toLocaleTimeString(undefined, { hour: '2-digit', minute: '2-digit' });

/** The paths of a line, one for each part between gaps. */
function pathOf<T extends HistoryMoment>(points: T[], line: Line<T>, x: (at: number) => number, most: number): string {
  let path = '';
  let before = Number.NEGATIVE_INFINITY;
  for (const point of points) {
    const value = line.value(point);
    const end = Date.parse(point.at);
    if (value === null) {
      before = Number.NEGATIVE_INFINITY;
      continue;
    }
    const isJoined = end - point.span_us / 1000 - before < GAP_MS;
    const y = (HEIGHT - (value / most) * HEIGHT).toFixed(1);
    path += isJoined
      ? `L${x(end).toFixed(1)} ${y}`
      : `M${x(end - point.span_us / 1000).toFixed(1)} ${y}L${x(end).toFixed(1)} ${y}`;
    before = end;
  }
  return path;
}

export function Chart<T extends HistoryMoment>({
  title,
  points,
  lines,
  format,
}: {
  title: string;
  points: T[];
  lines: Line<T>[];
  format: (value: number) => string;
}) {
  const [chosen, choose] = useState<number | null>(null);
  const first = points[0];
  const last = points[points.length - 1];
  if (first === undefined || last === undefined) return <p class="quiet">{texts.chart.empty}</p>;
  const begin = Date.parse(first.at) - first.span_us / 1000;
  const span = Math.max(1, Date.parse(last.at) - begin);
  const x = (at: number) => ((at - begin) / span) * WIDTH;
  const most = Math.max(...points.flatMap((point) => lines.map((line) => line.value(point) ?? 0))) || 1;
  const index = Math.min(chosen ?? points.length - 1, points.length - 1);
  const point = points[index] ?? last;
  const shown = (value: number | null) => (value === null ? texts.none : format(value));
  const words = `${clock(point.at)}: ${lines.map((line) => `${line.name} ${shown(line.value(point))}`).join(', ')}`;
  const follow = (event: PointerEvent) => {
    const box = (event.currentTarget as Element).getBoundingClientRect();
    const at = begin + ((event.clientX - box.left) / Math.max(1, box.width)) * span;
    const found = points.findIndex((one) => Date.parse(one.at) >= at);
    choose(found < 0 ? points.length - 1 : found);
  };
  return (
    <figure class="chart">
      <figcaption>
        <strong>{title}</strong>
        <span class="legend">
          {lines.map((line, at) => (
            <span key={line.name} class={`line-${at}`}>
              <svg viewBox="0 0 24 8" aria-hidden="true">
                <path d="M0 4H24" />
              </svg>
              {line.name} <b>{shown(line.value(point))}</b>
            </span>
          ))}
          <span class="quiet">{clock(point.at)}</span>
        </span>
      </figcaption>
      <div class="plot" onPointerMove={follow} onPointerLeave={() => choose(null)}>
        <span class="most quiet small">{format(most)}</span>
        <svg viewBox={`0 -2 ${WIDTH} ${HEIGHT + 4}`} preserveAspectRatio="none" aria-hidden="true">
          {lines.map((line, at) => (
            <path key={line.name} class={`line-${at}`} d={pathOf(points, line, x, most)} />
          ))}
          {chosen !== null && <path class="cursor" d={`M${x(Date.parse(point.at))} 0V${HEIGHT}`} />}
        </svg>
      </div>
      <p class="axis quiet small">
        <span>{clock(first.at)}</span>
        <span>{clock(last.at)}</span>
      </p>
      <input
        type="range"
        min="0"
        max={points.length - 1}
        value={index}
        aria-label={texts.chart.choose(title)}
        aria-valuetext={words}
        onInput={(event) => choose(Number(event.currentTarget.value))}
        onBlur={() => choose(null)}
      />
      <details>
        <summary>{texts.chart.table}</summary>
        <Table
          label={title}
          rows={[...points].reverse()}
          id={(row) => row.at}
          columns={[
            { title: texts.chart.until, cell: (row) => <time dateTime={row.at}>{absolute(row.at, 'local')}</time> },
            ...lines.map((line) => ({
              title: line.name,
              kind: 'number' as const,
              cell: (row: T) => shown(line.value(row)),
            })),
          ]}
        />
      </details>
    </figure>
  );
}

/** A panel with the charts of an answer. */
export function History<T extends HistoryMoment>({
  path,
  charts,
}: {
  path: string;
  charts: { title: string; lines: Line<T>[]; format: (value: number) => string }[];
}) {
  const read = useHistory<T>(path);
  return (
    <Panel title={texts.chart.history} aside={<SpanChoice />}>
      <Loaded read={read}>
        {(data) => (
          <div class="charts">
            {charts.map((chart) => (
              <Chart key={chart.title} points={data.items} {...chart} />
            ))}
          </div>
        )}
      </Loaded>
    </Panel>
  );
}
