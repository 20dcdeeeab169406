// Small parts that every page has.
import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';
import type { Problem } from '../api.ts';
import { absolute, age, short } from '../format.ts';
import type { Read } from '../live.ts';
import { to } from '../router.ts';
import { timeFormat } from '../settings.ts';
import { texts } from '../texts.ts';

/** A moment: in the form that the user chose, the other one on hover. */
export function Time({ at }: { at: string | null | undefined }) {
  if (!at) return <span class="quiet">{texts.none}</span>;
  const format = timeFormat.value;
  return (
    <time dateTime={at} title={format === 'relative' ? `${absolute(at, 'local')} · ${absolute(at, 'utc')}` : age(at)}>
      {format === 'relative' ? age(at) : absolute(at, format)}
    </time>
  );
}

export function Id({ id }: { id: string }) {
  return (
    <a class="id" href={to('execution', id)} title={id}>
      {short(id)}
    </a>
  );
}

export const WorkspaceLink = ({ name }: { name: string | null }) =>
  name === null ? <span class="quiet">{texts.none}</span> : <a href={to('workspace', name)}>{name}</a>;
export const WorkflowLink = ({ name }: { name: string | null }) =>
  name === null ? <span class="quiet">{texts.none}</span> : <a href={to('workflow', name)}>{name}</a>;

/** Both words have their room, so that no button beside moves from under the pointer. */
export function Copy({ text, label }: { text: string; label: string }) {
  const [isDone, setDone] = useState(false);
  const copy = async () => {
    // Without TLS a page has no clipboard of its own, but for the old command.
    if (navigator.clipboard) await navigator.clipboard.writeText(text).catch(() => copyByCommand(text));
    else copyByCommand(text);
    setDone(true);
  };
  return (
    <button type="button" class="plain" onClick={copy} onBlur={() => setDone(false)} title={text}>
      <span class="swap">
        <span class={isDone ? 'gone' : ''}>{label}</span>
        <span class={isDone ? '' : 'gone'}>{texts.execution.copied}</span>
      </span>
    </button>
  );
}

function copyByCommand(text: string): void {
  const area = document.createElement('textarea');
  area.value = text;
  area.className = 'hidden';
  (document.querySelector('dialog[open]') ?? document.body).append(area);
  area.select();
  document.execCommand('copy');
  area.remove();
}

export function Command({ text }: { text: string }) {
  return (
    <span class="command">
      <code>{text}</code>
      <Copy text={text} label={texts.execution.copy} />
    </span>
  );
}

export function Empty({ text, command }: { text: string; command?: string }) {
  return (
    <div class="empty">
      <p>{text}</p>
      {command && <Command text={command} />}
    </div>
  );
}

function titleOf(status: number): string {
  if (status === 403) return texts.problem.noRights;
  if (status === 404) return texts.problem.missing;
  if (status === 429) return texts.problem.tooMany;
  if (status < 0) return texts.problem.unreadable;
  if (status === 0 || status === 502 || status === 504) return texts.problem.unreachable;
  return status >= 500 ? texts.problem.failed : texts.problem.title;
}

/** The id of the request changes with each try, so it is no part of what is read out. */
export function ProblemBox({ problem }: { problem: Problem }) {
  return (
    <div class="problem">
      <div role="alert">
        <strong>{titleOf(problem.status)}</strong>
        <p>{problem.message}</p>
        {problem.hint && <p class="quiet">{problem.hint}</p>}
        <code class="quiet small">{problem.code}</code>
      </div>
      {problem.requestId && (
        <p class="quiet small">
          {texts.problem.request} <code>{problem.requestId}</code>
        </p>
      )}
    </div>
  );
}

/** The content when there is some, also an old one; else why there is none. */
export function Loaded<T>({ read, children }: { read: Read<T>; children: (data: T) => ComponentChildren }) {
  return (
    <>
      {read.problem && <ProblemBox problem={read.problem} />}
      {read.data !== null && (
        <div class={`loaded ${read.isLoading ? 'is-old' : ''}`} aria-busy={read.isLoading}>
          {children(read.data)}
        </div>
      )}
      {read.isLoading && read.data === null && <Waiting />}
    </>
  );
}

function Waiting() {
  return (
    <div class="loading" role="status">
      <span class="delayed">{texts.live.loading}</span>
      <span class="late">{texts.live.slow}</span>
    </div>
  );
}

export function Panel({
  title,
  aside,
  children,
}: {
  title: string;
  aside?: ComponentChildren;
  children: ComponentChildren;
}) {
  return (
    <section class="panel">
      <header>
        <h2>{title}</h2>
        {aside}
      </header>
      {children}
    </section>
  );
}

export function Data({ value }: { value: unknown }) {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by the keyboard
    <pre class="data" tabIndex={0}>
      {typeof value === 'string' ? value : JSON.stringify(value, null, 2)}
    </pre>
  );
}
