import type { ItemOf } from '../../api/client.ts';
import { between } from '../../format/time.ts';

type Request = Pick<ItemOf<'listRequests'>, 'started_at' | 'slot_at' | 'first_token_at' | 'ended_at'>;

/** Medians in milliseconds. */
interface Stages {
  /** Number of requests that went through all stages. The others are left out. */
  count: number;
  queue: number;
  prefill: number;
  decode: number;
}

/** Returns how long requests waited for a slot, for their first token, and from it to the end. */
export function stagesOf(requests: readonly Request[]): Stages {
  const stages = requests.flatMap((request) => {
    const queue = between(request.started_at, request.slot_at);
    const prefill = between(request.slot_at, request.first_token_at);
    const decode = between(request.first_token_at, request.ended_at);
    return queue === null || prefill === null || decode === null ? [] : [{ queue, prefill, decode }];
  });
  const medianOf = (stage: 'queue' | 'prefill' | 'decode') => median(stages.map((each) => each[stage]));
  return {
    count: stages.length,
    queue: medianOf('queue'),
    prefill: medianOf('prefill'),
    decode: medianOf('decode'),
  };
}

/** Returns the lower median; 0: there are no values. */
function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor((values.length - 1) / 2)] ?? 0;
}
