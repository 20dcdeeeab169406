// States and slots: they need neither the address of a page nor the choices of its user, so the box for other sites has them, too.
import { texts } from '../texts.ts';

const kinds: Record<string, string> = {
  PENDING: 'wait',
  WAITING: 'wait',
  CLAIMED: 'start',
  DISPATCHED: 'run',
  RUNNING: 'run',
  COMPLETED: 'good',
  FAILED: 'bad',
  CANCELLED: 'off',
  alive: 'good',
  live: 'good',
  enabled: 'good',
  dead: 'bad',
  expired: 'bad',
  revoked: 'off',
  stopped: 'off',
  disabled: 'off',
  paused: 'hold',
  draining: 'hold',
  stopping: 'hold',
  drained: 'hold',
  INTERRUPTED: 'off',
  full: 'wait',
  held: 'run',
  free: 'off',
  idle: 'off',
  open: 'run',
};

/** Each kind has a shape of its own, so that it can be read without its colour. */
const shapes: Record<string, string> = {
  wait: 'M8 2.5a5.5 5.5 0 1 0 0 11 5.5 5.5 0 0 0 0-11zM8 5v3.2l2 1.3',
  start: 'M8 2.5a5.5 5.5 0 0 1 0 11M8 2.5a5.5 5.5 0 0 0 0 11',
  run: 'M5 3.5l7 4.5-7 4.5z',
  good: 'M3 8.5l3.2 3.2L13 5',
  bad: 'M4 4l8 8M12 4l-8 8',
  off: 'M3.5 8h9',
  hold: 'M5.5 3.5v9M10.5 3.5v9',
};

export function Icon({ kind }: { kind: string }) {
  const isFilled = kind === 'run';
  return (
    <svg class="icon" viewBox="0 0 16 16" aria-hidden="true">
      <path
        d={shapes[kind] ?? shapes.off}
        fill={isFilled ? 'currentColor' : 'none'}
        stroke="currentColor"
        stroke-width="1.8"
        stroke-linecap="round"
        stroke-linejoin="round"
      />
    </svg>
  );
}

export function State({ state }: { state: string }) {
  const kind = kinds[state] ?? 'off';
  return (
    <span class={`state is-${kind}`} title={state}>
      <Icon kind={kind} />
      {texts.state[state] ?? state}
    </span>
  );
}

/** Slots as cells, the gates of the weir: filled ones are used. Many slots are one bar. */
export function Slots({ used, most, isPaused }: { used: number; most: number; isPaused?: boolean }) {
  const label = used > most ? texts.slots.over(used, most) : texts.slots.label(used, most);
  const shown = Math.max(used, most);
  return (
    <span class={`slots ${isPaused ? 'is-held' : ''} ${used >= most ? 'is-full' : ''}`} title={label}>
      {shown <= 20 ? (
        <span class="gates" aria-hidden="true">
          {Array.from({ length: shown }, (_, at) => (
            <i key={at} class={at < used ? (at < most ? 'used' : 'over') : ''} />
          ))}
        </span>
      ) : (
        <span class="bar" aria-hidden="true">
          <i style={{ width: `${Math.min(100, (used / most) * 100)}%` }} />
        </span>
      )}
      <span class="number">
        {used}/{most}
      </span>
    </span>
  );
}
