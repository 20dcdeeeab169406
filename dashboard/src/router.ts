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

// The way to a provider and back loads another page, and the fragment stays behind: the browser keeps it for this tab.
const VIEW = 'weir.view';
export function keepView(): void {
  try {
    sessionStorage.setItem(VIEW, location.hash);
  } catch {
    // Storage is closed: the first page opens.
  }
}
export function restoreView(): void {
  try {
    const view = sessionStorage.getItem(VIEW);
    sessionStorage.removeItem(VIEW);
    if (view?.startsWith('#/') && location.hash === '') location.replace(view);
  } catch {
    // As above.
  }
}

/** The conditions of a filter, each with its text. The key of a label has dots and dashes. A value may be in quotes of either kind, and has none of that kind. */
const condition = /(?:^|\s)([\w.-]+)=(?:"([^"]*)"|'([^']*)'|(\S*))/g;
export const conditionsOf = (text: string): { key: string; value: string }[] =>
  [...text.matchAll(condition)].map(([, key = '', ...values]) => ({
    key,
    value: values.find((value) => value !== undefined) ?? '',
  }));
export const without = (text: string, keys: string[]): string =>
  text.replace(condition, (whole, key: string) => (keys.includes(key) ? '' : whole)).trim();

/** A filter has no way to write a value with quotes of both kinds. */
export const canQuote = (value: string): boolean => !(value.includes('"') && value.includes("'"));

/** A value of a filter, in quotes when it needs them. */
export function word(value: string): string {
  if (!/[\s"']/.test(value)) return value;
  return value.includes('"') ? `'${value}'` : `"${value}"`;
}

/** The list of executions that match. A workspace that the filter cannot name stands beside it. `more`: beside the filter. */
export function where(
  { workspace, ...others }: Record<string, string>,
  more: Record<string, string | undefined> = {},
): string {
  const isBeside = workspace !== undefined && !canQuote(workspace);
  const conditions = workspace === undefined || isBeside ? others : { workspace, ...others };
  return to('executions', null, {
    where: Object.entries(conditions)
      .map(([key, value]) => `${key}=${word(value)}`)
      .join(' '),
    workspace: isBeside ? workspace : null,
    ...more,
  });
}
