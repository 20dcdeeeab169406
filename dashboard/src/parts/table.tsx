// A table whose rows can be walked through with j and k. Columns of less weight are left out on narrow screens.
import type { ComponentChildren } from 'preact';
import { withQuery } from '../api.ts';
import { type Read, useRead } from '../live.ts';
import type { Page } from '../model.ts';
import { place, to } from '../router.ts';
import { texts } from '../texts.ts';

export interface Column<T> {
  title: string;
  cell: (row: T) => ComponentChildren;
  /** Shown from this width of the table on; without, always. */
  from?: 'medium' | 'normal' | 'wide';
  /** `fill` takes the room that is left; `grow` as well, and its text is cut. */
  kind?: 'number' | 'fill' | 'grow' | 'acts';
}

interface Props<T> {
  label: string;
  rows: T[];
  id: (row: T) => string;
  columns: Column<T>[];
}

export function Table<T>({ label, rows, id, columns }: Props<T>) {
  const shape = (column: Column<T>) => `${column.kind ?? ''} ${column.from ? `from-${column.from}` : ''}`;
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by the keyboard
    <section class="scroll" tabIndex={0} aria-label={label}>
      <table>
        <thead>
          <tr>
            {columns.map((column) => (
              <th key={column.title} scope="col" class={shape(column)}>
                {column.title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={id(row)}>
              {columns.map((column) => (
                <td key={column.title} class={shape(column)}>
                  {column.cell(row)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

/** A list of the node, and the links to its other pages. The address keeps the cursor beside the rest of its query. `load`: in place
 * of one request for the page. */
export function useList<T>(
  path: string,
  query: Record<string, string | null> = {},
  load?: (query: Record<string, string | null>, signal: AbortSignal) => Promise<Page<T>>,
): [Read<Page<T>>, ComponentChildren] {
  const { page, query: address } = place.value;
  const cursor = address.get('cursor');
  const whole = { limit: '100', ...query, cursor };
  const read = useRead<Page<T>>(withQuery(path, whole), load && { load: (signal) => load(whole, signal) });
  const { cursor: _, ...kept } = Object.fromEntries(address);
  const next = read.data?.next_cursor ?? null;
  const pager = (
    <Pager
      first={cursor === null ? null : to(page, null, kept)}
      next={next === null ? null : to(page, null, { ...kept, cursor: next })}
    />
  );
  return [read, pager];
}

/** Pages of a list: the first one, and the next. */
function Pager({ first, next }: { first: string | null; next: string | null }) {
  if (first === null && next === null) return null;
  return (
    <nav class="pager" aria-label={texts.pager}>
      {first !== null && <a href={first}>{texts.firstPage}</a>}
      {next !== null && (
        <a href={next} rel="next">
          {texts.nextPage}
        </a>
      )}
    </nav>
  );
}
