import assert from 'node:assert/strict';
import { parseChatRequest, parseTextRequest } from '../../../src/protocols/openai/request.ts';
import { FEATURES, type Feature } from '../../../src/core/features.ts';
import { CHAT, TEXT } from '../../../src/protocols/openai/protocols.ts';
import type { ParseOptions, Protocol, WholeResponse } from '../../../src/core/protocol.ts';
import { Notes } from '../../../src/core/notes.ts';
import { ServiceError, type ErrorCode } from '../../../src/core/errors.ts';
import type {
  ChatRequest,
  FinishReason,
  GenerationEvent,
  CompletionRequest,
  GenerationRequest,
  TextRequest,
} from '../../../src/core/generation.ts';

/** Notes are errors, so that no test ignores one. */
export const CALLER: ParseOptions = {
  maxChoices: 128,
  notes: new Notes(true),
  sealer: { seal: (text) => text, open: () => null },
};

export const CHAT_BODY = { model: 'ns/m', messages: [{ role: 'user', content: 'Hi' }] };
export const TEXT_BODY = { model: 'ns/m', prompt: 'Once' };

export const CHAT_IDENTITY = { id: 'chatcmpl-1', created: 1, model: 'ns/m' };
export const TEXT_IDENTITY = { id: 'cmpl-1', created: 1, model: 'ns/m' };

export const USAGE = { promptTokens: 9, completionTokens: 3, cachedTokens: 0, reasoningTokens: 0 };

/** Returns the body of a response, which may be in parts. */
export function bodyText(response: WholeResponse): string {
  const body = response.body();
  return typeof body === 'string' ? body : Buffer.concat(body).toString();
}

interface Parsed<R extends GenerationRequest> {
  request: R;
  /** The fields that ask for features that not every server supports, sorted. */
  used: string[];
}

export function chat(fields: object = {}, options: ParseOptions = CALLER): Parsed<ChatRequest> {
  return parsed(parseChatRequest({ ...CHAT_BODY, ...fields }, options), CHAT);
}

export function text(fields: object = {}, options: ParseOptions = CALLER): Parsed<TextRequest> {
  return parsed(parseTextRequest({ ...TEXT_BODY, ...fields }, options), TEXT);
}

function parsed<R extends GenerationRequest>(request: R, protocol: Protocol): Parsed<R> {
  const features = Object.keys(FEATURES) as Feature[];
  const used = features.filter((feature) => FEATURES[feature].isUsed(request));
  return { request, used: used.map((feature) => protocol.paramOf(feature)).sort() };
}

/** Adds the paths of the schemas of chat completions to a request. */
export const withPaths = (generation: GenerationRequest) => ({
  generation,
  schemaPath: (tool: number | null) =>
    tool === null ? 'response_format.json_schema.schema' : `tools[${tool}].function.parameters`,
});

export function parse(
  kind: 'chat' | 'text',
  fields: object,
  options: ParseOptions = CALLER,
): CompletionRequest {
  return kind === 'chat' ? chat(fields, options).request : text(fields, options).request;
}

export const started = (
  promptTokens: number | null = null,
  cachedTokens: number | null = null,
): GenerationEvent => ({
  type: 'started',
  promptTokens,
  cachedTokens,
});

export const token = (value: string, choice = 0, completionTokens = 1): GenerationEvent => ({
  type: 'token',
  choice,
  text: value,
  completionTokens,
  logprobs: null,
});

export const reasoning = (value: string, completionTokens = 1): GenerationEvent => ({
  type: 'reasoning',
  choice: 0,
  text: value,
  completionTokens,
  logprobs: null,
});

export const toolCall = (id: string, name: string, call = 0, completionTokens = 1): GenerationEvent => ({
  type: 'tool-call',
  choice: 0,
  call,
  id,
  name,
  completionTokens,
});

export const toolArguments = (value: string, call = 0, completionTokens = 1): GenerationEvent => ({
  type: 'tool-arguments',
  choice: 0,
  call,
  text: value,
  completionTokens,
});

export const finish = (reason: FinishReason, choice = 0): GenerationEvent => ({
  type: 'finish',
  choice,
  reason,
  stopSequence: null,
});

export const end: GenerationEvent = { type: 'end', usage: USAGE, usageSource: 'engine' };

/** Asserts that `action` throws a `ServiceError` with this code and `param`, and with `text` in its message. */
export function refuses(action: () => unknown, code: ErrorCode, param: string | null, text = ''): void {
  assert.throws(action, (error: unknown) => {
    assert.ok(error instanceof ServiceError, String(error));
    assert.deepEqual({ code: error.code, param: error.param }, { code, param });
    if (param !== null && code !== 'context_length_exceeded')
      assert.ok(error.message.includes(param), error.message);
    assert.ok(error.message.includes(text), error.message);
    return true;
  });
}
