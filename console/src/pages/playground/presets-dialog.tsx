import { Bookmark, Pencil, Trash2 } from 'lucide-react';
import { useState, useSyncExternalStore } from 'react';
import { Button, IconButton } from '../../components/button.tsx';
import { classNames } from '../../components/class-names.ts';
import { Dialog } from '../../components/dialog.tsx';
import { INPUT, TextField } from '../../components/field.tsx';
import { notify } from '../../notify.ts';
import { MAX_PRESET_NAME, type Preset } from './presets.ts';
import { useActions, usePlayground } from './state.tsx';

/** Opens the presets: saves the current parameters, and applies, renames and deletes saved ones. */
export function PresetsButton() {
  const [open, setOpen] = useState(false);
  return (
    <>
      <Button icon={<Bookmark className="size-4" aria-hidden="true" />} onClick={() => setOpen(true)}>
        Presets
      </Button>
      {open && <PresetsDialog onClose={() => setOpen(false)} />}
    </>
  );
}

function PresetsDialog({ onClose }: { onClose: () => void }) {
  const { draft } = usePlayground();
  const { presets, change } = useActions();
  const list = useSyncExternalStore(presets.subscribe, () => presets.list);
  const [name, setName] = useState('');
  const [error, setError] = useState<string | null>(null);
  const save = () => {
    const { system, settings } = draft;
    const failed = presets.save({ name, system, settings });
    setError(failed);
    if (failed !== null) return;
    setName('');
    notify.success(`Preset ${name.trim()} saved`);
  };
  const apply = ({ name, system, settings }: Preset) => {
    change({ type: 'set', values: { system } });
    change({ type: 'settings', values: settings });
    notify.success(`Preset ${name} applied`);
    onClose();
  };
  return (
    <Dialog
      open
      onClose={onClose}
      title="Presets"
      hint="The system prompt and all parameters under a name. Stored only in this browser, until you sign out."
    >
      <form
        className="flex items-end gap-2"
        onSubmit={(event) => {
          event.preventDefault();
          save();
        }}
      >
        <TextField
          className="min-w-0 flex-1"
          label="Save the current parameters as"
          value={name}
          error={error}
          maxLength={MAX_PRESET_NAME}
          autoComplete="off"
          onChange={(event) => setName(event.target.value)}
        />
        <Button type="submit" kind="primary" disabled={name.trim() === ''}>
          {list.some((preset) => preset.name === name.trim()) ? 'Replace' : 'Save'}
        </Button>
      </form>
      {list.length > 0 && (
        <ul aria-label="Presets" className="-mx-2 mt-4">
          {list.map((preset) => (
            <Row key={preset.name} preset={preset} onApply={() => apply(preset)} />
          ))}
        </ul>
      )}
    </Dialog>
  );
}

function Row({ preset, onApply }: { preset: Preset; onApply: () => void }) {
  const { presets } = useActions();
  const [renaming, setRenaming] = useState(false);
  const remove = () => {
    presets.remove(preset.name);
    notify.success('Preset deleted', { label: 'Undo', run: () => void presets.save(preset) });
  };
  const rename = (to: string) => {
    const failed = presets.rename(preset.name, to);
    if (failed !== null) notify.error(failed);
    setRenaming(false);
  };
  if (renaming) {
    return (
      <li className="px-1 py-1.5">
        <input
          ref={(input) => input?.focus()}
          aria-label="Name"
          defaultValue={preset.name}
          maxLength={MAX_PRESET_NAME}
          autoComplete="off"
          onBlur={(event) => rename(event.target.value)}
          onKeyDown={(event) => {
            if (event.key === 'Enter') event.currentTarget.blur();
            if (event.key !== 'Escape') return;
            // Escape ends the renaming, and does not close the dialog.
            event.stopPropagation();
            setRenaming(false);
          }}
          className={classNames(INPUT, 'h-8')}
        />
      </li>
    );
  }
  return (
    <li className="flex items-center rounded-lg transition-colors hover:bg-hover">
      <button
        type="button"
        title="Apply"
        onClick={onApply}
        className="min-w-0 flex-1 truncate rounded-lg px-2 py-2.5 text-left text-sm"
      >
        {preset.name}
      </button>
      <IconButton label={`Rename ${preset.name}`} onClick={() => setRenaming(true)}>
        <Pencil className="size-4" aria-hidden="true" />
      </IconButton>
      <IconButton label={`Delete ${preset.name}`} onClick={remove}>
        <Trash2 className="size-4" aria-hidden="true" />
      </IconButton>
    </li>
  );
}
