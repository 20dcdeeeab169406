// The frame of all pages: navigation, the state of the connection, the keys, and the sign-in.
import type { ComponentChildren } from 'preact';
import { useEffect, useErrorBoundary, useRef, useState } from 'preact/hooks';
import {
  connection,
  findProvider,
  findSession,
  hasAllWorkspaces,
  leftToken,
  may,
  Problem,
  session,
  sessionEnded,
  signIn,
  signOut,
  toProblem,
} from './api.ts';
import { ago, secondsSince } from './format.ts';
import { oldestShown, paused, readAgain } from './live.ts';
import { OneExecution } from './pages/execution.tsx';
import { Executions } from './pages/executions.tsx';
import { Overview } from './pages/overview.tsx';
import { Audit, Failures, Hooks, Locks, Nodes, Schedules, Settings, Tokens } from './pages/system.tsx';
import { OneWorkspace, Plans, Workspaces } from './pages/tenants.tsx';
import { WaitingExecutions } from './pages/waiting.tsx';
import { OneWorkflow, Workflows } from './pages/workflows.tsx';
import { Command, Copy, ProblemBox } from './parts/basics.tsx';
import { BulkMark } from './parts/bulk.tsx';
import { closeDialog, DialogHost, DialogTitle, openDialog } from './parts/dialog.tsx';
import { useScroll } from './parts/scroll.ts';
import { Icon } from './parts/state.tsx';
import { useWorkspaceNames } from './parts/suggest.ts';
import { go, keepView, place, restoreView, to } from './router.ts';
import { texts } from './texts.ts';

const OLD_S = 10;
const executionId = /^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$/i;
type PageName = keyof typeof texts.pages;

/** Those with a right need it for all that they show; the node enforces it, here they are only not offered. */
interface Entry {
  page: PageName;
  key?: string;
  needs?: 'all' | 'admin';
}
const menu: { title: string; entries: Entry[] }[] = [
  {
    title: texts.groups.work,
    entries: [
      { page: 'overview', key: 'o' },
      { page: 'executions', key: 'e' },
      { page: 'waiting', key: 'a' },
      { page: 'failures', key: 'f' },
      { page: 'workflows', key: 'd' },
      { page: 'schedules', key: 's' },
    ],
  },
  {
    title: texts.groups.tenants,
    entries: [
      { page: 'workspaces', key: 'w' },
      { page: 'plans', needs: 'all' },
    ],
  },
  {
    title: texts.groups.system,
    entries: [
      { page: 'nodes', key: 'n', needs: 'all' },
      { page: 'hooks', needs: 'all' },
      { page: 'locks', needs: 'all' },
      { page: 'tokens', needs: 'admin' },
      { page: 'audit', needs: 'admin' },
      { page: 'settings' },
    ],
  },
];
const parents: Partial<Record<string, PageName>> = {
  execution: 'executions',
  workspace: 'workspaces',
  workflow: 'workflows',
};

const isOffered = (entry: Entry): boolean =>
  entry.needs === undefined || (hasAllWorkspaces() && (entry.needs === 'all' || may('admin')));

function Content() {
  const { page, name } = place.value;
  if (name !== null) {
    if (page === 'execution') return <OneExecution key={name} id={name} />;
    if (page === 'workspace') return <OneWorkspace key={name} name={name} />;
    if (page === 'workflow') return <OneWorkflow key={name} name={name} />;
  }
  const pages: Record<string, () => ComponentChildren> = {
    overview: () => <Overview />,
    executions: () => <Executions />,
    waiting: () => <WaitingExecutions />,
    failures: () => <Failures />,
    workspaces: () => <Workspaces />,
    workflows: () => <Workflows />,
    nodes: () => <Nodes />,
    plans: () => <Plans />,
    schedules: () => <Schedules />,
    hooks: () => <Hooks />,
    locks: () => <Locks />,
    tokens: () => <Tokens />,
    audit: () => <Audit />,
    settings: () => <Settings />,
  };
  const shown = pages[page];
  return <>{shown ? shown() : <ProblemBox problem={new Problem(404, 'not_found', texts.problem.missing, null, null)} />}</>;
}

/** An answer that this page does not understand, as of a newer node, must not leave it empty. */
function Guarded({ children }: { children: ComponentChildren }) {
  const [error, reset] = useErrorBoundary();
  const address = place.value;
  useEffect(reset, [address]);
  return error ? <ProblemBox problem={toProblem(error)} /> : children;
}

function titleOf(): string {
  const { page, name } = place.value;
  const title = texts.pages[page as PageName] ?? texts.problem.missing;
  return name === null ? title : `${title} ${page === 'execution' ? '' : name}`.trim();
}

function Menu() {
  const current = parents[place.value.page] ?? place.value.page;
  return (
    <nav class="menu" aria-label={texts.menu}>
      {menu.map((group) => (
        <div key={group.title}>
          <p>{group.title}</p>
          <ul>
            {group.entries.filter(isOffered).map(({ page }) => (
              <li key={page}>
                <a href={to(page)} aria-current={current === page ? 'page' : undefined}>
                  {texts.pages[page]}
                </a>
              </li>
            ))}
          </ul>
        </div>
      ))}
    </nav>
  );
}

