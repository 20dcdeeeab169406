// A token of some workspaces asks for the lists of one of them; of several the user chooses one, which the address keeps.
import { session } from '../api.ts';
import { go, place, to } from '../router.ts';
import { texts } from '../texts.ts';

/** null: the token is of all workspaces, so a list needs none. */
export function chosenWorkspace(): string | null {
  const own = session.value?.workspaces ?? null;
  if (own === null) return null;
  const wanted = place.value.query.get('workspace');
  return own.find((name) => name === wanted) ?? own[0] ?? '';
}

export function WorkspaceChoice() {
  const own = session.value?.workspaces ?? null;
  if (own === null || own.length < 2) return null;
  const { page, query } = place.value;
  return (
    <select
      aria-label={texts.column.workspace}
      value={chosenWorkspace() ?? ''}
      onChange={(event) => go(to(page, null, { where: query.get('where'), workspace: event.currentTarget.value }))}
    >
      {own.map((name) => (
        <option key={name}>{name}</option>
      ))}
    </select>
  );
}
