/** Values as JSON text. JSON.stringify() drops or changes some values in silence; those are refused here. */

import { ParamsError } from './errors';

export class NotJson extends Error {}

/** The reason why JSON would lose the value, or undefined. */
function lostBecause(value: unknown): string | undefined {
  switch (typeof value) {
    case 'number':
      return Number.isFinite(value) ? undefined : `${value} is no number of JSON`;
    case 'bigint':
      return 'JSON has no BigInt: use a string';
    case 'function':
    case 'symbol':
      return `JSON has no ${typeof value}`;
    case 'object':
      if (value === null || isPlain(value)) {
        return undefined;
      }
      for (const kind of [Map, Set, WeakMap, WeakSet, Promise, RegExp, Error]) {
        if (value instanceof kind) {
          return `JSON has no ${kind.name}`;
        }
      }
      return undefined;
    default:
      return undefined;
  }
}

function isPlain(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === Array.prototype;
}

/** Throws NotJson. `undefined` as a property is left out; at the top it is null. */
export function dumpJson(value: unknown): string {
  if (value === undefined || value === null) {
    return 'null';
  }
  try {
    const text = JSON.stringify(value, (key, part: unknown) => {
      const reason = lostBecause(part);
      if (reason !== undefined) {
        throw new NotJson(key === '' ? reason : `${JSON.stringify(key)}: ${reason}`);
      }
      return part;
    });
    return text ?? 'null';
  } catch (problem) {
    throw problem instanceof NotJson ? problem : new NotJson(problem instanceof Error ? problem.message : String(problem));
  }
}

/** `workflow`: the one whose params they are, if it is known; the error names its place. */
export function dumpParams(params: unknown, workflow?: { name: string; place: string }): string {
  const [subject, where] = workflow === undefined ? ['', ''] : [`${workflow.name}: `, `; see ${workflow.place}`];
  if (typeof params !== 'object' || params === null || Array.isArray(params)) {
    throw new ParamsError(`${subject}params are no object`, { hint: `give an object, for example {order: 42}${where}` });
  }
  try {
    return dumpJson(params);
  } catch (problem) {
    throw new ParamsError(`${subject}the params are no JSON: ${(problem as Error).message}`, {
      hint: `give text, numbers, booleans, null, arrays and plain objects${where}`,
    });
  }
}
