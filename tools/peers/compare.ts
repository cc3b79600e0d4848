import type { PeerGeneration } from './generation.ts';

/** Number of equal fields, and descriptions of the others. */
export interface Comparison {
  agreed: number;
  differences: string[];
}

/** Log probabilities differ slightly with the size of the batch. */
const TOLERANCE = 0.01;

/**
 * Compares the responses of the server and of the service. `alternatives` is the requested number; the direct response
 * may have more.
 */
export function compare(direct: PeerGeneration, service: PeerGeneration, alternatives: number): Comparison {
  const result: Comparison = { agreed: 0, differences: [] };
  const compareField = (field: string, expected: unknown, actual: unknown): void => {
    if (JSON.stringify(expected) === JSON.stringify(actual)) result.agreed++;
    else result.differences.push(`${field}: ${JSON.stringify(expected)} became ${JSON.stringify(actual)}`);
  };
  compareField('status', direct.status, service.status);
  compareField('choices', direct.choices.length, service.choices.length);
  compareField('usage', direct.usage, service.usage);
  for (const [index, expected] of direct.choices.entries()) {
    const actual = service.choices[index];
    if (!actual) continue;
    const at = `choices[${index}]`;
    compareField(`${at}.text`, expected.text, actual.text);
    compareField(`${at}.reasoning`, expected.reasoning, actual.reasoning);
    compareField(`${at}.finish_reason`, expected.finish, actual.finish);
    compareField(`${at}.logprobs`, expected.logprobs.length, actual.logprobs.length);
    for (const [position, token] of expected.logprobs.entries()) {
      const other = actual.logprobs[position];
      if (!other) continue;
      const path = `${at}.logprobs[${position}]`;
      compareField(`${path}.token`, token.token, other.token);
      compareField(`${path}.logprob`, true, close(token.logprob, other.logprob));
      const top = token.top.slice(0, alternatives);
      compareField(`${path}.alternatives`, top.length, other.top.length);
      const isClose = top.every(([, logprob], rank) => close(logprob, other.top[rank]?.[1] ?? Number.NaN));
      compareField(`${path}.alternative logprobs`, true, isClose);
    }
  }
  return result;
}

function close(one: number, other: number): boolean {
  return Math.abs(one - other) < TOLERANCE;
}
