/** Conditions on executions, as lists and acts take them. */

import { Misuse } from './errors';
import type { ConditionRows } from './native';
import { timeOf } from './time';

/** In the order of the bits of WEIR_STATE_PENDING to WEIR_STATE_CANCELLED. */
const STATES = ['PENDING', 'CLAIMED', 'DISPATCHED', 'WAITING', 'COMPLETED', 'FAILED', 'CANCELLED'] as const;

export type ExecutionState = (typeof STATES)[number];

/** The conditions that an execution must meet, all of them. */
export interface Filter {
  workspace?: string;
  workflow?: string;
  executorGroup?: string;
  /** One or more of them. */
  states?: ExecutionState | ExecutionState[];
  /** `pending_reason`, as why() has it. */
  reason?: string;
  /** Of WAITING ones: sleep, retry, signal, callback, approval or child. */
  waitingFor?: string;
  errorCode?: string;
  key?: string;
  createdSince?: Date;
  createdBefore?: Date;
  finishedBefore?: Date;
  businessKey?: string;
  /** The first characters of the business key; not beside `businessKey`. */
  businessKeyPrefix?: string;
  /** It has all of them. */
  labels?: Record<string, string>;
}

const NAMES = [
  'workspace',
  'workflow',
  'executorGroup',
  'states',
  'reason',
  'waitingFor',
  'errorCode',
  'key',
  'createdSince',
  'createdBefore',
  'finishedBefore',
  'businessKey',
  'businessKeyPrefix',
  'labels',
];

function bitsOf(states: Filter['states']): number {
  let bits = 0;
  for (const state of Array.isArray(states) ? states : states === undefined ? [] : [states]) {
    const place = STATES.indexOf(state);
    if (place < 0) {
      throw new Misuse(`${state} is no state`, { hint: `the states are ${STATES.join(', ')}` });
    }
    bits |= 1 << place;
  }
  return bits;
}

/** A misspelt condition is refused: without it an act would take more executions than was meant. */
export function conditionRows(filter: Filter, id: string | null = null): ConditionRows {
  const odd = Object.keys(filter).find((name) => !NAMES.includes(name));
  if (odd !== undefined) {
    throw new Misuse(`${odd} is no condition`, { hint: `the conditions are ${NAMES.join(', ')}` });
  }
  return [
    [
      id,
      filter.workspace ?? null,
      filter.workflow ?? null,
      filter.executorGroup ?? null,
      filter.reason ?? null,
      filter.waitingFor ?? null,
      filter.errorCode ?? null,
      filter.key ?? null,
      bitsOf(filter.states),
      timeOf('createdSince', filter.createdSince),
      timeOf('createdBefore', filter.createdBefore),
      timeOf('finishedBefore', filter.finishedBefore),
      filter.businessKey ?? null,
      filter.businessKeyPrefix ?? null,
    ],
    ...Object.entries(filter.labels ?? {}),
  ];
}
