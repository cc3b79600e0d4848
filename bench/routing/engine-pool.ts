import { join } from 'node:path';
import type { EngineHealth } from '../../src/engine/engine.ts';
import { freePort } from '../../test/support/server-process.ts';
import { startPeer, type Server } from '../../test/support/measured-servers.ts';

const ENGINES = 4;

/** Four new engines with empty caches, in one process. */
export class EnginePool implements AsyncDisposable {
  readonly urls: readonly string[];
  readonly #server: Server;
  /** The load of the busiest engine as a multiple of the mean, in each sample. */
  readonly #imbalances: number[] = [];
  readonly #sampler: NodeJS.Timeout;

  private constructor(server: Server, urls: readonly string[]) {
    this.#server = server;
    this.urls = urls;
    this.#sampler = setInterval(() => void this.#sample(), 250);
  }

  static async start(): Promise<EnginePool> {
    const others: number[] = [];
    while (others.length < ENGINES - 1) others.push(await freePort());
    const script = join(import.meta.dirname, 'engines.ts');
    const server = await startPeer(
      process.execPath,
      (port) => [script, ...[port, ...others].map(String)],
      '/counts',
    );
    return new EnginePool(server, [server.url, ...others.map((port) => `http://127.0.0.1:${port}`)]);
  }

  /** Returns the share of all prompt tokens that were cached. */
  async cachedShare(): Promise<number> {
    const all = await this.#health();
    const sum = (read: (health: EngineHealth) => number | null) =>
      all.reduce((total, health) => total + (read(health) ?? 0), 0);
    return sum((health) => health.cachedTokens) / sum((health) => health.promptTokens);
  }

  /**
   * Returns the mean over time of the load of the busiest engine, as a multiple of the mean load. The load of an engine
   * is the number of its running and queued requests.
   */
  get imbalance(): number {
    return this.#imbalances.reduce((sum, value) => sum + value, 0) / this.#imbalances.length;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    clearInterval(this.#sampler);
    await this.#server[Symbol.asyncDispose]();
  }

  async #sample(): Promise<void> {
    const loads = (await this.#health().catch(() => [])).map(
      ({ slotsInUse, queued }) => (slotsInUse ?? 0) + (queued ?? 0),
    );
    const mean = loads.reduce((sum, load) => sum + load, 0) / loads.length;
    // With fewer requests than engines, the loads cannot be equal.
    if (mean >= 1) this.#imbalances.push(Math.max(...loads) / mean);
  }

  #health(): Promise<EngineHealth[]> {
    return Promise.all(
      this.urls.map(async (url) => {
        const response = await fetch(`${url}/counts`);
        return (await response.json()) as EngineHealth; // From `engines.ts`.
      }),
    );
  }
}
