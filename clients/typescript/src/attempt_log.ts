/**
 * The log of an attempt: what a function writes to stdout and stderr of the process, for `weir logs`.
 *
 * 1. A started worker puts functions in the place of `process.stdout.write` and `process.stderr.write`, which all methods
 *    of `console` call. Each of them does the work of the original, too.
 * 2. An AsyncLocalStorage has the log of the function that runs: its promises, timers and callbacks inherit it.
 * 3. A log passes whole lines with their stream to weir, which hides the secrets in them. A partial line waits for its end.
 *
 * Nothing here may fail or slow down a function.
 */

import { AsyncLocalStorage } from 'node:async_hooks';
import { StringDecoder } from 'node:string_decoder';
import { stripVTControlCharacters } from 'node:util';

/** enum weir_stream of weir/handler.h */
export const STREAM_LOG = 0;
export const STREAM_STDOUT = 1;
export const STREAM_STDERR = 2;

/** Of a partial line. A part of a longer line could end within a secret, which weir could then not hide. */
export const LINE_CHARACTERS_MAX = 256 * 1024;
export const NOTE = '(weir left out a line that is too long for the log)\n';

class StreamLines {
  #decoder: StringDecoder | undefined;
  #partial = '';
  #isTooLong = false;

  constructor(
    readonly stream: number,
    readonly log: AttemptLog,
  ) {}

  write(chunk: string | Uint8Array): void {
    const text = typeof chunk === 'string' ? chunk : this.#decode(chunk);
    const end = text.lastIndexOf('\n') + 1;
    if (end > 0) {
      this.#endLine(text.slice(0, end));
    }
    if (this.#isTooLong || end === text.length) {
      return;
    }
    this.#partial += text.slice(end);
    if (this.#partial.length > LINE_CHARACTERS_MAX) {
      this.#partial = '';
      this.#isTooLong = true;
    }
  }

  close(): void {
    this.write(this.#decoder?.end() ?? '');
    if (this.#partial !== '' || this.#isTooLong) {
      this.#endLine('\n');
    }
  }

  #decode(chunk: Uint8Array): string {
    this.#decoder ??= new StringDecoder('utf8');
    return this.#decoder.write(Buffer.from(chunk));
  }

  /** `text` begins with the end of the partial line, and ends with a line. */
  #endLine(text: string): void {
    const lines = this.#isTooLong ? NOTE + text.slice(text.indexOf('\n') + 1) : this.#partial + text;
    this.#partial = '';
    this.#isTooLong = false;
    this.log.pass(lines, this.stream);
  }
}

/** The log of one call, as the base of what else the worker knows of it. After close() it takes nothing. */
export abstract class AttemptLog {
  /** Made when something is written: most functions write nothing. */
  #stdout: StreamLines | undefined;
  #stderr: StreamLines | undefined;
  #isOpen = true;

  /** Takes whole lines. */
  abstract pass(text: string, stream: number): void;

  /** Never throws. */
  write(stream: number, chunk: unknown, encoding: unknown): void {
    if (!this.#isOpen) {
      return;
    }
    try {
      const isBytes = chunk instanceof Uint8Array;
      const isText = typeof encoding !== 'string' || /^utf-?8$/i.test(encoding);
      const text = isBytes || isText ? (chunk as string | Uint8Array) : Buffer.from(String(chunk), encoding as 'utf8');
      this.#lines(stream).write(text);
    } catch {
      // the original reports what is wrong with the chunk
    }
  }

  close(): void {
    if (this.#isOpen) {
      this.#isOpen = false;
      this.#stdout?.close();
      this.#stderr?.close();
    }
  }

  #lines(stream: number): StreamLines {
    if (stream === STREAM_STDOUT) {
      this.#stdout ??= new StreamLines(STREAM_STDOUT, this);
      return this.#stdout;
    }
    this.#stderr ??= new StreamLines(STREAM_STDERR, this);
    return this.#stderr;
  }
}

const current = new AsyncLocalStorage<AttemptLog>();

/**
 * Returns `act(...values)`, with what it, and all that it starts, writes to stdout and stderr in the log. The values save the
 * caller a closure.
 */
export function runInLog<Values extends unknown[], Value>(
  log: AttemptLog,
  act: (...values: Values) => Value,
  ...values: Values
): Value {
  return current.run(log, act, ...values);
}

type Write = NodeJS.WriteStream['write'];

let users = 0;
let putBack: (() => void)[] = [];

/** Returns the function that undoes it. */
function replaceWrite(output: NodeJS.WriteStream, stream: number): () => void {
  const original = output.write;
  const write = function (this: NodeJS.WriteStream, ...values: Parameters<Write>): boolean {
    const [chunk, encoding] = values as unknown[];
    const log = current.getStore();
    if (log !== undefined) {
      // console.log() of objects has colours on a terminal
      const isColoured = output.isTTY && typeof chunk === 'string';
      log.write(stream, isColoured ? stripVTControlCharacters(chunk) : chunk, encoding);
    }
    return original.apply(this, values);
  } as Write;
  output.write = write;
  return () => {
    if (output.write === write) {
      output.write = original;
    }
  };
}

/** For a worker that starts. Each call needs one detach(). */
export function attach(): void {
  if (users++ === 0) {
    putBack = [replaceWrite(process.stdout, STREAM_STDOUT), replaceWrite(process.stderr, STREAM_STDERR)];
  }
}

/** Puts the originals back, unless another worker runs, or the program has put others there. */
export function detach(): void {
  if (--users === 0) {
    for (const act of putBack) {
      act();
    }
    putBack = [];
  }
}
