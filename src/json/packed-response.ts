import type { TextEvent, TokenLogprob } from '../core/generation.ts';
import { readObject } from '../core/invalid-response.ts';
import { readLogprobs } from './logprobs-reader.ts';
import { writeArguments } from './tool-arguments.ts';
import { jsonObject, type JsonObject } from './values.ts';

/** Tokens whose log probabilities are one part: about a millisecond of parsing. */
const TOKENS_PER_PART = 64;

/** A response of a replica without its log probabilities, which are millions of values. */
export interface PackedResponse {
  response: JsonObject;
  /** By position in `choices`. */
  logprobs: readonly (PackedLogprobs | null)[];
}

/** The log probabilities of a choice, each part as the JSON of an array of `TokenLogprob`. */
export interface PackedLogprobs {
  /** Number of tokens. */
  length: number;
  parts: readonly Uint8Array<ArrayBuffer>[];
}

/** Parses the body of a replica's response. Throws an `Error` if it is not a JSON object. */
export function packResponse(body: Uint8Array): PackedResponse {
  const json = Buffer.from(body).toString();
  const response: Record<string, unknown> = { ...readObject(json, 'the response') };
  writeArguments(response, json);
  const { choices } = response;
  if (!Array.isArray(choices)) return { response, logprobs: [] };
  const logprobs = choices.map((choice) => packLogprobs(readLogprobs(jsonObject(choice)['logprobs']) ?? []));
  response['choices'] = choices.map((choice: unknown) =>
    jsonObject(choice) === choice ? { ...choice, logprobs: null } : choice,
  );
  return { response, logprobs };
}

/** Returns the buffers of a response, which need not be copied between threads. */
export function packedBuffers({ logprobs }: PackedResponse): ArrayBuffer[] {
  return logprobs.flatMap((packed) => packed?.parts.map(({ buffer }) => buffer) ?? []);
}

/** Returns events with the log probabilities of a choice, each of which is parsed when it is read. */
export function unpackLogprobs(
  { parts }: PackedLogprobs,
  event: Pick<TextEvent, 'type' | 'choice' | 'completionTokens'>,
): readonly TextEvent[] {
  return parts.map((part) => ({
    ...event,
    text: '',
    get logprobs() {
      return JSON.parse(Buffer.from(part.buffer).toString()) as readonly TokenLogprob[]; // From `packLogprobs`.
    },
  }));
}

function packLogprobs(tokens: readonly TokenLogprob[]): PackedLogprobs | null {
  if (tokens.length === 0) return null;
  const encoder = new TextEncoder();
  const parts: Uint8Array<ArrayBuffer>[] = [];
  for (let at = 0; at < tokens.length; at += TOKENS_PER_PART)
    parts.push(encoder.encode(JSON.stringify(tokens.slice(at, at + TOKENS_PER_PART))));
  return { length: tokens.length, parts };
}
