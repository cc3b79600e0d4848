import type { RoutedReplica } from './replica.ts';

/** A request at the replica that was chosen for it, where it waits or runs. Counted as load until it ends. */
export class Assignment {
  readonly replica: RoutedReplica;
  #prefillTokens: number;
  #ended = false;

  /** `prefillTokens`: estimated prompt tokens that the replica has to process for the request. */
  constructor(replica: RoutedReplica, prefillTokens: number) {
    this.replica = replica;
    this.#prefillTokens = prefillTokens;
    replica.assigned++;
    replica.outstandingPrefillTokens += prefillTokens;
  }

  /** Estimated prompt tokens that the replica still has to process. */
  get prefillTokens(): number {
    return this.#prefillTokens;
  }

  /** Called when the prompt has been processed. Idempotent. */
  prefillEnded(): void {
    this.replica.outstandingPrefillTokens -= this.#prefillTokens;
    this.#prefillTokens = 0;
  }

  /** Called when the request has ended or moves to another replica. Idempotent. */
  end(): void {
    if (this.#ended) return;
    this.#ended = true;
    this.prefillEnded();
    this.replica.assigned--;
  }
}
