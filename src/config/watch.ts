import { watch } from 'node:fs';
import { basename, dirname } from 'node:path';

/** Editors write a file in several steps; the last of them counts. In milliseconds. */
const SETTLE_MS = 200;

/**
 * Calls back when a file was changed, replaced or came back, until disposed of. Watches the folder, because editors
 * and orchestrators put a new file (or a link to one) in the place of the old.
 */
export function watchFile(path: string, changed: () => void): Disposable {
  let timer: NodeJS.Timeout | undefined;
  const soon = () => {
    clearTimeout(timer);
    timer = setTimeout(changed, SETTLE_MS);
  };
  const name = basename(path);
  const watcher = watch(dirname(path), { persistent: false }, (_event, file) => {
    // Mounted settings are links to a folder beside them that is exchanged (`..data`).
    if (file === null || file === name || file.startsWith('..')) soon();
  });
  // Where a folder cannot be watched any more there is still the signal.
  watcher.on('error', () => watcher.close());
  return {
    [Symbol.dispose]() {
      clearTimeout(timer);
      watcher.close();
    },
  };
}
