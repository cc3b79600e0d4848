import type { GenerationEvent, GenerationKind } from '../generation.ts';
import { ChoiceReader, readChoices, type ReplicaChoice } from './choice-reader.ts';
import { readErrorFrame } from './error-body.ts';
import { incompleteResponse, invalidResponse, parseObject } from './invalid-response.ts';
import { readUsage } from './usage.ts';
import { UsageMeter, type ReceivedTokens } from './usage-meter.ts';

/**
 * Converts the non-streaming response of a replica into events, with one `token` per choice. Estimates usage that the
 * replica does not report. `count`: the choices of the request. Throws the error in the body, or `engine_unavailable`.
 */
export function readResponse(
  kind: GenerationKind,
  body: string,
  meter = new UsageMeter(),
  count = Infinity,
): GenerationEvent[] {
  const response: WireResponse = parseObject(body, 'the response'); // The readers check every field.
  if (response.error !== undefined && response.error !== null) throw readErrorFrame(body);
  const choices = readChoices(kind, response.choices, count);
  if (choices.length === 0) throw invalidResponse(new Error('the response has no choices'));
  meter.record(estimateTokens(choices), readUsage(response.usage), null);
  const { promptTokens, cachedTokens, completionTokens } = meter;
  const events: GenerationEvent[] = [{ type: 'started', promptTokens, cachedTokens }];
  for (const choice of choices) {
    if (choice.reason === null) throw incompleteResponse('a choice has no finish_reason');
    new ChoiceReader(choice.index).push(choice, completionTokens, events);
  }
  events.push({ type: 'end', ...meter.total() });
  return events;
}

interface WireResponse {
  choices?: unknown;
  usage?: unknown;
  error?: unknown;
}

/** Approximate bytes per token of prose with common tokenizers. */
const BYTES_PER_TOKEN = 4;

function estimateTokens(choices: readonly ReplicaChoice[]): ReceivedTokens {
  let tokens = 0;
  let reasoningTokens = 0;
  for (const { text, reasoning, calls, logprobs } of choices) {
    const called = calls.map((call) => (call.name ?? '') + call.arguments).join('');
    const ofReasoning = estimate(reasoning);
    tokens += logprobs?.length ?? estimate(reasoning + text + called);
    reasoningTokens += ofReasoning;
  }
  return { tokens, reasoningTokens };
}

function estimate(text: string): number {
  return Math.ceil(Buffer.byteLength(text) / BYTES_PER_TOKEN);
}
