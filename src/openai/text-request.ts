import type { TextRequest } from '../generation.ts';
import type { ParseOptions } from '../protocol.ts';
import * as fields from './fields.ts';
import { clampTokens, parseGenerationFields } from './generation-fields.ts';
import { RequestBody } from './request-body.ts';
import { asString, unsupported, wrongType, wrongValue } from './values.ts';

/**
 * Parses the body of `POST /v1/completions`. Throws `missing_required_parameter`, `invalid_type`,
 * `invalid_value` or `unsupported_parameter`, with the path of the field.
 */
export function parseTextRequest(
  object: Readonly<Record<string, unknown>>,
  options: ParseOptions,
): TextRequest {
  const body = new RequestBody(withoutNeutralBestOf(object), 'text');
  const shared = parseGenerationFields(body, 'text', options);
  const prompts = parsePrompts(body);
  if (prompts.length * shared.choices > options.maxChoices) {
    const expected = `an array of at most ${options.maxChoices} prompts, counting each \`n\` times`;
    throw wrongValue('prompt', expected, prompts.length * shared.choices);
  }
  const request: TextRequest = {
    kind: 'text',
    ...shared,
    prompts,
    maxTokens: clampTokens(body.read(fields.maxTokens)),
    logprobs: body.read(fields.textLogprobs),
    echo: body.read(fields.echo),
  };
  if (request.echo && request.logprobs !== null) {
    throw unsupported('echo', 'cannot be combined with `logprobs`');
  }
  return request;
}

function parsePrompts(body: RequestBody): readonly string[] {
  const value = body.raw(fields.prompt);
  if (typeof value === 'string') return [parsePrompt(value, 'prompt')];
  if (!Array.isArray(value)) throw wrongType('prompt', 'a string or an array of strings', value);
  if (value.length === 0) throw wrongValue('prompt', 'a string or an array with at least 1 string');
  return value.map((prompt, index) => parsePrompt(prompt, `prompt[${index}]`));
}

function parsePrompt(value: unknown, path: string): string {
  if (typeof value === 'number' || Array.isArray(value)) {
    throw unsupported('prompt', 'must be text; token IDs are not supported');
  }
  const prompt = asString(value, path);
  if (prompt === '') throw wrongValue(path, 'text that is not empty');
  return prompt;
}

/** Drops a `best_of` that equals `n`, which has no effect. */
function withoutNeutralBestOf(object: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
  const bestOf = object['best_of'] ?? null;
  return bestOf !== null && bestOf === (object['n'] ?? 1) ? { ...object, best_of: null } : object;
}
