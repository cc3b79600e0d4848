import type { ItemOf } from '../../api/client.ts';
import { Button } from '../../components/button.tsx';

type Key = ItemOf<'listKeys'>;

/** Maximum keys that are revoked together, as in the API. */
const MAX_REVOKED = 100;

interface SelectedKeysProps {
  /** The keys that can be selected. */
  shown: readonly Key[];
  selected: readonly Key[];
  /** Null: ends the selection. */
  onSelect: (ids: ReadonlySet<string> | null) => void;
  onRevoke: () => void;
}

/** The number of selected keys, and what can be done with them. */
export function SelectedKeys({ shown, selected, onSelect, onRevoke }: SelectedKeysProps) {
  const isTooMany = selected.length > MAX_REVOKED;
  return (
    <div
      role="group"
      aria-label="Selected keys"
      className="flex flex-wrap items-center gap-2 border-b border-line bg-sunken px-4 py-2 text-sm sm:px-5"
    >
      <span role="status" className="mr-auto tabular-nums">
        {selected.length} selected
      </span>
      <Button size="small" onClick={() => onSelect(new Set(shown.slice(0, MAX_REVOKED).map(({ id }) => id)))}>
        {shown.length > MAX_REVOKED ? `Select first ${MAX_REVOKED}` : 'Select all'}
      </Button>
      <Button size="small" onClick={() => onSelect(null)}>
        Cancel
      </Button>
      <Button size="small" kind="danger" disabled={selected.length === 0 || isTooMany} onClick={onRevoke}>
        Revoke selected
      </Button>
      {isTooMany && (
        <p role="alert" className="w-full text-xs text-bad">
          At most {MAX_REVOKED} keys can be revoked at once.
        </p>
      )}
    </div>
  );
}
