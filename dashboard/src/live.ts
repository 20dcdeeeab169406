// When pages read again: after changes in the stream of the node, at the latest every five seconds. Nothing is asked while
// the tab is hidden or the user has paused updates.
import { effect, signal } from '@preact/signals';
import { useEffect, useState } from 'preact/hooks';
import { ask, openStream, Problem, session, withQuery } from './api.ts';

const SHORTEST_MS = 1000;
const LONGEST_MS = 5000;
/** A read is repeated at the earliest after so many times its own duration, so that a page never keeps a node busy. */
const REST = 20;

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

export interface Read<T> {
  data: T | null;
  problem: Problem | null;
  isLoading: boolean;
}

/** The answer to a GET, read again with each tick; the last one stays while the node does not answer. null: nothing is asked. */
export function useRead<T>(path: string | null): Read<T> {
  const [state, setState] = useState<Read<T> & { path: string | null }>({
    data: null,
    problem: null,
    isLoading: true,
    path,
  });
  useEffect(() => {
    if (path === null) return;
    const controller = new AbortController();
    let isBusy = false;
    let isDue = false;
    let restsUntil = 0;
    const read = async (isWished: boolean) => {
      if (!isWished && Date.now() < restsUntil) return;
      isDue = isBusy && (isDue || isWished);
      if (isBusy) return;
      isBusy = true;
      const began = Date.now();
      try {
        const data = await ask<T>(path, { signal: controller.signal });
        setState({ data, problem: null, isLoading: false, path });
      } catch (error) {
        if (controller.signal.aborted) return;
        const problem = error instanceof Problem ? error : new Problem(0, 'unreadable', String(error), null, null);
        const isKept = problem.status === 0 || problem.status >= 500 || problem.status === 429;
        setState((before) => ({
          data: isKept && before.path === path ? before.data : null,
          problem,
          isLoading: false,
          path,
        }));
      }
      isBusy = false;
      restsUntil = Date.now() + REST * (Date.now() - began);
      if (isDue) void read(true);
    };
    const stop = tick.subscribe(({ isWished }) => void read(isWished));
    return () => {
      stop();
      controller.abort();
    };
  }, [path]);
  // Another page of the same list: the one before stays until the answer is there, so that nothing jumps.
  const isSameList = path !== null && state.path !== null && path.split('?')[0] === state.path.split('?')[0];
  return state.path === path ? state : { data: isSameList ? state.data : null, problem: null, isLoading: true };
}
