// When pages read again: after changes in the stream of the node, at the latest every five seconds. Nothing is asked while
// the tab is hidden or the user has paused updates.
import { effect, signal } from '@preact/signals';
import { useEffect, useState } from 'preact/hooks';
import { ask, openStream, type Problem, session, toProblem, withQuery } from './api.ts';

const SHORTEST_MS = 1000;
const LONGEST_MS = 5000;
/** A read is repeated at the earliest after so many times its own duration, so that a page never keeps a node busy. The way to
 * the node and back, which is the duration of the fastest read, at most a second, does not count. */
const REST = 20;
const REST_LONGEST_MS = 30_000;
let fastest = 1000;
const restAfter = (duration: number): number => Math.min(REST_LONGEST_MS, REST * Math.max(0, duration - fastest));

export const paused = signal(false);
const hidden = signal(document.hidden);
/** Each change of it is a reason to read again, after an act and at a wish of the user also before the time. */
const tick = signal({ isWished: false });

document.addEventListener('visibilitychange', () => {
  hidden.value = document.hidden;
});

export const readAgain = (): void => {
  tick.value = { isWished: true };
};

// Ticks.
let changed = false;
let lastTick = Date.now();
let clock: ReturnType<typeof setTimeout> | undefined;

function schedule(): void {
  clearTimeout(clock);
  const due = lastTick + (changed ? SHORTEST_MS : LONGEST_MS) - Date.now();
  clock = setTimeout(
    () => {
      lastTick = Date.now();
      changed = false;
      tick.value = { isWished: false };
      schedule();
    },
    Math.max(0, due),
  );
}

function noteChange(): void {
  if (!changed) {
    changed = true;
    schedule();
  }
}

// The stream.
async function follow(signal: AbortSignal): Promise<void> {
  const workspaces = session.value?.workspaces ?? null;
  const path = withQuery('v1/stream', { workspace: workspaces?.[0] });
  const answer = await openStream(path, signal);
  const reader = answer.body?.getReader();
  const decoder = new TextDecoder();
  for (let rest = ''; reader; ) {
    const { done, value } = await reader.read();
    if (done) return;
    const lines = (rest + decoder.decode(value, { stream: true })).split('\n');
    rest = lines.pop() ?? '';
    if (lines.some((line) => line.startsWith('data:'))) noteChange();
  }
}

effect(() => {
  const isOn = !paused.value && !hidden.value && Boolean(session.value);
  if (!isOn) {
    clearTimeout(clock);
    return;
  }
  const controller = new AbortController();
  schedule();
  readAgain();
  void (async () => {
    while (!controller.signal.aborted) {
      await follow(controller.signal).catch(() => undefined);
      await new Promise((resolve) => setTimeout(resolve, LONGEST_MS));
    }
  })();
  return () => controller.abort();
});

/** When the answers came that the page shows (ms), those alone that are read again. */
const shown = new Set<{ at: number }>();
export const oldestShown = (): number | null => (shown.size === 0 ? null : Math.min(...[...shown].map(({ at }) => at)));

/** The last answers, so that a page that the user comes back to is there at once, and is then read again. */
const CACHED = 30;
const cache = new Map<string, { data: unknown; at: number }>();
const cached = <T>(path: string): T | null => (cache.get(path)?.data as T | undefined) ?? null;
function remember(path: string, data: unknown): void {
  cache.delete(path);
  cache.set(path, { data, at: Date.now() });
  for (const oldest of cache.keys()) if (cache.size > CACHED) cache.delete(oldest);
}
effect(() => {
  if (!session.value) cache.clear();
});

export interface Read<T> {
  data: T | null;
  problem: Problem | null;
  isLoading: boolean;
}

/** `isFinal`: whether an answer will not change, so that it is not asked for again. `load`: for data of several requests, in place
 * of the one to the path, which then only names them. */
interface Options<T> {
  isFinal?: (data: T) => boolean;
  load?: (signal: AbortSignal) => Promise<T>;
}

/** The answer to a GET, read again with each tick; the last one stays while the node does not answer. null: nothing is asked. */
export function useRead<T>(path: string | null, { isFinal = () => false, load }: Options<T> = {}): Read<T> {
  const [state, setState] = useState<Read<T> & { path: string | null }>({
    data: null,
    problem: null,
    isLoading: true,
    path: null,
  });
  useEffect(() => {
    if (path === null) return;
    const controller = new AbortController();
    const entry = { at: cache.get(path)?.at ?? 0 };
    if (entry.at > 0) shown.add(entry);
    let isBusy = false;
    let isDue = false;
    let isDone = false;
    let restsUntil = 0;
    const read = async (isWished: boolean) => {
      if (isDone && !isWished) return;
      if (!isWished && Date.now() < restsUntil) return;
      isDue = isBusy && (isDue || isWished);
      if (isBusy) return;
      isBusy = true;
      const began = Date.now();
      try {
        const data = await (load?.(controller.signal) ?? ask<T>(path, { signal: controller.signal }));
        fastest = Math.min(fastest, Date.now() - began);
        remember(path, data);
        isDone = isFinal(data);
        entry.at = Date.now();
        if (isDone) shown.delete(entry);
        else shown.add(entry);
        setState({ data, problem: null, isLoading: false, path });
      } catch (error) {
        if (controller.signal.aborted) return;
        const problem = toProblem(error);
        const isKept = problem.status < 400 || problem.status >= 500 || problem.status === 429;
        if (!isKept) shown.delete(entry);
        setState((before) => ({
          data: isKept ? (before.path === path ? before.data : cached<T>(path)) : null,
          problem,
          isLoading: false,
          path,
        }));
      }
      isBusy = false;
      restsUntil = Date.now() + restAfter(Date.now() - began);
      if (isDue) void read(true);
    };
    const stop = tick.subscribe(({ isWished }) => void read(isWished));
    return () => {
      stop();
      controller.abort();
      shown.delete(entry);
    };
  }, [path]);
  if (path === null) return { data: null, problem: null, isLoading: true };
  if (state.path === path) return state;
  // Another page of the same list: the one before stays until the answer is there, so that nothing jumps.
  const isSameList = path.split('?')[0] === state.path?.split('?')[0];
  return { data: cached<T>(path) ?? (isSameList ? state.data : null), problem: null, isLoading: true };
}