/** How old the oldest part of the page is, when that is more than it is between two reads. */
function Age() {
  const seconds = secondsSince(oldestShown() ?? Number.POSITIVE_INFINITY);
  return seconds > OLD_S && <span class="quiet small age">{texts.live.age(ago(seconds))}</span>;
}

function Updates() {
  const isOn = !paused.value;
  const toggle = () => {
    paused.value = isOn;
  };
  return (
    <button
      type="button"
      class={`updates ${isOn ? 'is-on' : ''}`}
      aria-pressed={!isOn}
      title={isOn ? texts.live.pause : texts.live.resume}
      onClick={toggle}
    >
      <Icon kind={isOn ? 'run' : 'hold'} />
      {isOn ? texts.live.on : texts.live.off}
    </button>
  );
}

function Offline() {
  const { failed, answeredAt } = connection.value;
  if (!failed) return null;
  return (
    <div class="offline">
      <p>
        <span role="alert">{texts.live.offline}</span>{' '}
        {answeredAt !== null && texts.live.offlineAge(ago(secondsSince(answeredAt)))}
      </p>
      <button type="button" onClick={readAgain}>
        {texts.live.retry}
      </button>
    </div>
  );
}

/** An execution by its id, or workspaces by the beginning of their names. */
function Find() {
  const [names, suggest] = useWorkspaceNames();
  const open = (event: SubmitEvent) => {
    event.preventDefault();
    const form = event.currentTarget as HTMLFormElement;
    const text = String(new FormData(form).get('text')).trim();
    if (text === '') return;
    if (executionId.test(text)) go(to('execution', text));
    else go(names.includes(text) ? to('workspace', text) : to('workspaces', null, { prefix: text }));
    form.reset();
  };
  return (
    <form role="search" class="open" aria-label={texts.find} onSubmit={open}>
      <input
        name="text"
        type="search"
        class="find"
        aria-label={texts.find}
        placeholder={texts.find}
        list="workspace-names"
        autoComplete="off"
        spellcheck={false}
        onInput={(event) => suggest(event.currentTarget.value.trim())}
      />
      <datalist id="workspace-names">
        {names.map((name) => (
          <option key={name} value={name} />
        ))}
      </datalist>
    </form>
  );
}

function Keys() {
  return (
    <>
      <DialogTitle>{texts.keys.title}</DialogTitle>
      <dl class="keys">
        {texts.keys.list.map(([key, meaning]) => (
          <div key={key}>
            <dt>
              <kbd>{key}</kbd>
            </dt>
            <dd>{meaning}</dd>
          </div>
        ))}
      </dl>
      <div class="buttons">
        <button type="button" class="main" onClick={closeDialog}>
          {texts.act.close}
        </button>
      </div>
    </>
  );
}

/** The focus moves over the first link of each row that is shown. */
function moveRow(by: number): void {
  const links = [...document.querySelectorAll<HTMLElement>('main tbody tr')].flatMap(
    (row) => [...row.querySelectorAll<HTMLElement>('a, button')].find((link) => link.checkVisibility()) ?? [],
  );
  const at = links.findIndex((link) => link.closest('tr')?.contains(document.activeElement));
  links[Math.min(links.length - 1, Math.max(0, at < 0 ? 0 : at + by))]?.focus();
}

let went = 0;
function onKey(event: KeyboardEvent): void {
  const isField = event.target instanceof Element && event.target.matches('input, textarea, select');
  const isTyping = isField || document.querySelector('dialog[open]') !== null;
  if (isTyping || event.ctrlKey || event.metaKey || event.altKey || !session.value) return;
  const isSecond = Date.now() - went < 1500;
  const goal = isSecond
    ? menu.flatMap((group) => group.entries).find((entry) => entry.key === event.key && isOffered(entry))
    : undefined;
  went = 0;
  if (goal) go(to(goal.page));
  else if (event.key === 'g') went = Date.now();
  else if (event.key === '?') openDialog(<Keys />);
  else if (event.key === 'p') paused.value = !paused.value;
  else if (event.key === 'j') moveRow(1);
  else if (event.key === 'k') moveRow(-1);
  else if (event.key === '/')
    (document.querySelector<HTMLElement>('main .find') ?? document.querySelector<HTMLElement>('header .find'))?.focus();
  else return;
  event.preventDefault();
}

function Brand() {
  return (
    <svg viewBox="0 0 32 32" aria-hidden="true">
      <path
        d="M5 7v18M12.3 7v18M19.6 7v10M27 7v5"
        stroke="currentColor"
        stroke-width="4"
        stroke-linecap="round"
        fill="none"
      />
    </svg>
  );
}

