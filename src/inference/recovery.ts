import { setTimeout as sleep } from 'node:timers/promises';
import type { ConfigFile } from '../config/schema.ts';
import {
  canContinue,
  canContinueAt,
  continuesFromTokenIds,
  type OutputPosition,
} from '../replicas/continuation.ts';
import { DIALECT_TRAITS } from '../replicas/dialects.ts';
import type { ReplicaClient } from '../replicas/replica.ts';
import { Deadline } from '../support/deadline.ts';
import { ServiceError } from '../core/errors.ts';
import {
  totalChoices,
  type Continuation,
  type FinishReason,
  type GenerationEvent,
  type GenerationRequest,
  type Usage,
} from '../core/generation.ts';

/** Time between two attempts to find a replica, in milliseconds. */
const RETRY_MS = 200;

/** Maximum output that is kept, in token IDs or characters: more than a context of a million tokens. */
const MAX_KEPT = 4_194_304;

/** A replica failed after the caller had received events, and no other has taken over yet. */
export class Interruption {
  /** The error that the caller gets if no replica can continue. */
  readonly error: ServiceError;
  readonly failed: ReplicaClient;
  readonly #untilMs: number;
  #tries = 0;

  constructor(error: ServiceError, failed: ReplicaClient, maxWaitMs: number) {
    this.error = error;
    this.failed = failed;
    this.#untilMs = performance.now() + maxWaitMs;
  }

  /**
   * Calls `acquire` until it succeeds. The first call excludes the failed replica. Later calls do not, because it may
   * be an embedded engine that is restarting. Throws the error of the interruption after the maximum wait, or the
   * reason of the signal.
   */
  async acquire<Permit>(
    acquire: (
      failures: ReadonlyMap<ReplicaClient, ServiceError>,
      signal: AbortSignal,
    ) => Permit | Promise<Permit>,
    signal: AbortSignal,
  ): Promise<Permit> {
    const waited = new AbortController();
    using _ = new Deadline(Math.max(0, this.#untilMs - performance.now()), () => waited.abort(this.error));
    const either = AbortSignal.any([signal, waited.signal]);
    for (;;) {
      const isFirst = this.#tries++ === 0;
      if (!isFirst) {
        await sleep(RETRY_MS, undefined, { signal: either }).catch(() => either.throwIfAborted());
      }
      try {
        return await acquire(isFirst ? new Map([[this.failed, this.error]]) : new Map(), either);
      } catch (error) {
        if (!(error instanceof ServiceError) || either.aborted) throw error;
      }
    }
  }
}

/**
 * Records the output of one response, so that another replica can continue it. Keeps its token IDs or text, only if the
 * response can be continued, and only up to a maximum, because a replica might never stop.
 */
export class Recovery {
  readonly #request: GenerationRequest;
  readonly #limits: ConfigFile['recovery'];
  #attempts = 0;
  /** Null before the first output. */
  #position: OutputPosition | null = null;
  #promptTokenIds: readonly number[] | null = null;
  readonly #tokenIds: number[] = [];
  #keepsText = false;
  #text = '';
  /** Whether the output is longer than the maximum. It is not kept, and the response cannot be continued. */
  #isTooLong = false;
  #continuation: Continuation | null = null;

  constructor(request: GenerationRequest, limits: ConfigFile['recovery']) {
    this.#request = request;
    this.#limits = limits;
  }

  get maxWaitMs(): number {
    return this.#limits.maxWaitMs;
  }

  /** Whether the response has output, which must not be repeated. */
  get hasOutput(): boolean {
    return this.#position !== null;
  }

  /** The request to send to this replica. */
  requestFor({ dialect }: ReplicaClient): GenerationRequest {
    const isContinued = this.#limits.maxAttempts > 0 && canContinue(this.#request, dialect);
    const tokenIds = isContinued && continuesFromTokenIds(dialect);
    this.#keepsText = isContinued && !tokenIds;
    if (!tokenIds && this.#continuation === null) return this.#request;
    return { ...this.#request, tokenIds, continuation: this.#continuation };
  }

  /** Records an event that is sent to the caller. */
  add(event: GenerationEvent): void {
    switch (event.type) {
      case 'token':
        if (this.#keepsText && !this.#isTooLong) this.#text += event.text;
        if (this.#position === null) this.#position = 'text';
        else if (this.#position === 'reasoning') this.#position = 'text after reasoning';
        break;
      case 'reasoning':
        if (this.#position !== 'call') this.#position = 'reasoning';
        break;
      case 'tool-call':
      case 'tool-arguments':
        this.#position = 'call';
        break;
      case 'started':
        this.#promptTokenIds = event.promptTokenIds ?? null;
        return;
      // If the replica fails, another one computes all vectors or scores again.
      case 'embedding':
      case 'score':
      case 'finish':
      case 'end':
        return;
    }
    const { tokenIds = [] } = event;
    this.#isTooLong ||= this.#text.length > MAX_KEPT || this.#tokenIds.length + tokenIds.length > MAX_KEPT;
    if (this.#isTooLong) {
      this.#text = '';
      this.#tokenIds.length = 0;
      return;
    }
    for (let index = 0; index < tokenIds.length; index++) this.#tokenIds.push(tokenIds[index] as number);
  }

  /**
   * Prepares to continue the response after a replica has failed. `usage`: the usage in the events of that replica.
   * Returns whether the response can be continued. This requires a remaining attempt, and the IDs of all tokens of the
   * response unless replicas continue it from its text. A response without output is generated again by any replica.
   */
  begin({ dialect }: ReplicaClient, usage: Usage): boolean {
    if (this.#attempts >= this.#limits.maxAttempts) return false;
    if (this.#position !== null) {
      if (this.#isTooLong) return false;
      if (!canContinue(this.#request, dialect) || !canContinueAt(this.#position, dialect)) return false;
      if (continuesFromTokenIds(dialect) && this.#tokenIds.length !== usage.completionTokens) return false;
      if (DIALECT_TRAITS[dialect].continues === 'tokens' && this.#promptTokenIds === null) return false;
      this.#continuation = {
        promptTokenIds: this.#promptTokenIds,
        tokenIds: [...this.#tokenIds],
        text: this.#text,
        usage: { ...usage },
      };
    }
    this.#attempts++;
    return true;
  }

  /**
   * Whether a replica can take over. Any replica can generate a response again, but only one with the same dialect and
   * model name can continue it.
   */
  suits(client: ReplicaClient, failed: ReplicaClient): boolean {
    return (
      this.#continuation === null || (client.dialect === failed.dialect && client.model === failed.model)
    );
  }

  /**
   * Returns the last events of a response whose output is complete although the replica has failed; otherwise null.
   * `usage` and `finishReason` are those so far.
   */
  missingEvents(usage: Usage, finishReason: FinishReason | null): GenerationEvent[] | null {
    if (this.#limits.maxAttempts === 0 || totalChoices(this.#request) > 1) return null;
    const end: GenerationEvent = { type: 'end', usage, usageSource: 'estimated' };
    if (finishReason !== null) return [end];
    if (!this.hasOutput) return null;
    if (usage.completionTokens < (this.#request.maxTokens ?? Infinity)) return null;
    return [{ type: 'finish', choice: 0, reason: 'length', stopSequence: null }, end];
  }
}
