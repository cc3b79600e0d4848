import { watch } from 'node:fs';
import { basename, dirname } from 'node:path';

/** Delay between a change and the call of `onChange`, in milliseconds. Editors write a file in several steps. */
const SETTLE_MS = 200;

/**
 * Calls `onChange` when a file is changed, replaced or recreated, until disposed. Watches the directory instead of the
 * file, because editors and orchestrators replace the file or a symbolic link to it.
 */
export function watchFile(path: string, onChange: () => void): Disposable {
  let timer: NodeJS.Timeout | undefined;
  const schedule = () => {
    clearTimeout(timer);
    timer = setTimeout(onChange, SETTLE_MS);
  };
  const name = basename(path);
  const watcher = watch(dirname(path), { persistent: false }, (_event, file) => {
    // In a mounted configuration, Kubernetes replaces the link `..data`, which the links to the files go through.
    if (file === null || file === name || file.startsWith('..')) schedule();
  });
  // After an error, only SIGHUP reloads the configuration.
  watcher.on('error', () => watcher.close());
  return {
    [Symbol.dispose]() {
      clearTimeout(timer);
      watcher.close();
    },
  };
}
