// Requests to the node. Each goes to an address beside the page, with the cookie of the session; the field Weir-Session lets
// the cookie count.
import { signal } from '@preact/signals';
import { noteServerTime } from './format.ts';
import { texts } from './texts.ts';

export interface Session {
  token: string | null;
  role: string;
  workspaces: string[] | null;
  weir_version: string;
  /** The node is one of `weir demo`, which has a button that kills a node. */
  is_demo: boolean;
}

/** undefined: not known yet; null: nobody is signed in. */
export const session = signal<Session | null | undefined>(undefined);
export const sessionEnded = signal(false);
/** The token of a session that the node could not end at the sign-out; null: there is none. */
export const leftToken = signal<string | null>(null);

/** When the node answered last (ms), and whether the last request failed. */
export const connection = signal<{ answeredAt: number | null; failed: boolean }>({ answeredAt: null, failed: false });

export class Problem extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    detail: string,
    readonly hint: string | null,
    readonly requestId: string | null,
  ) {
    super(detail);
  }
}

/** A read that has no answer by then is given up, so that a node that hangs is seen. An act may take longer. */
const READ_MS = 10_000;
const ACT_MS = 60_000;

const fields = { 'Weir-Session': '1' };
const unreadable = (detail: string) => new Problem(-1, 'unreadable', detail, texts.problem.unreadableHint, null);

/** The problem that an error is. */
export const toProblem = (error: unknown): Problem => (error instanceof Problem ? error : unreadable(String(error)));

async function problemOf(answer: Response): Promise<Problem> {
  const body = await answer.json().catch(() => null);
  if (typeof body?.code === 'string') {
    return new Problem(answer.status, body.code, String(body.detail), body.hint ?? null, body.request_id ?? null);
  }
  const detail = answer.statusText || texts.problem.noProblem;
  return new Problem(answer.status, `http_${answer.status}`, detail, texts.problem.unreadableHint, null);
}

export interface Request {
  method?: string;
  body?: unknown;
  headers?: Record<string, string>;
  signal?: AbortSignal;
  /** A POST that changes nothing. */
  isDry?: boolean;
}

/** `take` reads the answer, within the deadline; without a deadline only the head of the answer is within it. */
async function send<T>(path: string, request: Request, take: (answer: Response) => Promise<T>): Promise<T> {
  const isAct = (request.method ?? 'GET') !== 'GET';
  const deadline = new AbortController();
  const timer = setTimeout(() => deadline.abort(), isAct ? ACT_MS : READ_MS);
  try {
    const answer = await fetchAnswer(path, request, deadline.signal);
    if (!answer.ok) throw await problemOf(answer);
    return await take(answer);
  } catch (error) {
    if (error instanceof Problem || request.signal?.aborted) throw error;
    if (error instanceof SyntaxError) throw unreadable(texts.problem.notJson);
    connection.value = { ...connection.value, failed: true };
    const detail = deadline.signal.aborted ? texts.problem.late((isAct ? ACT_MS : READ_MS) / 1000) : texts.problem.noAnswer;
    throw new Problem(0, 'unreachable', detail, isAct && !request.isDry ? texts.problem.mayHaveActed : null, null);
  } finally {
    clearTimeout(timer);
  }
}

async function fetchAnswer(path: string, request: Request, deadline: AbortSignal): Promise<Response> {
  const headers: Record<string, string> = { Accept: 'application/json', ...fields, ...request.headers };
  if (request.body !== undefined) headers['Content-Type'] = 'application/json';
  const answer = await fetch(path, {
    method: request.method ?? 'GET',
    headers,
    body: request.body === undefined ? null : JSON.stringify(request.body),
    signal: request.signal ? AbortSignal.any([request.signal, deadline]) : deadline,
    credentials: 'same-origin',
    cache: 'no-store',
  });
  const isGateway = answer.status === 502 || answer.status === 504;
  connection.value = isGateway ? { ...connection.value, failed: true } : { answeredAt: Date.now(), failed: false };
  noteServerTime(answer.headers.get('Date'));
  if (answer.status === 401 && session.value) {
    sessionEnded.value = true;
    session.value = null;
  }
  return answer;
}

export const ask = <T>(path: string, request: Request = {}): Promise<T> =>
  send<T>(path, request, (answer) => answer.json());

/** An act: the reason goes on record. A field of a head is a row of bytes: those of UTF-8 here. */
export async function act<T>(method: string, path: string, reason: string, body?: unknown): Promise<T> {
  const bytes = String.fromCharCode(...new TextEncoder().encode(reason));
  const headers: Record<string, string> = reason === '' ? {} : { 'Weir-Reason': bytes };
  return ask<T>(path, body === undefined ? { method, headers } : { method, headers, body });
}

export const openStream = (path: string, signal: AbortSignal): Promise<Response> =>
  send(path, { signal, headers: { Accept: 'text/event-stream' } }, async (answer) => answer);

export async function findSession(): Promise<void> {
  try {
    session.value = await ask<Session>('v1/session');
  } catch (error) {
    // A node that has had too many wrong tokens of this address refuses all that show none, but takes a right one.
    if (error instanceof Problem && (error.status === 401 || error.status === 429)) session.value = null;
    if (!(error instanceof Problem && error.status === 401)) throw error;
  }
}

/** The name of the provider by which people sign in; null: they have tokens alone. */
export const findProvider = async (): Promise<string | null> =>
  (await ask<{ provider: string | null }>('v1/oidc')).provider;

export async function signIn(token: string): Promise<void> {
  // No token has other letters, and a field of a head cannot hold them.
  if (/[^\x21-\x7e]/.test(token)) throw new Problem(401, 'unauthorized', texts.signIn.refused, null, null);
  const begun = await ask<Session>('v1/session', { method: 'POST', headers: { Authorization: `Bearer ${token}` } });
  sessionEnded.value = false;
  leftToken.value = null;
  session.value = begun;
}

export async function signOut(): Promise<void> {
  const token = session.value?.token ?? null;
  const { ended } = await ask<{ ended: boolean }>('v1/session', { method: 'DELETE' });
  sessionEnded.value = false;
  leftToken.value = ended ? null : token;
  session.value = null;
}

const roles = ['read', 'enqueue', 'operate', 'admin'];
export const may = (role: string): boolean => roles.indexOf(session.value?.role ?? 'read') >= roles.indexOf(role);
export const hasAllWorkspaces = (): boolean => session.value?.workspaces === null;

/** A segment of a path. */
export const segment = (text: string): string => encodeURIComponent(text);
export const withQuery = (path: string, query: Record<string, string | null | undefined>): string => {
  const search = new URLSearchParams();
  for (const [key, value] of Object.entries(query)) {
    if (value !== null && value !== undefined) search.set(key, value);
  }
  const text = search.toString();
  return text ? `${path}?${text}` : path;
};
