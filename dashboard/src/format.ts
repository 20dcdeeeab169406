// Numbers, durations and times as texts.
import { signal } from '@preact/signals';

export type TimeFormat = 'relative' | 'local' | 'utc';

/** How far the clock of the server is ahead of that of the browser (ms). Its answers have whole seconds, so less than some is 0. */
let ahead = 0;
const NOTED_MS = 2000;

/** The clock of the server, as the page knows it; it moves, so that ages grow while nothing is asked. */
export const now = signal(Date.now());
const move = () => {
  now.value = Date.now() + ahead;
};
setInterval(() => {
  if (!document.hidden) move();
}, 1000);

/** `date`: the field Date of an answer that has just come. */
export function noteServerTime(date: string | null): void {
  const found = Date.parse(date ?? '') + 500 - Date.now();
  if (Number.isNaN(found) || Math.abs(found - ahead) < NOTED_MS) return;
  ahead = Math.abs(found) < NOTED_MS ? 0 : found;
  move();
}

/** The seconds since a moment of the browser's own clock. */
export const secondsSince = (moment: number): number => (now.value - ahead - moment) / 1000;

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

/** Ages change while they are read: one unit, and no part of a second. */
export const coarse = (seconds: number): string =>
  seconds < 1 ? duration(seconds) : duration(Math.floor(seconds)).replace(/^(\d+)(?:\.\d)? (\w+).*/, '$1 $2');

export const age = (at: string): string => ago((now.value - Date.parse(at)) / 1000);

export function ago(past: number): string {
  if (past < -1) return `in ${coarse(-past)}`;
  return past < 1 ? 'now' : `${coarse(past)} ago`;
}

export function absolute(at: string, format: TimeFormat): string {
  if (format === 'utc') return at.replace('T', ' ').replace(/\.(\d{3})\d*Z/, '.$1 UTC');
  return new Date(at).toLocaleString(undefined, {
    year: 'numeric',
    month: 'short',
    day: 'numeric',
    hour: '2-digit',
    minute: '2-digit',
    second: '2-digit',
    timeZoneName: 'short',
  });
}

export const count = (value: number): string => value.toLocaleString('en');

/** A number for each second: three digits are enough for a look. */
export const rate = (value: number): string => `${value.toLocaleString('en', { maximumSignificantDigits: 3 })}/s`;

/** The beginning of an id names it to a reader; its whole is in the title and in every link. */
export const short = (id: string): string => `${id.slice(0, 8)}…${id.slice(-4)}`;