function Shell() {
  const { page, name } = place.value;
  const main = useRef<HTMLElement>(null);
  const title = titleOf();
  const details = useRef<HTMLDetailsElement>(null);
  useEffect(() => {
    document.title = `${title} · ${texts.product}`;
    if (details.current) details.current.open = false;
  }, [page, name]);
  useScroll(main);
  useEffect(() => {
    addEventListener('keydown', onKey);
    return () => removeEventListener('keydown', onKey);
  }, []);
  return (
    <div class="shell">
      <button type="button" class="skip" onClick={() => main.current?.focus()}>
        {texts.skip}
      </button>
      <header class="top">
        <a class="brand" href={to('overview')}>
          <Brand />
          {texts.product}
        </a>
        <Find />
        <Age />
        <BulkMark />
        <Updates />
        <button
          type="button"
          class="plain help"
          title={texts.keys.open}
          aria-label={texts.keys.open}
          onClick={() => openDialog(<Keys />)}
        >
          ?
        </button>
        <details class="drawer" ref={details}>
          <summary>{texts.menu}</summary>
          <Menu />
        </details>
      </header>
      <div class="rail">
        <Menu />
        <You />
      </div>
      <main id="main" ref={main} tabIndex={-1}>
        <Offline />
        <h1>
          {title}
          {page === 'execution' && name !== null && (
            <>
              {' '}
              <code>{name}</code> <Copy text={name} label={texts.execution.copyId} />
            </>
          )}
        </h1>
        <Guarded>
          <Content />
        </Guarded>
      </main>
    </div>
  );
}

function You() {
  const you = session.value;
  const [problem, setProblem] = useState<Problem | null>(null);
  if (!you) return null;
  const leave = () => {
    setProblem(null);
    signOut().catch((error) => setProblem(toProblem(error)));
  };
  return (
    <aside class="you quiet small" aria-label={texts.settings.you}>
      {you.token ?? texts.signIn.nobody} · {you.role}
      {you.workspaces && <span>{texts.signIn.limited(you.workspaces.join(', '))}</span>}
      {you.token && (
        <button type="button" class="plain" onClick={leave}>
          {texts.signIn.out}
        </button>
      )}
      {problem && (
        <span role="alert" class="is-bad">
          {problem.message}
        </span>
      )}
    </aside>
  );
}

/** `before`: why the node did not tell whether somebody is signed in. */
function SignIn({ before }: { before: Problem | null }) {
  const [isBusy, setBusy] = useState(false);
  const [refusal, setProblem] = useState<Problem | null>(null);
  const [provider, setProvider] = useState<string | null>(null);
  const problem = refusal ?? before;
  // Without an answer a token is left, and the button of it reports the problem.
  useEffect(() => {
    findProvider().then(setProvider, () => undefined);
  }, []);
  const submit = async (event: SubmitEvent) => {
    event.preventDefault();
    setBusy(true);
    setProblem(null);
    try {
      await signIn(String(new FormData(event.currentTarget as HTMLFormElement).get('token')).trim());
    } catch (error) {
      setProblem(toProblem(error));
    }
    setBusy(false);
  };
  return (
    <main class="sign-in">
      <form onSubmit={submit}>
        <h1>
          <Brand />
          {texts.signIn.title}
        </h1>
        <p>{sessionEnded.value ? texts.signIn.ended : texts.signIn.lead}</p>
        {leftToken.value !== null && (
          <>
            <p role="alert" class="is-bad">
              {texts.signIn.left}
            </p>
            <Command text={texts.signIn.revoke(leftToken.value)} />
          </>
        )}
        {provider !== null && (
          <>
            <a class="main" href="v1/oidc_sign_in" onClick={keepView}>
              {texts.signIn.by(provider)}
            </a>
            <p class="quiet small">{texts.signIn.or}</p>
          </>
        )}
        <input name="username" autoComplete="username" value={texts.product} hidden readOnly />
        <label class="field">
          <span>{texts.signIn.label}</span>
          <input name="token" type="password" required autoComplete="current-password" spellcheck={false} />
        </label>
        {problem &&
          (problem.status === 401 ? (
            <p role="alert" class="is-bad">
              {texts.signIn.refused}
            </p>
          ) : (
            <ProblemBox problem={problem} />
          ))}
        <button type="submit" class="main" disabled={isBusy}>
          {isBusy ? texts.signIn.working : texts.signIn.action}
        </button>
        <p class="quiet small">{texts.signIn.kept}</p>
        <p class="quiet small">{texts.signIn.hintLead}</p>
        <Command text={texts.signIn.hint} />
      </form>
    </main>
  );
}

export function App() {
  const [problem, setProblem] = useState<Problem | null>(null);
  const start = () => {
    setProblem(null);
    findSession().catch((error) => setProblem(toProblem(error)));
  };
  useEffect(() => {
    restoreView();
    start();
  }, []);
  return (
    <>
      {session.value === undefined && problem && (
        <main class="sign-in">
          <form>
            <ProblemBox problem={problem} />
            <button type="button" class="main" onClick={start}>
              {texts.live.retry}
            </button>
          </form>
        </main>
      )}
      {session.value === null && <SignIn before={problem} />}
      {session.value && <Shell />}
      <DialogHost />
    </>
  );
}
