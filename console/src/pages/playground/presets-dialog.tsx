import { Bookmark } from 'lucide-react';
import { useState } from 'react';
import { Button } from '../../components/button.tsx';
import { Dialog } from '../../components/dialog.tsx';
import type { Saved } from '../../components/saved-items.ts';
import { SavedList } from '../../components/saved-list.tsx';
import { notify } from '../../notify.ts';
import type { Preset } from './presets.ts';
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
  const apply = ({ name, system, settings }: Saved<Preset>) => {
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
      <SavedList
        items={presets}
        label="Presets"
        what="Preset"
        saveLabel="Save the current parameters as"
        current={() => ({ system: draft.system, settings: draft.settings })}
        onOpen={apply}
      />
    </Dialog>
  );
}
