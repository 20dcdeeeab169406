// A page of executions that match, filled by further requests when it is not full (fill.ts).
import { ask, withQuery } from '../api.ts';
import { fillPage } from '../fill.ts';
import { type Read, useRead } from '../live.ts';
import type { Execution, Page } from '../model.ts';

const LONGEST_MS = 1500;
const path = 'v1/executions';

type Query = Record<string, string | null>;

/** `query` has the limit. */
export const searchExecutions = (query: Query, signal: AbortSignal): Promise<Page<Execution>> =>
  fillPage(Number(query.limit), LONGEST_MS, (cursor, limit) => {
    const part: Query = cursor === null ? query : { ...query, cursor, limit: String(limit) };
    return ask<Page<Execution>>(withQuery(path, part), { signal });
  });

export const useExecutions = (query: Query): Read<Page<Execution>> =>
  useRead<Page<Execution>>(withQuery(path, query), { load: (signal) => searchExecutions(query, signal) });
