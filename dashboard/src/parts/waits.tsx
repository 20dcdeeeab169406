// The steps of an execution that wait, and the acts that end their waits. The node decides on each act: a decision that came too
// late, or that the actor may not take, is refused there, and the dialog shows the refusal.
import { Problem, segment } from '../api.ts';
import type { UnfinishedStep, Why } from '../model.ts';
import { texts } from '../texts.ts';
import { Time } from './basics.tsx';
import { ActButton } from './dialog.tsx';
import { State } from './state.tsx';

const APPROVE = 'approve:';
const CALLBACK = 'callback:';

type Wait = 'approval' | 'callback' | 'signal' | 'child' | 'time';

/** null: the step waits for nothing. */
function waitOf(step: UnfinishedStep): Wait | null {
  if (step.signal?.startsWith(APPROVE)) return 'approval';
  if (step.signal?.startsWith(CALLBACK)) return 'callback';
  if (step.signal !== null) return 'signal';
  if (step.children_count !== null) return 'child';
  return step.status === 'WAITING' ? 'time' : null;
}

/** A key of its own for each dialog, so that a repetition after a lost answer sends no second signal. `randomUUID` is missing
 * where the page has no TLS. */
function newKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(8));
  return `dashboard-${[...bytes].map((byte) => byte.toString(16).padStart(2, '0')).join('')}`;
}

function signalOf(name: string, form: FormData): unknown {
  const text = String(form.get('data') ?? '').trim();
  const key = String(form.get('key') ?? '').trim();
  const order = { name, ...(key === '' ? {} : { key }) };
  if (text === '') return order;
  try {
    return { ...order, data: JSON.parse(text) };
  } catch {
    throw new Problem(400, 'invalid_json', texts.waits.notJson, texts.waits.jsonHint, null);
  }
}

function decisionOf(step: string, form: FormData): unknown {
  const comment = String(form.get('comment') ?? '').trim();
  return comment === '' ? { step } : { step, comment };
}

function SignalFields() {
  return (
    <>
      <label class="field">
        <span>{texts.waits.data}</span>
        <textarea name="data" rows={4} spellcheck={false} />
      </label>
      <label class="field">
        <span>{texts.waits.key}</span>
        <input name="key" defaultValue={newKey()} autoComplete="off" maxLength={200} />
      </label>
    </>
  );
}

function StepActs({ id, step }: { id: string; step: UnfinishedStep }) {
  const path = (act: string) => `v1/executions/${segment(id)}/${act}`;
  const wait = waitOf(step);
  if (wait === 'signal') {
    const name = step.signal ?? '';
    return (
      <ActButton
        needs="enqueue"
        name={texts.act.signal}
        ask={texts.act.ask.signal(name)}
        method="POST"
        path={path('signal')}
        read={(form) => signalOf(name, form)}
      >
        <SignalFields />
      </ActButton>
    );
  }
  if (wait !== 'approval') return null;
  return (
    <>
      {(['approve', 'reject'] as const).map((act) => (
        <ActButton
          key={act}
          needs="enqueue"
          name={texts.act[act]}
          ask={texts.act.ask[act](step.step)}
          isGrave={act === 'reject'}
          method="POST"
          path={path(act)}
          read={(form) => decisionOf(step.step, form)}
        >
          {step.prompt !== null && <p class="prompt">{step.prompt}</p>}
          <label class="field">
            <span>{texts.waits.comment}</span>
            <input name="comment" autoComplete="off" maxLength={500} />
          </label>
        </ActButton>
      ))}
    </>
  );
}

/** A wake ends all waits of a kind. Those for a signal or a report end so only if they have a timeout. */
function Wake({ id, steps }: { id: string; steps: UnfinishedStep[] }) {
  const kinds = [
    ...(steps.some((step) => waitOf(step) === 'time') ? [''] : []),
    ...(['signal', 'callback'] as const).filter((kind) =>
      steps.some((step) => waitOf(step) === kind && step.due_at !== null),
    ),
  ];
  if (kinds.length === 0) return null;
  return (
    <ActButton
      needs="operate"
      name={texts.act.wake}
      ask={texts.act.ask.wake}
      method="POST"
      path={`v1/executions/${segment(id)}/wake`}
      read={(form) => (form.get('kind') ? { waiting_for: form.get('kind') } : {})}
    >
      <label class="field">
        <span>{texts.waits.kind}</span>
        <select name="kind">
          {kinds.map((kind) => (
            <option key={kind} value={kind}>
              {texts.waits.kinds[kind]}
            </option>
          ))}
        </select>
      </label>
    </ActButton>
  );
}

/** Nothing for an execution without a step that waits. */
export function Waits({ why }: { why: Why }) {
  const steps = (why.unfinished_steps ?? []).filter((step) => waitOf(step) !== null);
  if (steps.length === 0) return null;
  return (
    <>
      <h3>{texts.waits.title}</h3>
      <ul class="waits">
        {steps.map((step) => (
          <li key={step.step}>
            <div>
              <State state={step.status} /> <strong>{step.step}</strong>{' '}
              <span class="quiet">
                {waitOf(step) === 'time' && step.error_code !== null
                  ? texts.waits.failed(step.attempt, step.attempts_max, step.error ?? step.error_code)
                  : texts.waits.of(waitOf(step) ?? '', step.signal ?? '')}
              </span>
              {step.due_at && (
                <span class="quiet">
                  {' · '}
                  {texts.execution.due} <Time at={step.due_at} />
                </span>
              )}
              {step.prompt !== null && <p class="prompt">{step.prompt}</p>}
              {step.approvers !== null && <p class="quiet">{texts.waits.approvers(step.approvers)}</p>}
            </div>
            <div class="buttons">
              <StepActs id={why.id} step={step} />
            </div>
          </li>
        ))}
      </ul>
      <div class="buttons">
        <Wake id={why.id} steps={steps} />
      </div>
    </>
  );
}
