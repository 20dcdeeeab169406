// A page of executions that match. For each request the node examines a part of its executions, so that no filter makes it work
// for long. A page that is not full is filled by further requests, for a while; the link to the next page goes on behind it.
import { ask, withQuery } from '../api.ts';
import { type Read, useRead } from '../live.ts';
import type { Execution, Page } from '../model.ts';

const LONGEST_MS = 1500;
const path = 'v1/executions';

type Query = Record<string, string | null>;

/** `query` has the limit. */
export async function searchExecutions(query: Query, signal: AbortSignal): Promise<Page<Execution>> {
  const until = Date.now() + LONGEST_MS;
  const limit = Number(query.limit);
  const page = await ask<Page<Execution>>(withQuery(path, query), { signal });
  while (page.next_cursor !== null && page.items.length < limit && Date.now() < until) {
    const rest: Query = { ...query, cursor: page.next_cursor, limit: String(limit - page.items.length) };
    const next = await ask<Page<Execution>>(withQuery(path, rest), { signal });
    page.items.push(...next.items);
    page.next_cursor = next.next_cursor;
  }
  return page;
}

export const useExecutions = (query: Query): Read<Page<Execution>> =>
  useRead<Page<Execution>>(withQuery(path, query), { load: (signal) => searchExecutions(query, signal) });
