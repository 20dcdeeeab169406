// Rows for the bars of a timeline: as few as possible, so that their number is the most that were there at one time.

export interface Bar {
  from: number;
  /** null: it goes on. */
  until: number | null;
}

/** The bars with their rows, from 0 on. A bar takes the first row that is free when it begins; one that ends at that moment has
 * left its row. */
export function pack<T extends Bar>(bars: T[]): { bar: T; row: number }[] {
  const ends: number[] = [];
  return [...bars]
    .sort((a, b) => a.from - b.from || (a.until ?? Infinity) - (b.until ?? Infinity))
    .map((bar) => {
      const free = ends.findIndex((end) => end <= bar.from);
      const row = free < 0 ? ends.length : free;
      ends[row] = bar.until ?? Infinity;
      return { bar, row };
    });
}
