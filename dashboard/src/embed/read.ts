// Reads of the box. The token is in the fragment of the address, which no browser sends to a server: so it is in no log. The
// page around it may give another one by a change of the fragment, without a reload.
import { fillPage } from '../fill.ts';
import { noteServerTime } from '../format.ts';
import type { Execution, Page, Why, Workspace } from '../model.ts';
import { texts } from '../texts.ts';

const READ_MS = 10_000;
export const ROWS_MOST = 20;
/** After this time the rows that were found are shown, and the search goes on with the next reading. */
const SEARCH_MS = 2000;

export interface View {
  workspace: Workspace;
  running: Page<Execution>;
  waiting: Page<Execution>;
}

/** `isFinal`: another try with this token has the same end. */
export class Refusal extends Error {
  constructor(
    detail: string,
    readonly isFinal: boolean,
  ) {
    super(detail);
  }
}

export const tokenOf = (hash: string): string => new URLSearchParams(hash.replace(/^#/, '')).get('token') ?? '';
export const themeOf = (hash: string): string => new URLSearchParams(hash.replace(/^#/, '')).get('theme') ?? '';

export const workspaceOf = (path: string): string => {
  const last = path.split('/').pop() ?? '';
  try {
    return decodeURIComponent(last);
  } catch {
    return last;
  }
};

async function ask<T>(path: string, token: string, signal: AbortSignal): Promise<T> {
  const deadline = AbortSignal.timeout(READ_MS);
  const answer = await fetch(`../../v1/${path}`, {
    headers: { Accept: 'application/json', Authorization: `Bearer ${token}` },
    signal: AbortSignal.any([signal, deadline]),
    credentials: 'omit',
    cache: 'no-store',
  }).catch(() => {
    throw new Refusal(texts.embed.unreachable, false);
  });
  noteServerTime(answer.headers.get('Date'));
  if (answer.status === 401) throw new Refusal(texts.embed.ended, true);
  if (answer.status === 404) throw new Refusal(texts.embed.missing, true);
  if (!answer.ok) throw new Refusal(texts.embed.unreachable, false);
  return answer.json().catch(() => {
    throw new Refusal(texts.embed.unreachable, false);
  });
}

/** A page of a customer shows its token to that customer. So a token with more rights, or without an end, is refused here: the
 * mistake is seen before it is shipped. */
export async function checkToken(workspace: string, token: string, signal: AbortSignal): Promise<void> {
  if (token === '') throw new Refusal(texts.embed.noToken, true);
  // No token has other letters, and a field of a head cannot hold them.
  if (/[^\x21-\x7e]/.test(token)) throw new Refusal(texts.embed.ended, true);
  const session = await ask<{ role: string; workspaces: string[] | null; expires_at: string | null }>(
    'session',
    token,
    signal,
  );
  const isOfOne = session.workspaces?.length === 1;
  if (isOfOne && session.workspaces?.[0] !== workspace) throw new Refusal(texts.embed.other, true);
  if (!isOfOne || session.role !== 'read' || session.expires_at === null) throw new Refusal(texts.embed.tooMuch, true);
}

export async function readView(workspace: string, token: string, signal: AbortSignal): Promise<View> {
  const list = (status: string) =>
    fillPage(ROWS_MOST, SEARCH_MS, (cursor, limit) => {
      const query = new URLSearchParams({ workspace, status, limit: String(limit) });
      if (cursor !== null) query.set('cursor', cursor);
      return ask<Page<Execution>>(`executions?${query}`, token, signal);
    });
  const [shown, running, waiting] = await Promise.all([
    ask<Workspace>(`workspaces/${encodeURIComponent(workspace)}`, token, signal),
    list('CLAIMED,DISPATCHED'),
    list('PENDING,WAITING'),
  ]);
  return { workspace: shown, running, waiting };
}

export const readWhy = (id: string, token: string, signal: AbortSignal): Promise<Why> =>
  ask<Why>(`executions/${id}/why`, token, signal);
