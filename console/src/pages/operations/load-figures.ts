import type { ResponseOf } from '../../api/client.ts';

type Second = ResponseOf<'readLoad'>['seconds'][number];

interface Recent {
  requestsPerSecond: number;
  tokensPerSecond: number;
  /** Share of finished requests with an error, 0 to 1; null: none finished. */
  errorShare: number | null;
}

/** Aggregates the last `span` seconds. */
export function recent(seconds: readonly Second[], span: number): Recent {
  const last = seconds.slice(-span);
  const requests = sum(last, ({ requests }) => requests);
  const tokens = sum(last, ({ prompt_tokens: prompt, completion_tokens: completion }) => prompt + completion);
  return {
    requestsPerSecond: last.length > 0 ? requests / last.length : 0,
    tokensPerSecond: last.length > 0 ? tokens / last.length : 0,
    errorShare: requests > 0 ? sum(last, ({ errors }) => errors) / requests : null,
  };
}

/** Returns the moving average over `span` seconds. */
export function smooth(values: readonly number[], span: number): number[] {
  let running = 0;
  return values.map((value, index) => {
    running += value - (index >= span ? (values[index - span] ?? 0) : 0);
    return running / Math.min(span, index + 1);
  });
}

function sum(seconds: readonly Second[], of: (second: Second) => number): number {
  return seconds.reduce((total, second) => total + of(second), 0);
}
