import type { Log } from '../log.ts';
import type { ReplicaState } from '../routing/replica.ts';
import { ProgressBar } from './progress-bar.ts';
import type { Terminal } from './terminal.ts';

interface StartOutput {
  /** Null if standard output is not a terminal. */
  terminal: Terminal | null;
  /** Prints a line to standard output. */
  print(line: string): void;
  log: Log;
}

/**
 * Shows the progress of the models of a starting service. On a terminal, it shows a progress bar for downloads, and the
 * log shows the other states. Otherwise it logs downloads and prints each change of state to standard output.
 */
export class StartDisplay implements Disposable {
  readonly #output: StartOutput;
  readonly #bar: ProgressBar;
  readonly #printed = new Map<string, string>();

  constructor(output: StartOutput) {
    this.#output = output;
    this.#bar = new ProgressBar({
      terminal: output.terminal,
      onMilestone: ({ file, source, phase, receivedBytes, totalBytes }) =>
        output.log.info('downloading the model', { file, source, phase, receivedBytes, totalBytes }),
    });
  }

  draw(replicas: readonly { id: string; state: ReplicaState }[]): void {
    // Only one download is shown at a time.
    const pull = replicas.flatMap(({ state }) =>
      state.state === 'downloading' && state.pull ? [state.pull] : [],
    )[0];
    if (pull) this.#bar.update(pull);
    else this.#bar[Symbol.dispose]();
    if (this.#output.terminal === null) for (const { id, state } of replicas) this.#printState(id, state);
  }

  [Symbol.dispose](): void {
    this.#bar[Symbol.dispose]();
  }

  #printState(id: string, state: ReplicaState): void {
    const text = describeState(state);
    if (text === null || this.#printed.get(id) === text) return;
    this.#printed.set(id, text);
    this.#output.print(`${text} ${id}`);
  }
}

function describeState(state: ReplicaState): string | null {
  switch (state.state) {
    case 'downloading':
    case 'unloaded':
    case 'idle':
      return null;
    case 'loading':
      return 'Loading';
    case 'ready':
    case 'paused':
      return 'Ready:';
    case 'drained':
      return 'Drained:';
    case 'down':
      return state.retryInMs === null ? 'Cannot serve' : `Retrying (${state.reason}):`;
  }
}
