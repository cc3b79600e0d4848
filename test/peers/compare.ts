import type { PeerGeneration } from './generation.ts';

/** What one comparison found: how many fields agreed, and those that did not. */
export interface Comparison {
  agreed: number;
  differences: string[];
}

/** Two log probabilities of one distribution, computed in batches of different sizes. */
const TOLERANCE = 0.01;

/**
 * Compares what the service responded with what the server itself did, field by field. `alternatives` are those that
 * the caller asked for; the server may have been asked for more.
 */
export function compare(direct: PeerGeneration, service: PeerGeneration, alternatives: number): Comparison {
  const found: Comparison = { agreed: 0, differences: [] };
  const same = (field: string, expected: unknown, actual: unknown): void => {
    if (JSON.stringify(expected) === JSON.stringify(actual)) found.agreed++;
    else found.differences.push(`${field}: ${JSON.stringify(expected)} became ${JSON.stringify(actual)}`);
  };
  same('status', direct.status, service.status);
  same('choices', direct.choices.length, service.choices.length);
  same('usage', direct.usage, service.usage);
  for (const [index, expected] of direct.choices.entries()) {
    const actual = service.choices[index];
    if (!actual) continue;
    const at = `choices[${index}]`;
    same(`${at}.text`, expected.text, actual.text);
    same(`${at}.reasoning`, expected.reasoning, actual.reasoning);
    same(`${at}.finish_reason`, expected.finish, actual.finish);
    same(`${at}.logprobs`, expected.logprobs.length, actual.logprobs.length);
    for (const [position, token] of expected.logprobs.entries()) {
      const other = actual.logprobs[position];
      if (!other) continue;
      const place = `${at}.logprobs[${position}]`;
      same(`${place}.token`, token.token, other.token);
      same(`${place}.logprob`, true, close(token.logprob, other.logprob));
      const top = token.top.slice(0, alternatives);
      same(`${place}.alternatives`, top.length, other.top.length);
      const alike = top.every(([, logprob], rank) => close(logprob, other.top[rank]?.[1] ?? Number.NaN));
      same(`${place}.likeliest`, true, alike);
    }
  }
  return found;
}

function close(one: number, other: number): boolean {
  return Math.abs(one - other) < TOLERANCE;
}
