/** The secrets that a workflow lists, as a function gets them. */

import { inspect } from 'node:util';
import { Misuse } from './errors';

/** A shorter value occurs everywhere. */
const HIDDEN_MIN = 4;

/**
 * An object of the values by name. A secret of another name throws, so that a misspelt name is no `undefined` in a request.
 * console.log() shows the names alone, and JSON has nothing of it.
 */
export function makeSecrets(
  names: readonly string[],
  read: (name: string) => string | null,
): Readonly<Record<string, string>> {
  return names.length === 0 ? noSecrets : collectSecrets(names, read);
}

function collectSecrets(names: readonly string[], read: (name: string) => string | null): Readonly<Record<string, string>> {
  const values: Record<string, string> = Object.create(null);
  for (const name of names) {
    const value = read(name);
    if (value !== null) {
      Object.defineProperty(values, name, { value });
    }
  }
  const shown = `<secrets ${Object.getOwnPropertyNames(values).join(', ')}>`;
  Object.defineProperty(values, inspect.custom, { value: () => shown });
  Object.preventExtensions(values);
  return new Proxy(values, {
    get(target, name) {
      // The language itself reads symbols and these two names.
      if (name in target || typeof name === 'symbol' || name === 'toJSON' || name === 'then') {
        return Reflect.get(target, name);
      }
      if (names.includes(name)) {
        throw new Misuse(`the secret '${name}' has no value here`, {
          hint: 'a server sends its workers none, and runInline() reads WEIR_SECRET_NAME of the environment',
        });
      }
      throw new Misuse(`the workflow has no secret '${name}'`, { hint: `write workflow({ ..., secrets: ['${name}'] })` });
    },
  });
}

/** One for all workflows without secrets, because a function cannot change it. */
const noSecrets = collectSecrets([], () => null);

/** As a worker would read it from its environment. */
export function secretOfEnvironment(name: string): string | null {
  return process.env[`WEIR_SECRET_${name.replace(/[^A-Za-z0-9]/g, '_').toUpperCase()}`] ?? null;
}

/** The text with *** in place of the values. */
export function hideSecrets(secrets: Readonly<Record<string, string>>, text: string): string {
  return Object.getOwnPropertyNames(secrets)
    .map((name) => secrets[name] as string)
    .filter((value) => value.length >= HIDDEN_MIN)
    .sort((one, other) => other.length - one.length)
    .reduce((hidden, value) => hidden.replaceAll(value, '***'), text);
}
