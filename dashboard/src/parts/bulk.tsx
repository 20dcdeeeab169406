// An act on all executions that match: it counts first, asks, takes a reason, shows how far it is, and can be stopped. It goes on
// in the node when the dialog is closed; a mark in the header leads back to it.
import { effect, signal } from '@preact/signals';
import { useEffect, useRef, useState } from 'preact/hooks';
import { ask, may, type Problem, session, toProblem } from '../api.ts';
import { readAgain } from '../live.ts';
import type { BulkJob } from '../model.ts';
import { texts } from '../texts.ts';
import { ProblemBox } from './basics.tsx';
import { closeDialog, DialogTitle, openDialog } from './dialog.tsx';

const BETWEEN_MS = 300;
/** After so many polls in a row without an answer about the act the page asks no more by itself: about a minute. */
const LOST_MOST = 20;
const LOST_MS = 3000;
type Action = 'cancel' | 'retry' | 'release';

interface Begun {
  action: Action;
  /** null: another page began it. */
  filter: string | null;
  job: BulkJob;
  lost: number;
  problem: Problem | null;
}

/** The act that this page has begun last, or one that ran when the page was opened. */
const begun = signal<Begun | null>(null);

function note(id: string, change: Partial<Begun>): void {
  if (begun.value?.job.id === id) begun.value = { ...begun.value, ...change };
}

/** Polls until the act has ended. Behind one address there may be several nodes; the one that runs the act alone knows it. */
async function follow(id: string): Promise<void> {
  for (;;) {
    const lost = begun.value?.lost ?? 0;
    await new Promise((resolve) =>
      setTimeout(resolve, lost === 0 ? BETWEEN_MS : Math.min(LOST_MS, BETWEEN_MS * 2 ** lost)),
    );
    if (begun.value?.job.id !== id || begun.value.job.state !== 'running') return;
    try {
      const job = await ask<BulkJob>(`v1/bulk/${id}`);
      note(id, { job, lost: 0, problem: null });
      if (job.state !== 'running') readAgain();
    } catch (error) {
      note(id, { lost: lost + 1, problem: toProblem(error) });
      if (lost + 1 >= LOST_MOST) return;
    }
  }
}

/** After a reload, or in another tab: an act that runs on the node that answers. */
async function findRunning(): Promise<void> {
  const { items } = await ask<{ items: BulkJob[] }>('v1/bulk');
  const job = items.find((item) => item.state === 'running');
  if (job === undefined || begun.value !== null) return;
  begun.value = { action: job.act as Action, filter: null, job, lost: 0, problem: null };
  void follow(job.id);
}
effect(() => {
  if (!session.value) begun.value = null;
  // Without it the page has no mark of the act, and nothing else is missing.
  else if (may('operate')) findRunning().catch(() => undefined);
});

function followAgain(id: string): void {
  note(id, { lost: 0, problem: null });
  void follow(id);
}

async function stop(id: string): Promise<void> {
  try {
    note(id, { job: await ask<BulkJob>(`v1/bulk/${id}`, { method: 'DELETE' }), problem: null });
    readAgain();
  } catch (error) {
    note(id, { problem: toProblem(error) });
  }
}

function Progress({ action, filter, job, lost, problem }: Begun) {
  const isRunning = job.state === 'running';
  const isGivenUp = lost >= LOST_MOST;
  const word = job.state === 'stopped' ? texts.act.stopped : job.state === 'done' ? texts.act.done : texts.act.working;
  return (
    <form onSubmit={(event) => event.preventDefault()}>
      <DialogTitle>{texts.act.bulkTitle(texts.act[action])}</DialogTitle>
      {filter !== null && (
        <p>
          <code>{filter || texts.executions.all}</code>
        </p>
      )}
      <div role="status">
        <progress
          max={Math.max(1, job.matched)}
          value={job.changed + job.requested + job.refused}
          aria-label={texts.act[action]}
        />
        <p>
          {word}
          {': '}
          {texts.act.bulkProgress(job.changed + job.requested, job.matched, job.refused)}
        </p>
        {job.first_refusal && <p class="quiet">{job.first_refusal.detail}</p>}
        {job.error && <p class="quiet">{job.error.detail}</p>}
        {isRunning && lost > 0 && (
          <p class="is-bad">
            {isGivenUp
              ? texts.act.bulkGone
              : problem?.status === 404
                ? texts.act.bulkElsewhere(job.node ?? '')
                : texts.act.bulkLost}
          </p>
        )}
      </div>
      {problem && (lost === 0 || isGivenUp) && <ProblemBox problem={problem} />}
      <div class="buttons">
        <button type="button" onClick={closeDialog}>
          {isRunning ? texts.act.closeRunning : texts.act.close}
        </button>
        {isRunning && isGivenUp && (
          <button type="button" onClick={() => followAgain(job.id)}>
            {texts.live.retry}
          </button>
        )}
        {isRunning && (
          <button type="button" onClick={() => void stop(job.id)}>
            {texts.act.stop}
          </button>
        )}
      </div>
    </form>
  );
}

