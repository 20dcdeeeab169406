// The address: #/page/name?argument=value. It is the fragment, so no part of it depends on the prefix of a proxy, and none is
// in a log of one.
import { computed, signal } from '@preact/signals';

export interface Place {
  page: string;
  name: string | null;
  query: URLSearchParams;
}

export function readPlace(hash: string): Place {
  const [path = '', query = ''] = hash.replace(/^#\/?/, '').split(/\?(.*)/s);
  const [page = '', ...rest] = path.split('/');
  const name = rest.length === 0 ? null : rest.map(decode).join('/');
  return { page: page === '' ? 'overview' : page, name: name === '' ? null : name, query: new URLSearchParams(query) };
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

const hash = signal(location.hash);
addEventListener('hashchange', () => {
  hash.value = location.hash;
});

export const place = computed(() => readPlace(hash.value));

export function to(page: string, name?: string | null, query: Record<string, string | null | undefined> = {}): string {
  const search = new URLSearchParams();
  for (const [key, value] of Object.entries(query)) {
    if (value) search.set(key, value);
  }
  const text = search.toString();
  const path = page === 'overview' ? '' : page + (name ? `/${encodeURIComponent(name)}` : '');
  return `#/${path}${text ? `?${text}` : ''}`;
}

export function go(address: string): void {
  location.hash = address;
}

/** A value of a filter, in quotes when it needs them. */
export function word(value: string): string {
  if (!/[\s"']/.test(value)) return value;
  return value.includes('"') ? `'${value}'` : `"${value}"`;
}

/** The list of executions that match. */
export const where = (conditions: Record<string, string>): string =>
  to('executions', null, {
    where: Object.entries(conditions)
      .map(([key, value]) => `${key}=${word(value)}`)
      .join(' '),
  });
