// Names of workspaces that begin as the user types, for a field with a list of suggestions.
import { useEffect, useRef, useState } from 'preact/hooks';
import { ask, session, withQuery } from '../api.ts';
import type { Page } from '../model.ts';

const SHOWN = '20';

/** A token of some workspaces knows its own. */
async function find(prefix: string, signal: AbortSignal): Promise<string[]> {
  const own = session.value?.workspaces;
  if (own) return own.filter((name) => name.startsWith(prefix));
  const page = await ask<Page<{ name: string }>>(withQuery('v1/workspaces', { prefix: prefix || null, limit: SHOWN }), {
    signal,
  });
  return page.items.map((row) => row.name);
}

/** The names for the text given last, and what gives it. An answer that comes after a later text is dropped. */
export function useWorkspaceNames(): [string[], (prefix: string) => void] {
  const [names, setNames] = useState<string[]>([]);
  const asked = useRef<AbortController | null>(null);
  const last = useRef<string | null>(null);
  useEffect(() => () => asked.current?.abort(), []);
  const suggest = (prefix: string) => {
    if (prefix === last.current) return;
    last.current = prefix;
    asked.current?.abort();
    const controller = new AbortController();
    asked.current = controller;
    // Without suggestions the field works as well, and the page reports a node that does not answer.
    find(prefix, controller.signal).then(setNames, () => undefined);
  };
  return [names, suggest];
}
