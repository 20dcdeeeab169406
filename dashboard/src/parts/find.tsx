// A form with one text, which becomes a part of the address of its page.
import { go, place, to } from '../router.ts';
import { texts } from '../texts.ts';

interface Props {
  page: 'workspaces' | 'audit';
  /** The part of the address, and the name of the field. */
  name: string;
  hint: string;
}

export function Find({ page, name, hint }: Props) {
  const value = place.value.query.get(name);
  const find = (event: SubmitEvent) => {
    event.preventDefault();
    go(to(page, null, { [name]: String(new FormData(event.currentTarget as HTMLFormElement).get(name)).trim() }));
  };
  return (
    <form class="filter" role="search" aria-label={texts.pages[page]} onSubmit={find}>
      <input
        key={value}
        name={name}
        type="search"
        class="find"
        aria-label={hint}
        placeholder={hint}
        defaultValue={value ?? ''}
        autoComplete="off"
      />
      <button type="submit" class="main">
        {texts.executions.apply}
      </button>
    </form>
  );
}