function Question({ action, filter }: { action: Action; filter: string }) {
  const [matched, setMatched] = useState<BulkJob | null>(null);
  const [problem, setProblem] = useState<Problem | null>(null);
  const [isBusy, setBusy] = useState(false);
  const isSent = useRef(false);
  const name = texts.act[action];

  useEffect(() => {
    ask<BulkJob>('v1/bulk', { method: 'POST', body: { action, filter, dry_run: true }, isDry: true }).then(
      setMatched,
      (error) => setProblem(toProblem(error)),
    );
  }, [action, filter]);

  const reason = useRef<HTMLInputElement>(null);
  useEffect(() => reason.current?.focus(), [matched]);

  const begin = async (event: SubmitEvent) => {
    event.preventDefault();
    if (isSent.current || matched === null) return;
    isSent.current = true;
    setBusy(true);
    setProblem(null);
    const form = new FormData(event.currentTarget as HTMLFormElement);
    const given = String(form.get('reason') ?? '');
    const body = {
      action,
      filter,
      expect: matched.matched,
      ...(given ? { reason: given } : {}),
      ...(form.has('keep_finished') ? { keep_finished: true } : {}),
    };
    try {
      const job = await ask<BulkJob>('v1/bulk', { method: 'POST', body });
      begun.value = { action, filter, job, lost: 0, problem: null };
      if (job.state === 'running') void follow(job.id);
      else readAgain();
    } catch (error) {
      setProblem(toProblem(error));
    }
    isSent.current = false;
    setBusy(false);
  };
  const total = texts.executions.count(matched?.matched ?? 0, matched?.matched_is_exact ?? true);
  const isAsked = matched !== null && matched.matched > 0;
  return (
    <form onSubmit={begin}>
      <DialogTitle>{matched ? texts.act.bulkAsk(name, total) : texts.live.loading}</DialogTitle>
      <p>
        <code>{filter || texts.executions.all}</code>
      </p>
      {matched?.matched === 0 && <p>{texts.act.bulkNone}</p>}
      {isAsked && action === 'retry' && (
        <div class="choice">
          <label>
            <input type="checkbox" name="keep_finished" /> {texts.act.keepFinished}
          </label>
        </div>
      )}
      {isAsked && (
        <label class="field">
          <span>{texts.act.reason}</span>
          <input ref={reason} name="reason" maxLength={200} autoComplete="off" />
        </label>
      )}
      {problem && <ProblemBox problem={problem} />}
      <div class="buttons">
        <button type="button" onClick={closeDialog}>
          {texts.act.back}
        </button>
        {isAsked && (
          <button type="submit" class={action === 'cancel' ? 'grave' : 'main'} disabled={isBusy}>
            {isBusy ? texts.act.working : `${name} ${matched.matched.toLocaleString('en')}`}
          </button>
        )}
      </div>
    </form>
  );
}

/** The question, and after it the progress of the act that it has begun. `before`: the act of an earlier question. */
function Bulk({ action, filter, before }: { action: Action; filter: string; before: string | null }) {
  const now = begun.value;
  return now !== null && now.job.id !== before ? <Progress {...now} /> : <Question action={action} filter={filter} />;
}

export const bulk = (action: Action, filter: string): void =>
  openDialog(<Bulk action={action} filter={filter} before={begun.value?.job.id ?? null} />);

/** The progress of an act that is under way already. */
function Running() {
  const now = begun.value;
  return now === null ? null : <Progress {...now} />;
}

/** In the header while an act runs: how far it is, and the way back to its dialog. */
export function BulkMark() {
  const now = begun.value;
  if (now === null || now.job.state !== 'running') return null;
  const { action, job } = now;
  return (
    <button type="button" class="updates is-on" onClick={() => openDialog(<Running />)}>
      {texts.act.bulkMark(texts.act[action], job.changed + job.requested + job.refused, job.matched)}
    </button>
  );
}
