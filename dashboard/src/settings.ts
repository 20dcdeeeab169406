// The choices of the user for this browser.
import { effect, signal } from '@preact/signals';
import type { TimeFormat } from './format.ts';

function kept<T extends string>(key: string, values: readonly T[], otherwise: T) {
  let found: string | null = null;
  try {
    found = localStorage.getItem(key);
  } catch {
    // Storage is closed: the choice lasts as long as the page.
  }
  const chosen = signal<T>(values.find((value) => value === found) ?? otherwise);
  effect(() => {
    try {
      localStorage.setItem(key, chosen.value);
    } catch {
      // As above.
    }
  });
  return chosen;
}

export type Theme = 'system' | 'light' | 'dark';
export const themes: readonly Theme[] = ['system', 'light', 'dark'];
export const timeFormats: readonly TimeFormat[] = ['relative', 'local', 'utc'];

export const theme = kept<Theme>('weir.theme', themes, 'system');
export const timeFormat = kept<TimeFormat>('weir.times', timeFormats, 'relative');

effect(() => {
  if (theme.value === 'system') delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme.value;
});
