import { note } from './output.ts';

/** The signals that stop a command, with its exit codes. */
const SIGNALS = [
  ['SIGINT', 130],
  ['SIGTERM', 143],
] as const;

/**
 * Resolves to the result of the work. Aborts it on the first signal, and exits on the second. `message` is printed if the work rejects because it was
 * aborted.
 */
export async function interruptible<Result>(
  work: (signal: AbortSignal) => Promise<Result>,
  message = '\nInterrupted. Run the same command again to resume.',
): Promise<Result> {
  const stop = new AbortController();
  const handlers = SIGNALS.map(([signal, status]) => {
    const handler = (): void => {
      if (stop.signal.aborted) process.exit(status);
      stop.abort(new Interrupted(status));
    };
    process.on(signal, handler);
    return () => process.off(signal, handler);
  });
  try {
    return await work(stop.signal);
  } catch (error) {
    if (!(error instanceof Interrupted)) throw error;
    note(message);
    // A pending DNS lookup cannot be canceled and would keep the process alive.
    return process.exit(error.status);
  } finally {
    for (const removeHandler of handlers) removeHandler();
  }
}

/**
 * Exits on the first signal, until it is disposed of. Functions that listen to the process's `exit` can still clean up.
 */
export function exitOnSignals(): Disposable {
  const owned = new DisposableStack();
  for (const [signal, status] of SIGNALS) {
    const exit = (): void => {
      note('Interrupted.');
      process.exit(status);
    };
    process.once(signal, exit);
    owned.defer(() => process.off(signal, exit));
  }
  return owned;
}

class Interrupted extends Error {
  readonly status: number;

  constructor(status: number) {
    super('interrupted');
    this.name = 'Interrupted';
    this.status = status;
  }
}
