import { Switch } from '../components/choices.tsx';
import { Dialog } from '../components/dialog.tsx';
import { ShortcutKeys } from '../components/shortcut-keys.tsx';
import { useSingleKeys } from '../components/single-keys.ts';

const SHORTCUTS: readonly { title: string; keys: readonly { keys: string; what: string }[] }[] = [
  {
    title: 'Everywhere',
    keys: [
      { keys: 'Mod K', what: 'Open the command menu' },
      { keys: '/', what: 'Search this page, or open the command menu' },
      { keys: '?', what: 'Show keyboard shortcuts' },
      { keys: 'Esc', what: 'Close a dialog or menu' },
    ],
  },
  {
    title: 'Requests',
    keys: [
      { keys: 'J', what: 'Open the next request of the list' },
      { keys: 'K', what: 'Open the previous request of the list' },
      { keys: '← →', what: 'Open the previous or next request, in a receipt' },
    ],
  },
  {
    title: 'Playground',
    keys: [
      { keys: '↵', what: 'Send the message' },
      { keys: 'Shift ↵', what: 'Start a new line' },
      { keys: 'Mod ↵', what: 'Send while editing a prompt or a message' },
      { keys: 'Esc', what: 'Stop the response' },
    ],
  },
];

export default function ShortcutsDialog({ onClose }: { onClose: () => void }) {
  const [singleKeys, setSingleKeys] = useSingleKeys();
  return (
    <Dialog open onClose={onClose} title="Keyboard shortcuts">
      <div className="space-y-5">
        {SHORTCUTS.map(({ title, keys }) => (
          <section key={title}>
            <h2 className="text-xs font-semibold">{title}</h2>
            <dl className="mt-1 divide-y divide-line text-sm">
              {keys.map(({ keys: pressed, what }) => (
                <div key={what} className="flex items-center justify-between gap-4 py-2">
                  <dt className="text-ink-2">{what}</dt>
                  <dd className="shrink-0">
                    <ShortcutKeys keys={pressed} />
                  </dd>
                </div>
              ))}
            </dl>
          </section>
        ))}
        <div className="border-t border-line pt-4">
          <Switch checked={singleKeys} onChange={setSingleKeys}>
            Single-key shortcuts
          </Switch>
          <p className="mt-1 text-xs text-ink-3">
            Turn off <ShortcutKeys keys="/" />, <ShortcutKeys keys="?" />, <ShortcutKeys keys="J" /> and{' '}
            <ShortcutKeys keys="K" /> if they interfere with speech input. Stored on this device.
          </p>
        </div>
      </div>
    </Dialog>
  );
}
