// Numbers, durations and times as texts.
import { signal } from '@preact/signals';

export type TimeFormat = 'relative' | 'local' | 'utc';

/** The clock of the page, so that ages grow while nothing is asked. */
export const now = signal(Date.now());
setInterval(() => {
  if (!document.hidden) now.value = Date.now();
}, 1000);

const units: [string, number][] = [
  ['d', 86400],
  ['h', 3600],
  ['min', 60],
  ['s', 1],
];

/** "340 ms", "4.2 s", "3 min", "5 h", "2 d". */
export function duration(seconds: number): string {
  if (seconds < 1) return `${Math.max(0, Math.round(seconds * 1000))} ms`;
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  for (const [unit, size] of units) {
    if (seconds >= size) {
      const whole = Math.floor(seconds / size);
      const next = units[units.findIndex(([name]) => name === unit) + 1];
      const rest = next && whole < 10 && unit !== 's' ? Math.floor((seconds % size) / next[1]) : 0;
      return rest > 0 && next ? `${whole} ${unit} ${rest} ${next[0]}` : `${whole} ${unit}`;
    }
  }
  return '0 s';
}

export const micros = (value: number): string => duration(value / 1e6);

export const seconds = (from: string, to: string | null): number =>
  ((to === null ? now.value : Date.parse(to)) - Date.parse(from)) / 1000;

export function age(at: string): string {
  const past = (now.value - Date.parse(at)) / 1000;
  if (past < -1) return `in ${duration(-past)}`;
  return past < 1 ? 'now' : `${duration(Math.floor(past)).replace(/\.\d/, '')} ago`;
}

export function absolute(at: string, format: TimeFormat): string {
  if (format === 'utc') return at.replace('T', ' ').replace(/\.(\d{3})\d*Z/, '.$1 UTC');
  return new Date(at).toLocaleString(undefined, { dateStyle: 'medium', timeStyle: 'medium' });
}

export const count = (value: number): string => value.toLocaleString('en');

/** The beginning of an id names it to a reader; its whole is in the title and in every link. */
export const short = (id: string): string => `${id.slice(0, 8)}…${id.slice(-4)}`;
