import { unwatchFile, watchFile as pollFile } from 'node:fs';

/** Interval at which the file is checked, in milliseconds. */
const INTERVAL_MS = 1000;

/**
 * Calls `onChange` when a file is changed, replaced, recreated or deleted, until disposed. Polls, because notifications of
 * the operating system do not follow symbolic links, such as those of a Kubernetes ConfigMap, can run out, and do not
 * exist on some file systems.
 */
export function watchFile(path: string, onChange: () => void): Disposable {
  // A function of its own, because `unwatchFile` removes every listener that is the same function.
  const listener = () => onChange();
  pollFile(path, { persistent: false, interval: INTERVAL_MS }, listener);
  return { [Symbol.dispose]: () => unwatchFile(path, listener) };
}
