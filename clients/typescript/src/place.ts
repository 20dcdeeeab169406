/** The place of a workflow() call in the user's program, for messages. */

import { fileURLToPath } from 'node:url';

/** The file and line of the nearest caller outside of this package, as "tasks.js:12". */
export function placeOfCaller(): string {
  const before = Error.prepareStackTrace;
  const limit = Error.stackTraceLimit;
  const holder: { stack?: unknown } = {};
  try {
    Error.stackTraceLimit = 20;
    Error.prepareStackTrace = (_error, frames) => frames;
    Error.captureStackTrace(holder, placeOfCaller);
    const frames = holder.stack as NodeJS.CallSite[];
    const frame = frames.find((one) => one.getFileName() !== null && !one.getFileName()?.startsWith(__dirname));
    const file = frame?.getFileName();
    if (file === undefined || file === null) {
      return 'an unknown place';
    }
    return `${file.startsWith('file:') ? fileURLToPath(file) : file}:${frame?.getLineNumber()}`;
  } finally {
    Error.prepareStackTrace = before;
    Error.stackTraceLimit = limit;
  }
}
