// The box: slots, running and waiting executions, each with its reason. It asks again every five seconds while it is shown.
import { useEffect, useState } from 'preact/hooks';
import { absolute, age, ago, count, secondsSince, short } from '../format.ts';
import type { Execution, Page } from '../model.ts';
import { Slots, State } from '../parts/state.tsx';
import { texts } from '../texts.ts';
import { checkToken, Refusal, ROWS_MOST, readView, readWhy, themeOf, tokenOf, type View, workspaceOf } from './read.ts';

const BETWEEN_MS = 5000;
/** A read is repeated at the earliest after so many times its own duration: many boxes must not keep a node busy. */
const REST = 20;
const REST_LONGEST_MS = 60_000;

interface Shown {
  view: View | null;
  at: number;
  refusal: Refusal | null;
}
const nothing: Shown = { view: null, at: 0, refusal: null };

/** Calls `read` until it answers true, while the page is shown, with a rest in between. The answer ends that. */
function repeat(read: (signal: AbortSignal) => Promise<boolean>): () => void {
  const controller = new AbortController();
  let timer: ReturnType<typeof setTimeout> | undefined;
  let isBusy = false;
  let isDone = false;
  const turn = async () => {
    clearTimeout(timer);
    if (isBusy || isDone || document.hidden) return;
    isBusy = true;
    const began = Date.now();
    isDone = await read(controller.signal);
    isBusy = false;
    const rest = Math.min(REST_LONGEST_MS, Math.max(BETWEEN_MS, REST * (Date.now() - began)));
    if (!controller.signal.aborted) timer = setTimeout(turn, rest);
  };
  document.addEventListener('visibilitychange', turn);
  void turn();
  return () => {
    document.removeEventListener('visibilitychange', turn);
    clearTimeout(timer);
    controller.abort();
  };
}

function useView(workspace: string, token: string): Shown {
  const [shown, setShown] = useState<Shown>(nothing);
  useEffect(() => {
    let isChecked = false;
    setShown(nothing);
    return repeat(async (signal) => {
      try {
        if (!isChecked) await checkToken(workspace, token, signal);
        isChecked = true;
        const view = await readView(workspace, token, signal);
        if (!signal.aborted) setShown({ view, at: Date.now(), refusal: null });
        return false;
      } catch (error) {
        const refusal = error instanceof Refusal ? error : new Refusal(texts.embed.unreachable, false);
        if (!signal.aborted) setShown((before) => (refusal.isFinal ? { ...nothing, refusal } : { ...before, refusal }));
        return refusal.isFinal;
      }
    });
  }, [workspace, token]);
  return shown;
}

/** The whole reason, which is read only of a row that is open. */
function WholeWhy({ id, token }: { id: string; token: string }) {
  const [because, setBecause] = useState(texts.live.loading);
  useEffect(
    () =>
      repeat(async (signal) => {
        try {
          const why = await readWhy(id, token, signal);
          if (!signal.aborted) setBecause(why.error ?? why.because);
        } catch (error) {
          if (!signal.aborted) setBecause(error instanceof Refusal ? error.message : texts.embed.unreachable);
        }
        return false;
      }),
    [id, token],
  );
  return <p class="because">{because}</p>;
}

function Row({ row, token }: { row: Execution; token: string }) {
  const [isOpen, setOpen] = useState(false);
  const reason = row.pending_reason ?? row.waiting_for;
  const at = row.dispatched_at ?? row.claimed_at ?? row.created_at;
  return (
    <li>
      <details onToggle={(event) => setOpen(event.currentTarget.open)}>
        <summary>
          <span class="first">
            <State state={row.status} /> <b>{row.workflow ?? texts.none}</b>{' '}
            <time class="quiet" dateTime={at} title={absolute(at, 'local')}>
              {age(at)}
            </time>
          </span>
          {reason && <span class="reason">{texts.reason[reason] ?? reason}</span>}
        </summary>
        {isOpen && <WholeWhy id={row.id} token={token} />}
        <p class="quiet small">
          <code title={row.id}>{short(row.id)}</code>
          {row.business_key && <span> · {row.business_key}</span>}
        </p>
      </details>
    </li>
  );
}

function Rows({ title, none, page, token }: { title: string; none: string; page: Page<Execution>; token: string }) {
  return (
    <section>
      <h2>{title}</h2>
      {page.items.length === 0 && <p class="quiet">{page.next_cursor === null ? none : texts.embed.noneYet}</p>}
      <ul>
        {page.items.map((row) => (
          <Row key={row.id} row={row} token={token} />
        ))}
      </ul>
      {page.next_cursor !== null && page.items.length > 0 && <p class="quiet small">{texts.embed.newest(ROWS_MOST)}</p>}
    </section>
  );
}

function Content({ view, token }: { view: View; token: string }) {
  const { workspace } = view;
  return (
    <>
      <dl>
        <div>
          <dt>{texts.column.slots}</dt>
          <dd>
            <Slots used={workspace.slots_used} most={workspace.slots_max} isPaused={workspace.paused} />
            {workspace.paused && <State state="paused" />}
          </dd>
        </div>
        <div>
          <dt>{texts.overview.pending}</dt>
          <dd>{count(workspace.pending)}</dd>
        </div>
        <div>
          <dt>{texts.overview.waiting}</dt>
          <dd>{count(workspace.waiting)}</dd>
        </div>
      </dl>
      <Rows title={texts.workspace.running} none={texts.workspace.noneRun} page={view.running} token={token} />
      <Rows title={texts.embed.waits} none={texts.workspace.noneWait} page={view.waiting} token={token} />
    </>
  );
}

export function Box() {
  const [hash, setHash] = useState(location.hash);
  const workspace = workspaceOf(location.pathname);
  const { view, at, refusal } = useView(workspace, tokenOf(hash));
  const theme = themeOf(hash);
  useEffect(() => {
    const take = () => setHash(location.hash);
    addEventListener('hashchange', take);
    document.title = `${workspace} · ${texts.product}`;
    return () => removeEventListener('hashchange', take);
  }, []);
  useEffect(() => {
    if (theme === 'light' || theme === 'dark') document.documentElement.dataset.theme = theme;
    else delete document.documentElement.dataset.theme;
  }, [theme]);
  return (
    <div class="box">
      <h1>{workspace}</h1>
      {refusal && (
        <p role="alert" class="is-bad">
          {refusal.message} {view && texts.live.offlineAge(ago(secondsSince(at)))}
        </p>
      )}
      {view ? <Content view={view} token={tokenOf(hash)} /> : !refusal && <p role="status">{texts.live.loading}</p>}
    </div>
  );
}
