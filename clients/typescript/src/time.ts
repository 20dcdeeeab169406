/** Durations and moments as the library counts them: microseconds. */

import { Misuse } from './errors';

/** Seconds as a number, or text such as "10s" or "1h30m" (us, ms, s, m, h, d). */
export type Duration = number | string;

const UNITS: Record<string, number> = { us: 1, ms: 1e3, s: 1e6, m: 6e7, h: 3.6e9, d: 8.64e10 };

export function microseconds(duration: Duration): number {
  if (typeof duration === 'number' && Number.isFinite(duration) && duration >= 0) {
    return Math.round(duration * 1e6);
  }
  if (typeof duration === 'string' && /^(\d+(\.\d+)?(us|ms|s|m|h|d))+$/.test(duration)) {
    let sum = 0;
    for (const [, number, unit] of duration.matchAll(/(\d+(?:\.\d+)?)(us|ms|s|m|h|d)/g)) {
      sum += Number(number) * (UNITS[unit as string] as number);
    }
    return Math.round(sum);
  }
  throw new Misuse(`${JSON.stringify(duration)} is no duration`, {
    hint: 'give seconds, or text such as "10s" or "1h30m"',
  });
}

/** As a definition spells it. */
export function definitionText(duration: Duration): string {
  return `${Math.floor(microseconds(duration) / 1000)}ms`;
}

/** Microseconds since 1970; 0 = none. `name` is that of the option. */
export function timeOf(name: string, time: Date | undefined): number {
  if (time === undefined) {
    return 0;
  }
  if (!(time instanceof Date) || Number.isNaN(time.getTime())) {
    throw new Misuse(`${name} is no valid Date`, { hint: 'give a Date, for example new Date(Date.now() + 60_000)' });
  }
  return time.getTime() * 1000;
}

/** Microseconds since 1970; 0 = now. */
export function moment(runAt: Date | undefined, delay: Duration | undefined): number {
  if (runAt !== undefined && delay !== undefined) {
    throw new Misuse('an execution has either runAt or delay', { hint: 'remove one of them' });
  }
  if (delay !== undefined) {
    return Date.now() * 1000 + microseconds(delay);
  }
  return timeOf('runAt', runAt);
}
