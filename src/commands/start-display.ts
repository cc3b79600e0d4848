import type { ReplicaState } from '../routing/replica.ts';
import { ProgressBar } from './progress-bar.ts';

/**
 * Shows how far the models of a starting service are: a bar for the file that is being fetched, a line for each
 * that begins to load or does not come up.
 */
export class StartDisplay implements Disposable {
  readonly #stream: NodeJS.WriteStream;
  readonly #said = new Map<string, string>();
  #bar: ProgressBar | null = null;

  constructor(stream: NodeJS.WriteStream) {
    this.#stream = stream;
  }

  draw(replicas: readonly { id: string; state: ReplicaState }[]): void {
    // One bar at a time: the others' turn comes when this one is done.
    const fetching = replicas.find(({ state }) => state.state === 'downloading' && state.pull !== null);
    if (fetching?.state.state === 'downloading' && fetching.state.pull) {
      this.#bar ??= new ProgressBar(this.#stream);
      this.#bar.update(fetching.state.pull);
    } else this.#endBar();
    for (const { id, state } of replicas) this.#say(id, state);
  }

  [Symbol.dispose](): void {
    this.#endBar();
  }

  #say(id: string, state: ReplicaState): void {
    const words = inWords(state);
    if (words === null || this.#said.get(id) === words) return;
    this.#said.set(id, words);
    this.#endBar();
    this.#stream.write(`${words} ${id}\n`);
  }

  #endBar(): void {
    this.#bar?.[Symbol.dispose]();
    this.#bar = null;
  }
}

function inWords(state: ReplicaState): string | null {
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
