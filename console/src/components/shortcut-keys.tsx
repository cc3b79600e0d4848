/** Whether this is an Apple device, where Cmd takes the place of Ctrl. */
export const isApple = /Mac|iPhone|iPad/.test(navigator.userAgent);

/** Keys of a shortcut, separated by spaces; `Mod` is Cmd on Apple devices and Ctrl on others. */
export function ShortcutKeys({ keys }: { keys: string }) {
  return (
    <kbd className="inline-flex gap-1 font-sans">
      {keys.split(' ').map((key) => (
        <kbd
          key={key}
          className="inline-flex h-5 min-w-5 items-center justify-center rounded border border-line-strong bg-sunken px-1 font-sans text-2xs text-ink-2"
        >
          {nameOf(key)}
        </kbd>
      ))}
    </kbd>
  );
}

function nameOf(key: string): string {
  if (key === 'Mod') return isApple ? '⌘' : 'Ctrl';
  return key;
}
