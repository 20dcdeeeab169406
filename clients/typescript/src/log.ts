/** Lines of ctx.log(). */

import { format } from 'node:util';

/** The values as console.log() writes them. It does not throw: a value may have a method for it that does. */
export function lineOf(values: readonly unknown[]): string {
  try {
    return format(...values);
  } catch {
    return 'a value that has no text';
  }
}
