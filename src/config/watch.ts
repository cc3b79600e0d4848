import { watch } from 'node:fs';
import { basename, dirname } from 'node:path';

/** Delay after a change in milliseconds, because editors write a file in several steps. */
const SETTLE_MS = 200;

/**
 * Calls `onChange` when a file is changed, replaced or recreated, until disposed. Watches the directory, because
 * editors and orchestrators replace the file or a symbolic link.
 */
export function watchFile(path: string, onChange: () => void): Disposable {
  let timer: NodeJS.Timeout | undefined;
  const schedule = () => {
    clearTimeout(timer);
    timer = setTimeout(onChange, SETTLE_MS);
  };
  const name = basename(path);
  const watcher = watch(dirname(path), { persistent: false }, (_event, file) => {
    // Kubernetes replaces the directory `..data` that the links of a mounted configuration point to.
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
