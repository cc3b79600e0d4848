import type { Engine, ReplicaRefused } from '../engine/engine.ts';
import { ReplicaRefused as Refused } from '../engine/engine.ts';
import { ServiceError } from '../errors.ts';
import type { FinishReason, GenerationEvent, GenerationRequest, Usage } from '../generation.ts';
import type { Lease, Router } from '../routing/router.ts';

/** What is known of one generation while it runs and after it; times are `performance.now()` milliseconds. */
export interface GenerationRecord {
  startedAtMs: number;
  /** When the engine gave the request a slot; null before. */
  slotAtMs: number | null;
  firstTokenAtMs: number | null;
  endedAtMs: number | null;
  replica: string | null;
  usage: Usage;
  usageSource: 'engine' | 'estimated' | null;
  /** Of the choice that finished last; null when the generation did not come to its end. */
  finishReason: FinishReason | null;
}

/** The record of a generation that begins now. */
export function beginRecord(nowMs: number): GenerationRecord {
  return {
    startedAtMs: nowMs,
    slotAtMs: null,
    firstTokenAtMs: null,
    endedAtMs: null,
    replica: null,
    usage: { promptTokens: 0, completionTokens: 0, cachedTokens: 0 },
    usageSource: null,
    finishReason: null,
  };
}

/**
 * The whole story of one generation: a place in the queue, a replica, its events, and everything released
 * whatever happens. `record` is filled as it goes. A replica that refuses the request is followed by the next.
 *
 * Ends by throwing a `ServiceError`, or `stop.signal.reason` when the caller hung up. `stop` is the caller's:
 * this function also aborts it, when the request has waited for a slot for longer than the queue allows.
 */
export async function* complete(
  router: Router,
  request: GenerationRequest,
  stop: AbortController,
  record: GenerationRecord,
): AsyncGenerator<GenerationEvent, void, undefined> {
  const place = router.enter(request.model);
  const patience = setTimeout(() => stop.abort(waitedTooLong(router)), router.queue.maxWaitMs);
  const refused = new Map<Engine, ReplicaRefused>();
  let lease: Lease | null = null;
  try {
    for (;;) {
      lease = router.acquire(request.model, refused);
      record.replica = lease.engine.name;
      try {
        for await (const event of lease.engine.generate(request, stop.signal)) {
          if (event.type === 'started') {
            clearTimeout(patience);
            place.left();
          }
          note(record, event);
          yield event;
        }
        return;
      } catch (error) {
        if (!(error instanceof Refused) || stop.signal.aborted) throw error;
        refused.set(lease.engine, error);
        lease.release();
      }
    }
  } finally {
    clearTimeout(patience);
    place.left();
    lease?.release();
    record.endedAtMs = performance.now();
  }
}

function waitedTooLong(router: Router): ServiceError {
  const seconds = Math.ceil(router.queue.maxWaitMs / 1000);
  return new ServiceError('queue_full', `The request waited ${seconds} s for this model and got no slot.`, {
    retryAfterMs: 1000,
  });
}

function note(record: GenerationRecord, event: GenerationEvent): void {
  switch (event.type) {
    case 'started':
      record.slotAtMs = performance.now();
      record.usage.promptTokens = event.promptTokens ?? 0;
      record.usage.cachedTokens = event.cachedTokens ?? 0;
      return;
    case 'token':
      record.firstTokenAtMs ??= performance.now();
      record.usage.completionTokens = event.completionTokens ?? record.usage.completionTokens + 1;
      return;
    case 'finish':
      record.finishReason = event.reason;
      return;
    case 'end':
      record.usage = event.usage;
      record.usageSource = event.usageSource;
  }
}
