import type { GenerationEvent } from '../generation.ts';
import type { GenerationKind } from './field.ts';
import { brokenOff, pushText, readChoices, unreadable, type ReadChoice } from './answer-events.ts';
import { readErrorFrame } from './error-body.ts';
import { readUsage } from './usage.ts';
import { UsageMeter } from './usage-meter.ts';

/**
 * Reads the whole JSON response of a replica as the events of its generation: each choice is one `token`. Usage that
 * the replica does not report is estimated. Throws the error in the body, or `engine_unavailable`.
 */
export function readAnswer(kind: GenerationKind, body: string, meter = new UsageMeter()): GenerationEvent[] {
  const answer = parse(body);
  if (answer.error !== undefined && answer.error !== null) throw readErrorFrame(body);
  const choices = readChoices(kind, answer.choices);
  if (choices.length === 0) throw unreadable(new Error('the response has no choices'));
  meter.note(estimateTokens(choices), readUsage(answer.usage), null);
  const { promptTokens, cachedTokens, completionTokens } = meter;
  const events: GenerationEvent[] = [{ type: 'started', promptTokens, cachedTokens }];
  for (const choice of choices) {
    pushText(choice, completionTokens, events);
    if (choice.reason === null) throw brokenOff('a choice has no finish_reason');
    events.push({ type: 'finish', choice: choice.index, reason: choice.reason });
  }
  events.push({ type: 'end', ...meter.total() });
  return events;
}

interface WireAnswer {
  choices?: unknown;
  usage?: unknown;
  error?: unknown;
}

function parse(body: string): WireAnswer {
  let value: unknown;
  try {
    value = JSON.parse(body);
  } catch {
    // The parser's own message quotes generated text, which belongs in no log.
    throw unreadable(new Error('the response is not JSON'));
  }
  if (typeof value !== 'object' || value === null)
    throw unreadable(new Error('the response is not an object'));
  return value; // Every field is checked where it is read.
}

/** Bytes of a token of common tokenizers on prose, about. */
const BYTES_PER_TOKEN = 4;

function estimateTokens(choices: readonly ReadChoice[]): number {
  let tokens = 0;
  for (const { text, reasoning, logprobs } of choices) {
    tokens += logprobs?.length ?? Math.ceil(Buffer.byteLength(reasoning + text) / BYTES_PER_TOKEN);
  }
  return tokens;
}
