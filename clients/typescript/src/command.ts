/** The command `weir`: `weir worker APP` runs functions, everything else is the program that comes with the package. */

import { type ChildProcess, spawn } from 'node:child_process';
import { type Dirent, existsSync, readdirSync, statSync } from 'node:fs';
import { createRequire } from 'node:module';
import { constants } from 'node:os';
import { join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';
import { DefinitionError, WeirError } from './errors';
import { FOLDER } from './native';
import { configure, type StoreEvent } from './store';
import { microseconds } from './time';
import { type Logger, Worker } from './worker';

const USAGE = `usage: weir worker APP... [OPTION...]

Runs the workflows of modules: ./tasks.js, or a package. The worker is a node of weir; nothing else needs to run.

  --store URL        sqlite:PATH, a path, postgres://... or https://... (default: WEIR_STORE, else ./weir.db)
  --concurrency N    executions at once in each process (default: 1000)
  --processes N      processes of this worker (default: 1); one that ends is started again
  --executor-group NAME  of the executions that it runs (default: "default")
  --name NAME        of the node (default: host name and process id)
  --grace DURATION   how long a stop awaits running functions (default: 25s)
  --lease DURATION   without a sign of life for this long the node counts as dead (default: 6s)
  --watch            for development: start again when a source file below this folder has changed
  -v, --verbose      log debug events of the store too
  -h, --help

example: npx weir worker ./tasks.js --store postgres://weir@db/app --concurrency 50
`;
const WATCH_MS = 250;
const RESTART_MS_FIRST = 500;
const RESTART_MS_MOST = 30_000;
/** Beyond the grace: a stopping process awaits aborted functions for 15 s. One that goes on has a blocked event loop. */
const KILL_MS = 20_000;
const GRACE = '25s';
/** A process that ends with this has a mistake in its program or options: starting it again does not mend it. */
const EXIT_MISTAKE = 2;
const SUPERVISOR = 'WEIR_WORKER_SUPERVISOR';
const SOURCE = /\.([cm]?[jt]s|json)$/;
const ENDINGS = ['', '.js', '.mjs', '.cjs', '.ts', '.mts', '/index.js'];

const OPTIONS = {
  store: { type: 'string' },
  concurrency: { type: 'string' },
  processes: { type: 'string' },
  'executor-group': { type: 'string' },
  name: { type: 'string' },
  grace: { type: 'string' },
  lease: { type: 'string' },
  watch: { type: 'boolean' },
  verbose: { type: 'boolean', short: 'v' },
  help: { type: 'boolean', short: 'h' },
} as const;

type Values = { [name in keyof typeof OPTIONS]?: (typeof OPTIONS)[name]['type'] extends 'string' ? string : boolean };

function log(level: string, message: string): void {
  process.stderr.write(`${new Date().toISOString()} ${level} ${message}\n`);
}

const logger: Logger = {
  debug: (message) => log('DEBUG', message),
  info: (message) => log('INFO', message),
  warn: (message) => log('WARN', message),
  error: (message) => log('ERROR', message),
};

const REPEAT_MS = 5_000;

function refuse(message: string): number {
  process.stderr.write(`weir worker: ${message}\n`);
  return EXIT_MISTAKE;
}

export async function main(words: string[]): Promise<void> {
  if (words[0] === 'worker' && words[1] !== 'list') {
    process.exitCode = await worker(words.slice(1));
    return;
  }
  runProgram(words);
}

/** The program of the package, in place of this process as far as that can be. */
function runProgram(words: string[]): void {
  const child = spawn(join(FOLDER, 'bin', 'weir'), words, { stdio: 'inherit' });
  process.on('SIGINT', () => undefined); // the terminal sends it to both
  process.on('SIGTERM', () => child.kill('SIGTERM'));
  child.on('error', (problem) => {
    process.stderr.write(`weir: the program of the package cannot be run: ${problem.message}; install the package anew\n`);
    process.exitCode = 1;
  });
  child.on('exit', (code, signal) => {
    process.exitCode = code ?? 128 + (signal === null ? 0 : constants.signals[signal]);
  });
}

function readNumber(text: string | undefined, name: string): number | undefined {
  if (text === undefined) {
    return undefined;
  }
  const number = Number(text);
  if (!Number.isInteger(number) || number < 1) {
    throw new DefinitionError(`--${name} ${text} is no number`, { hint: 'give 1 or more' });
  }
  return number;
}

async function worker(words: string[]): Promise<number> {
  const supervisor = process.env[SUPERVISOR];
  delete process.env[SUPERVISOR]; // a program that a function starts has another parent
  let values: Values;
  let apps: string[];
  try {
    const parsed = parseArgs({ args: words, options: OPTIONS, allowPositionals: true });
    values = parsed.values;
    apps = parsed.positionals;
  } catch (problem) {
    return refuse(`${(problem as Error).message}\n\n${USAGE}`);
  }
  if (values.help) {
    process.stdout.write(USAGE);
    return 0;
  }
  if (apps.length === 0) {
    return refuse(`no module is named: weir worker ./tasks.js\n\n${USAGE}`);
  }
  try {
    const processes = readNumber(values.processes, 'processes') ?? 1;
    if (processes > 1 && values.name !== undefined) {
      return refuse('--name is the name of one node: leave it out with --processes');
    }
    if ((processes > 1 || values.watch) && supervisor === undefined) {
      return await supervise(words, processes, values);
    }
  } catch (problem) {
    return refuse((problem as Error).message);
  }
  // The end of the supervisor is the end of this process.
  return runWorker(apps, values, () => supervisor !== undefined && process.ppid !== Number(supervisor));
}

/**
 * Of a worker that could not start. A store that is away for a while is no mistake, also when it went in the middle of a
 * commit: a supervisor tries again.
 */
export function exitCodeOf(problem: unknown): number {
  return problem instanceof WeirError && ['transient', 'unknown'].includes(problem.kind) ? 1 : EXIT_MISTAKE;
}

/** With the execution that the event is about, and its error. */
export function lineOfEvent({ name, message, executionId, workspace, workflow, code, error }: StoreEvent): string {
  const about = [workflow, workspace, executionId].filter((one) => one !== null);
  const reason = [code, error].filter((one) => one !== null).join(': ');
  return `${name}: ${message}${about.length > 0 ? ` (${about.join(', ')})` : ''}${reason === '' ? '' : `: ${reason}`}`;
}

/** The same line again, as of a store that is away, is logged once in REPEAT_MS. */
export class Repeats {
  #line = '';
  #endMs = 0;
  #count = 0;

  /** What to log. */
  pass(line: string, nowMs: number): string | undefined {
    const isSame = line === this.#line;
    if (isSame && nowMs < this.#endMs) {
      this.#count++;
      return undefined;
    }
    const more = isSame && this.#count > 0 ? ` (and ${this.#count} more since the last line)` : '';
    this.#line = line;
    this.#endMs = nowMs + REPEAT_MS;
    this.#count = 0;
    return line + more;
  }
}

/** Runs in this process. */
async function runWorker(apps: string[], values: Values, mustEnd: () => boolean): Promise<number> {
  let made: Worker;
  const repeats = new Repeats();
  try {
    const concurrency = readNumber(values.concurrency, 'concurrency');
    const store = configure(values.store, {
      onEvent: (event) => {
        if (event.level === 'warn' || event.level === 'error' || values.verbose) {
          const line = repeats.pass(lineOfEvent(event), performance.now());
          if (line !== undefined) {
            logger[event.level](line);
          }
        }
      },
    });
    for (const app of apps) {
      await importApp(app);
    }
    made = new Worker({ store, logger, ...pick(values), ...(concurrency === undefined ? {} : { concurrency }) });
    handleStrayErrors(made);
    await made.start();
  } catch (problem) {
    // Of a module that cannot be loaded the stack names file and line.
    refuse(problem instanceof WeirError ? problem.message : ((problem as Error)?.stack ?? String(problem)));
    return exitCodeOf(problem);
  }
  try {
    return (await made.runStarted(mustEnd)) && strayErrors === 0 ? 0 : 1;
  } catch (problem) {
    logger.error(problem instanceof WeirError ? `the worker ends: ${problem.message}` : String(problem));
    return 1;
  } finally {
    // A function that does not end must not keep the process alive.
    setImmediate(() => process.exit());
  }
}

function pick(values: Values): { name?: string; executorGroup?: string; grace?: string; lease?: string } {
  const picked: Record<string, string> = {};
  for (const flag of ['name', 'executor-group', 'grace', 'lease'] as const) {
    const name = flag === 'executor-group' ? 'executorGroup' : flag;
    const value = values[flag];
    if (value !== undefined) {
      picked[name] = value;
    }
  }
  return picked;
}

let strayErrors = 0;

/**
 * A rejection that no function awaits belongs to no attempt: it is logged. After an exception outside of all promises the
 * state of the program is unknown: the worker stops gracefully and ends with 1.
 */
function handleStrayErrors(made: Worker): void {
  process.on('unhandledRejection', (reason) => {
    logger.error(`a promise was rejected and nothing awaited it: ${(reason as Error)?.stack ?? String(reason)}`);
  });
  process.on('uncaughtException', (problem) => {
    strayErrors++;
    logger.error(`an exception outside of all functions ends the worker: ${problem?.stack ?? String(problem)}`);
    made.requestStop();
  });
}

async function importApp(app: string): Promise<void> {
  const path = ENDINGS.map((ending) => resolve(app) + ending).find((name) => existsSync(name) && statSync(name).isFile());
  let found = path;
  if (found === undefined) {
    try {
      found = createRequire(`${process.cwd()}/`).resolve(app);
    } catch {
      const source = resolve(app).replace(/(\.[cm]?)js$/, '$1ts');
      throw new DefinitionError(`there is no module '${app}'`, {
        hint:
          source !== resolve(app) && existsSync(source)
            ? `compile ${source} with tsc`
            : `name a file or a package, seen from ${process.cwd()}`,
      });
    }
  }
  try {
    await import(pathToFileURL(found).href);
  } catch (problem) {
    if ((problem as NodeJS.ErrnoException)?.code === 'ERR_UNKNOWN_FILE_EXTENSION' && /\.[cm]?ts$/.test(found)) {
      throw new DefinitionError(`${found}: Node ${process.versions.node} runs no TypeScript`, {
        hint: 'compile it with tsc and name the .js file, or use Node 22.18 or later',
      });
    }
    throw problem;
  }
}

// --- several processes ---

interface Child {
  process: ChildProcess | undefined;
  pauseMs: number;
  dueMs: number;
}

/** Starts the processes, starts again those that end by themselves, and passes signals on. */
async function supervise(words: string[], processes: number, values: Values): Promise<number> {
  const isWatching = values.watch === true;
  const graceMs = microseconds(values.grace ?? GRACE) / 1000;
  const children: Child[] = Array.from({ length: processes }, () => ({ process: undefined, pauseMs: 0, dueMs: 0 }));
  const signals: NodeJS.Signals[] = [];
  process.on('SIGTERM', (name) => signals.push(name)).on('SIGINT', (name) => signals.push(name));
  let times = isWatching ? readTimes(process.cwd()) : '';
  while (signals.length === 0) {
    for (const child of children) {
      const code = child.process?.exitCode ?? null;
      if (code === EXIT_MISTAKE && !isWatching) {
        await end(children, ['SIGTERM'], graceMs);
        return EXIT_MISTAKE;
      }
      if (child.process !== undefined && hasEnded(child.process)) {
        child.pauseMs = Math.min(Math.max(2 * child.pauseMs, RESTART_MS_FIRST), RESTART_MS_MOST);
        // While a developer mends a mistake, the next change starts the process.
        child.dueMs = code === EXIT_MISTAKE ? Number.POSITIVE_INFINITY : performance.now() + child.pauseMs;
        logger.warn(`process ${child.process.pid} of the worker ended with ${code ?? child.process.signalCode}`);
        child.process = undefined;
      }
      if (child.process === undefined && performance.now() >= child.dueMs) {
        child.process = start(words);
      }
    }
    await sleep(WATCH_MS);
    const now = isWatching ? readTimes(process.cwd()) : '';
    if (now !== times) {
      times = now;
      logger.info('a source file has changed: the worker starts again');
      await end(children, ['SIGTERM'], graceMs);
      for (const child of children) {
        Object.assign(child, { process: undefined, pauseMs: 0, dueMs: 0 });
      }
    }
  }
  return (await end(children, signals, graceMs)) ? 0 : 1;
}

function start(words: string[]): ChildProcess {
  const environment = { ...process.env, [SUPERVISOR]: String(process.pid) };
  const program = process.argv[1] as string;
  return spawn(process.execPath, [...process.execArgv, program, 'worker', ...words], {
    stdio: 'inherit',
    env: environment,
  });
}

function hasEnded(child: ChildProcess): boolean {
  return child.exitCode !== null || child.signalCode !== null;
}

/** Passes signals on until all have ended. Whether they did so gracefully: one that a signal ended had not begun yet. */
async function end(children: Child[], signals: NodeJS.Signals[], graceMs: number): Promise<boolean> {
  const until = performance.now() + graceMs + KILL_MS;
  const processes = children.flatMap((child) => (child.process === undefined ? [] : [child.process]));
  for (let passed = 0; processes.some((child) => !hasEnded(child)); ) {
    for (; passed < signals.length; passed++) {
      for (const child of processes) {
        child.kill(signals[passed]);
      }
    }
    if (performance.now() > until) {
      for (const child of processes.filter((one) => !hasEnded(one))) {
        logger.error(`process ${child.pid} of the worker does not end: it is killed`);
        child.kill('SIGKILL');
      }
    }
    await sleep(WATCH_MS / 10);
  }
  return processes.every(
    (child) => child.exitCode === 0 || child.signalCode === 'SIGTERM' || child.signalCode === 'SIGINT',
  );
}

/** A folder may be removed while it is read. */
function listFolder(folder: string): Dirent[] {
  try {
    return readdirSync(folder, { withFileTypes: true });
  } catch {
    return [];
  }
}

/** The times of change of the sources below a folder, as one text. */
function readTimes(folder: string): string {
  const found: string[] = [];
  for (const entry of listFolder(folder)) {
    const path = join(folder, entry.name);
    if (entry.name.startsWith('.') || entry.name === 'node_modules') {
      continue;
    }
    if (entry.isDirectory()) {
      found.push(readTimes(path));
    } else if (SOURCE.test(entry.name)) {
      found.push(`${path} ${statSync(path, { throwIfNoEntry: false })?.mtimeMs}`);
    }
  }
  return found.join('\n');
}
