import { Check, Pencil, Trash2 } from 'lucide-react';
import { useState, useSyncExternalStore } from 'react';
import { notify } from '../notify.ts';
import { Button, IconButton } from './button.tsx';
import { classNames } from './class-names.ts';
import { TextField } from './field.tsx';
import { INPUT } from './input.ts';
import { MAX_SAVED_NAME, type Saved, type SavedItems } from './saved-items.ts';

interface SavedListProps<Value extends object> {
  items: SavedItems<Value>;
  /** Label of the list. */
  label: string;
  /** What an item is called, such as "Preset". */
  what: string;
  /** Label of the field that saves the current value. */
  saveLabel: string;
  /** Returns the value to save. */
  current: () => Value;
  isCurrent?: (item: Saved<Value>) => boolean;
  onOpen: (item: Saved<Value>) => void;
}

/** Opens, renames and deletes saved items, and saves the current value. */
export function SavedList<Value extends object>(props: SavedListProps<Value>) {
  const { items, label, what, saveLabel, current } = props;
  const list = useSyncExternalStore(items.subscribe, () => items.list);
  const [name, setName] = useState('');
  const [error, setError] = useState<string | null>(null);
  const save = () => {
    const failed = items.save({ ...current(), name });
    setError(failed);
    if (failed !== null) return;
    setName('');
    notify.success(`${what} ${name.trim()} saved`);
  };
  return (
    <>
      {list.length > 0 && (
        <ul aria-label={label} className="-mx-2 mb-4 max-h-72 overflow-y-auto">
          {list.map((item) => (
            <Row key={item.name} item={item} {...props} />
          ))}
        </ul>
      )}
      <form
        className="flex items-start gap-2"
        onSubmit={(event) => {
          event.preventDefault();
          save();
        }}
      >
        <TextField
          className="min-w-0 flex-1"
          label={saveLabel}
          value={name}
          error={error}
          maxLength={MAX_SAVED_NAME}
          autoComplete="off"
          onChange={(event) => {
            setName(event.target.value);
            setError(null);
          }}
        />
        {/* Below the label of the field. */}
        <Button type="submit" kind="primary" disabled={name.trim() === ''} className="mt-5.5">
          {list.some((item) => item.name === name.trim()) ? 'Replace' : 'Save'}
        </Button>
      </form>
    </>
  );
}

function Row<Value extends object>({
  item,
  items,
  what,
  isCurrent,
  onOpen,
}: { item: Saved<Value> } & SavedListProps<Value>) {
  const [renaming, setRenaming] = useState(false);
  const report = (failed: string | null) => {
    if (failed !== null) notify.error(failed);
  };
  const remove = () => {
    const failed = items.remove(item.name);
    if (failed !== null) return report(failed);
    notify.success(`${what} deleted`, { label: 'Undo', run: () => report(items.save(item)) });
  };
  const rename = (to: string) => {
    report(items.rename(item.name, to));
    setRenaming(false);
  };
  if (renaming) {
    return (
      <li className="px-1 py-1.5">
        <input
          ref={(input) => input?.focus()}
          aria-label="Name"
          defaultValue={item.name}
          maxLength={MAX_SAVED_NAME}
          autoComplete="off"
          onBlur={(event) => rename(event.target.value)}
          onKeyDown={(event) => {
            if (event.key === 'Enter') event.currentTarget.blur();
            if (event.key !== 'Escape') return;
            // Escape ends the renaming, and does not close the popup.
            event.stopPropagation();
            setRenaming(false);
          }}
          className={classNames(INPUT, 'h-8')}
        />
      </li>
    );
  }
  const isOpen = isCurrent?.(item) === true;
  return (
    <li className="flex items-center rounded-lg transition-colors hover:bg-hover">
      <button
        type="button"
        aria-current={isOpen || undefined}
        onClick={() => onOpen(item)}
        className="flex min-w-0 flex-1 items-center gap-2 rounded-lg px-2 py-2.5 text-left text-sm"
      >
        <span className="truncate">{item.name}</span>
        {isOpen && <Check className="size-3.5 shrink-0 text-accent" />}
      </button>
      <IconButton label={`Rename ${item.name}`} onClick={() => setRenaming(true)}>
        <Pencil />
      </IconButton>
      <IconButton label={`Delete ${item.name}`} onClick={remove}>
        <Trash2 />
      </IconButton>
    </li>
  );
}
