/** The ends that a function may choose for its attempt by throwing. */

import { type Duration, microseconds } from './time';

/** Base of the two below. */
export class Outcome extends Error {
  readonly code: string;
  /** The text that goes on record; undefined: none was given. */
  readonly text: string | undefined;

  constructor(code: string, text?: string) {
    super(text ?? code);
    this.name = new.target.name;
    this.code = code;
    this.text = text;
  }
}

export interface RetryOptions {
  message?: string;
  /** The delay of the next run, in place of the policy's. */
  after?: Duration;
}

/** It did not work and may work later. The retry policy limits the runs. */
export class Retry extends Outcome {
  readonly delayUs: number;

  constructor(code: string, options: RetryOptions = {}) {
    super(code, options.message);
    this.delayUs = options.after === undefined ? -1 : microseconds(options.after);
  }
}

/** It did not work and never will: the execution fails at once. */
export class Fail extends Outcome {}

/** The execution was cancelled, timed out, or the worker stops. Thrown by `ctx.heartbeat()`; the reason of `ctx.signal`. */
export class Cancelled extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'Cancelled';
  }
}
