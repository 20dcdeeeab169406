// One dialog at a time: a question with a reason, that of a bulk act, or the keys.
import { signal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { act, may, type Problem, session, toProblem } from '../api.ts';
import { readAgain } from '../live.ts';
import { texts } from '../texts.ts';
import { ProblemBox } from './basics.tsx';

const content = signal<ComponentChildren | null>(null);

export const openDialog = (children: ComponentChildren): void => {
  content.value = children;
};
export const closeDialog = (): void => {
  content.value = null;
};

export function DialogHost() {
  const element = useRef<HTMLDialogElement>(null);
  const isOpen = content.value !== null;
  useEffect(() => {
    if (isOpen && !element.current?.open) element.current?.showModal();
    if (!isOpen && element.current?.open) element.current.close();
  }, [isOpen]);
  // The browser gives the focus back to the button that opened the dialog, but that may be gone by then.
  const onClose = () => {
    closeDialog();
    if (document.activeElement === document.body) document.getElementById('main')?.focus({ preventScroll: true });
  };
  return (
    <dialog ref={element} onClose={onClose} aria-labelledby="dialog-title">
      {content.value}
    </dialog>
  );
}

export function DialogTitle({ children }: { children: ComponentChildren }) {
  return <h2 id="dialog-title">{children}</h2>;
}

interface Question {
  /** The name of the act, on its button. */
  name: string;
  ask: string;
  isGrave?: boolean;
  method: string;
  path: string;
  body?: unknown;
  /** Fields above the reason; their values are `body`. */
  children?: ComponentChildren;
  read?: (form: FormData) => unknown;
  done?: (answer: Record<string, unknown>) => void;
}

function Ask(question: Question) {
  const [isBusy, setBusy] = useState(false);
  const [problem, setProblem] = useState<Problem | null>(null);
  const isSent = useRef(false);
  const submit = async (event: SubmitEvent) => {
    event.preventDefault();
    if (isSent.current) return;
    isSent.current = true;
    const form = new FormData(event.currentTarget as HTMLFormElement);
    setBusy(true);
    setProblem(null);
    try {
      const body = question.read ? question.read(form) : question.body;
      const answer = await act<Record<string, unknown>>(
        question.method,
        question.path,
        String(form.get('reason') ?? ''),
        body,
      );
      closeDialog();
      readAgain();
      question.done?.(answer);
    } catch (error) {
      isSent.current = false;
      setBusy(false);
      setProblem(toProblem(error));
    }
  };
  return (
    <form onSubmit={submit}>
      <DialogTitle>{question.ask}</DialogTitle>
      {question.children}
      <label class="field">
        <span>{texts.act.reason}</span>
        <input name="reason" maxLength={200} autoComplete="off" />
      </label>
      {problem && <ProblemBox problem={problem} />}
      <div class="buttons">
        <button type="button" onClick={closeDialog}>
          {texts.act.back}
        </button>
        <button type="submit" class={question.isGrave ? 'grave' : 'main'} disabled={isBusy}>
          {isBusy ? texts.act.working : question.name}
        </button>
      </div>
    </form>
  );
}

export const question = (question: Question): void => openDialog(<Ask {...question} />);

function Refused({ reason }: { reason: string }) {
  return (
    <>
      <DialogTitle>{texts.act.refusedTitle}</DialogTitle>
      <p>{reason}</p>
      <div class="buttons">
        <button type="button" class="main" onClick={closeDialog}>
          {texts.act.close}
        </button>
      </div>
    </>
  );
}

/** A button that asks. Without the right for it, it is there, and a press opens the reason. When an act removes the button, the
 * focus goes to what it was in. */
export function ActButton({ needs, ...asked }: Question & { needs: string }) {
  const isAllowed = may(needs);
  const refusal = texts.act.notAllowed(session.value?.role ?? '');
  const button = useRef<HTMLButtonElement>(null);
  useLayoutEffect(
    () => () => {
      const element = button.current;
      if (element !== null && element === document.activeElement) {
        element.closest<HTMLElement>('[tabindex]')?.focus({ preventScroll: true });
      }
    },
    [],
  );
  return (
    <button
      ref={button}
      type="button"
      class={asked.isGrave ? 'grave' : ''}
      aria-disabled={!isAllowed}
      title={isAllowed ? asked.ask : refusal}
      onClick={() => (isAllowed ? question(asked) : openDialog(<Refused reason={refusal} />))}
    >
      {asked.name}
    </button>
  );
}
