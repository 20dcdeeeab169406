// An act on all executions that match: it counts first, asks, takes a reason, shows how far it is, and can be stopped.
import { useEffect, useRef, useState } from 'preact/hooks';
import { ask, Problem } from '../api.ts';
import { readAgain } from '../live.ts';
import type { BulkJob } from '../model.ts';
import { texts } from '../texts.ts';
import { ProblemBox } from './basics.tsx';
import { closeDialog, DialogTitle, openDialog } from './dialog.tsx';

const BETWEEN_MS = 300;
type Action = 'cancel' | 'retry' | 'release';

function Bulk({ action, filter }: { action: Action; filter: string }) {
  const [matched, setMatched] = useState<BulkJob | null>(null);
  const [job, setJob] = useState<BulkJob | null>(null);
  const [problem, setProblem] = useState<Problem | null>(null);
  const name = texts.act[action];
  const fail = (error: unknown) =>
    setProblem(error instanceof Problem ? error : new Problem(0, 'unreadable', String(error), null, null));

  useEffect(() => {
    ask<BulkJob>('v1/bulk', { method: 'POST', body: { action, filter, dry_run: true } }).then(setMatched, fail);
  }, [action, filter]);

  const reason = useRef<HTMLInputElement>(null);
  useEffect(() => reason.current?.focus(), [matched]);

  const isRunning = job?.state === 'running';
  useEffect(() => {
    if (!job || !isRunning) {
      if (job) readAgain();
      return;
    }
    const timer = setTimeout(() => ask<BulkJob>(`v1/bulk/${job.id}`).then(setJob, fail), BETWEEN_MS);
    return () => clearTimeout(timer);
  }, [job, isRunning]);

  const begin = (event: SubmitEvent) => {
    event.preventDefault();
    const given = String(new FormData(event.currentTarget as HTMLFormElement).get('reason') ?? '');
    const body = { action, filter, expect: matched?.matched, ...(given ? { reason: given } : {}) };
    setProblem(null);
    ask<BulkJob>('v1/bulk', { method: 'POST', body }).then(setJob, fail);
  };
  const stop = () => job && ask<BulkJob>(`v1/bulk/${job.id}`, { method: 'DELETE' }).then(setJob, fail);
  const total = texts.executions.count(matched?.matched ?? 0, matched?.matched_is_exact ?? true);

  return (
    <form onSubmit={begin}>
      <DialogTitle>{matched ? texts.act.bulkAsk(name, total) : texts.live.loading}</DialogTitle>
      <p>
        <code>{filter || texts.executions.all}</code>
      </p>
      {matched?.matched === 0 && <p>{texts.act.bulkNone}</p>}
      {matched && matched.matched > 0 && !job && (
        <label class="field">
          <span>{texts.act.reason}</span>
          <input ref={reason} name="reason" maxLength={200} autoComplete="off" />
        </label>
      )}
      {job && (
        <div role="status">
          <progress max={Math.max(1, job.matched)} value={job.changed + job.refused} aria-label={name} />
          <p>
            {job.state === 'stopped' ? texts.act.stopped : job.state === 'done' ? texts.act.done : texts.act.working}
            {': '}
            {texts.act.bulkProgress(job.changed + job.requested, job.matched, job.refused)}
          </p>
          {job.first_refusal && <p class="quiet">{job.first_refusal.detail}</p>}
          {job.error && <p class="quiet">{job.error.detail}</p>}
        </div>
      )}
      {problem && <ProblemBox problem={problem} />}
      <div class="buttons">
        <button type="button" onClick={closeDialog}>
          {job ? texts.act.close : texts.act.back}
        </button>
        {isRunning && (
          <button type="button" onClick={stop}>
            {texts.act.stop}
          </button>
        )}
        {matched && matched.matched > 0 && !job && (
          <button type="submit" class={action === 'cancel' ? 'grave' : 'main'}>
            {name} {matched.matched.toLocaleString('en')}
          </button>
        )}
      </div>
    </form>
  );
}

export const bulk = (action: Action, filter: string): void => openDialog(<Bulk action={action} filter={filter} />);
