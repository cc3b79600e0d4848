import type { GenerationEvent } from '../generation.ts';
import type { GenerationKind } from './field.ts';
import { brokenOff, pushText, readChoices, unreadable, type ReadChoice } from './answer-events.ts';
import { readErrorFrame } from './error-body.ts';
import { readUsage } from './usage.ts';

/**
 * Reads the whole JSON answer of a replica as the events of its generation: each choice is one `token`. Where the
 * replica tells no usage it is estimated. Throws the error that the body holds, or `engine_unavailable`.
 */
export function readAnswer(kind: GenerationKind, body: string): GenerationEvent[] {
  const answer = parse(body);
  if (answer.error !== undefined && answer.error !== null) throw readErrorFrame(body);
  const choices = readChoices(kind, answer.choices);
  if (choices.length === 0) throw unreadable(new Error('the answer has no choices'));
  const usage = readUsage(answer.usage);
  const events: GenerationEvent[] = [
    { type: 'started', promptTokens: usage?.promptTokens ?? null, cachedTokens: usage?.cachedTokens ?? null },
  ];
  for (const choice of choices) {
    pushText(choice, null, events);
    if (choice.reason === null) throw brokenOff('a choice has no finish_reason');
    events.push({ type: 'finish', choice: choice.index, reason: choice.reason });
  }
  const estimate = { promptTokens: 0, completionTokens: estimateTokens(choices), cachedTokens: 0 };
  events.push({
    type: 'end',
    usage: usage ?? estimate,
    usageSource: usage === null ? 'estimated' : 'engine',
  });
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
    throw unreadable(new Error('the answer is not JSON'));
  }
  if (typeof value !== 'object' || value === null) throw unreadable(new Error('the answer is no object'));
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
