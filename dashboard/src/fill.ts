// A page of executions that match, for the pages and for the box.
import type { Execution, Page } from './model.ts';

/**
 * For each request the node examines a part of its executions, so a page may have fewer rows than match. Further requests fill
 * it, for a while; its cursor goes on behind the last one. `read` gets null as the cursor of the first request.
 */
export async function fillPage(
  limit: number,
  longestMs: number,
  read: (cursor: string | null, limit: number) => Promise<Page<Execution>>,
): Promise<Page<Execution>> {
  const until = Date.now() + longestMs;
  const page = await read(null, limit);
  while (page.next_cursor !== null && page.items.length < limit && Date.now() < until) {
    const next = await read(page.next_cursor, limit - page.items.length);
    page.items.push(...next.items);
    page.next_cursor = next.next_cursor;
  }
  return page;
}
