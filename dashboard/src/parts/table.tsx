// A table whose rows can be walked through with j and k. Columns of less weight are left out on narrow screens.
import type { ComponentChildren } from 'preact';
import { texts } from '../texts.ts';

export interface Column<T> {
  title: string;
  cell: (row: T) => ComponentChildren;
  /** Shown from this width on; without, always. */
  from?: 'medium' | 'wide';
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

/** Pages of a list: the first one, and the next. */
export function Pager({ first, next }: { first: string | null; next: string | null }) {
  if (first === null && next === null) return null;
  return (
    <nav class="pager" aria-label="Pages">
      {first !== null && <a href={first}>{texts.executions.newer}</a>}
      {next !== null && (
        <a href={next} rel="next">
          {texts.executions.older}
        </a>
      )}
    </nav>
  );
}
