// Requests to the node. Each goes to an address beside the page, with the cookie of the session; the field Weir-Session lets
// the cookie count.
import { signal } from '@preact/signals';

export interface Session {
  token: string | null;
  role: string;
  workspaces: string[] | null;
  weir_version: string;
}

/** undefined: not known yet; null: nobody is signed in. */
export const session = signal<Session | null | undefined>(undefined);
export const sessionEnded = signal(false);

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

const fields = { 'Weir-Session': '1' };
const unreachable = () => new Problem(0, 'unreachable', 'The request had no answer.', null, null);

async function problemOf(answer: Response): Promise<Problem> {
  try {
    const body = await answer.json();
    return new Problem(answer.status, body.code, body.detail, body.hint ?? null, body.request_id ?? null);
  } catch {
    return new Problem(
      answer.status,
      `http_${answer.status}`,
      answer.statusText || 'The answer is no problem of weir.',
      null,
      null,
    );
  }
}

export interface Request {
  method?: string;
  body?: unknown;
  headers?: Record<string, string>;
  signal?: AbortSignal;
}

async function send(path: string, request: Request): Promise<Response> {
  const headers: Record<string, string> = { Accept: 'application/json', ...fields, ...request.headers };
  if (request.body !== undefined) headers['Content-Type'] = 'application/json';
  let answer: Response;
  try {
    answer = await fetch(path, {
      method: request.method ?? 'GET',
      headers,
      body: request.body === undefined ? null : JSON.stringify(request.body),
      signal: request.signal ?? null,
      credentials: 'same-origin',
      cache: 'no-store',
    });
  } catch (error) {
    if (request.signal?.aborted) throw error;
    connection.value = { ...connection.value, failed: true };
    throw unreachable();
  }
  const isGateway = answer.status === 502 || answer.status === 504;
  connection.value = isGateway ? { ...connection.value, failed: true } : { answeredAt: Date.now(), failed: false };
  if (!answer.ok) {
    if (answer.status === 401 && session.value) {
      sessionEnded.value = true;
      session.value = null;
    }
    throw await problemOf(answer);
  }
  return answer;
}

export async function ask<T>(path: string, request: Request = {}): Promise<T> {
  return (await send(path, request)).json();
}

/** An act: the reason goes on record. A field of a head is a row of bytes: those of UTF-8 here. */
export async function act<T>(method: string, path: string, reason: string, body?: unknown): Promise<T> {
  const bytes = String.fromCharCode(...new TextEncoder().encode(reason));
  const headers: Record<string, string> = reason === '' ? {} : { 'Weir-Reason': bytes };
  return ask<T>(path, body === undefined ? { method, headers } : { method, headers, body });
}

export const openStream = (path: string, signal: AbortSignal): Promise<Response> =>
  send(path, { signal, headers: { Accept: 'text/event-stream' } });

export async function findSession(): Promise<void> {
  try {
    session.value = await ask<Session>('v1/session');
  } catch (error) {
    if (error instanceof Problem && error.status === 401) session.value = null;
    else throw error;
  }
}

export async function signIn(token: string): Promise<void> {
  const begun = await ask<Session>('v1/session', { method: 'POST', headers: { Authorization: `Bearer ${token}` } });
  sessionEnded.value = false;
  session.value = begun;
}

export async function signOut(): Promise<void> {
  await ask<Session>('v1/session', { method: 'DELETE' });
  sessionEnded.value = false;
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
