// Where the reader was on each page of the history: back and forward lead there again, another page begins at its top, and the
// next page of a list at its table.
import type { RefObject } from 'preact';
import { useEffect, useRef } from 'preact/hooks';
import { place } from '../router.ts';

/** Rows that come later than this no longer move the page under its reader. */
const RESTORED_MS = 5000;
const byUser = ['wheel', 'keydown', 'pointerdown', 'touchmove'];

history.scrollRestoration = 'manual';
/** By the key of an entry of the history; an entry that is new has none yet. */
const positions = new Map<string, number>();
const keyOf = (): string | null => (history.state as { key?: string } | null)?.key ?? null;
const mark = (): void => history.replaceState({ key: `${Date.now()} ${Math.random()}` }, '');

let isRestoring = false;
const note = (): void => {
  const key = keyOf();
  if (key !== null && !isRestoring) positions.set(key, scrollY);
};

/** Moves the page to `top` as soon as it is long enough, unless the user moves it first. */
function restore(top: number, main: HTMLElement): () => void {
  isRestoring = true;
  const end = () => {
    isRestoring = false;
    observer.disconnect();
    clearTimeout(timer);
    for (const name of byUser) removeEventListener(name, end);
  };
  const move = () => {
    scrollTo(0, top);
    if (Math.abs(scrollY - top) < 2) end();
  };
  const observer = new ResizeObserver(move);
  const timer = setTimeout(end, RESTORED_MS);
  for (const name of byUser) addEventListener(name, end);
  observer.observe(main);
  move();
  return end;
}

export function useScroll(main: RefObject<HTMLElement | null>): void {
  const { page, name, query } = place.value;
  const cursor = query.get('cursor');
  const before = useRef<{ page: string; name: string | null; cursor: string | null } | null>(null);
  useEffect(() => {
    if (keyOf() === null) mark();
    addEventListener('scroll', note, { passive: true });
    return () => removeEventListener('scroll', note);
  }, []);
  useEffect(() => {
    const was = before.current;
    before.current = { page, name, cursor };
    if (was === null || main.current === null) return;
    const isOther = was.page !== page || was.name !== name;
    if (isOther) main.current.focus({ preventScroll: true });
    const key = keyOf();
    if (key !== null) return restore(positions.get(key) ?? 0, main.current);
    mark();
    if (isOther) scrollTo(0, 0);
    else if (was.cursor !== cursor) {
      const table = main.current.querySelector<HTMLElement>('.scroll');
      table?.scrollIntoView({ block: 'start' });
      table?.focus({ preventScroll: true });
    }
    return;
  }, [place.value]);
}
