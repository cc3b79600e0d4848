import type { ReplicaState } from '../routing/replica.ts';
import { ProgressBar } from './progress-bar.ts';

/** Shows the progress of a starting service: a bar for a download, and a line for each change of a model's state. */
export class StartDisplay implements Disposable {
  readonly #stream: NodeJS.WriteStream;
  /** The last printed state of each model. */
  readonly #printed = new Map<string, string>();
  #bar: ProgressBar | null = null;

  constructor(stream: NodeJS.WriteStream) {
    this.#stream = stream;
  }

  draw(replicas: readonly { id: string; state: ReplicaState }[]): void {
    // One bar at a time.
    const downloading = replicas.find(({ state }) => state.state === 'downloading' && state.pull !== null);
    if (downloading?.state.state === 'downloading' && downloading.state.pull) {
      this.#bar ??= new ProgressBar(this.#stream);
      this.#bar.update(downloading.state.pull);
    } else this.#endBar();
    for (const { id, state } of replicas) this.#printState(id, state);
  }

  [Symbol.dispose](): void {
    this.#endBar();
  }

  #printState(id: string, state: ReplicaState): void {
    const text = describeState(state);
    if (text === null || this.#printed.get(id) === text) return;
    this.#printed.set(id, text);
    this.#endBar();
    this.#stream.write(`${text} ${id}\n`);
  }

  #endBar(): void {
    this.#bar?.[Symbol.dispose]();
    this.#bar = null;
  }
}

function describeState(state: ReplicaState): string | null {
  switch (state.state) {
    case 'downloading':
      return null;
    case 'loading':
      return 'Loading';
    case 'ready':
    case 'paused':
      return 'Ready:';
    case 'down':
      return state.retryInMs === null ? 'Cannot serve' : `Retrying (${state.reason}):`;
  }
}
