import type { ChatRequest, JsonSchema, TextRequest, ResponseFormat } from '../../core/generation.ts';
import { SAMPLING_LIST, type Sampling, type SamplingNumber } from '../../core/sampling.ts';
import { ServiceError } from '../../core/errors.ts';
import type { ParseOptions } from '../../core/protocol.ts';
import * as fields from './fields.ts';
import { parseMessages } from './messages.ts';
import { RequestBody } from '../request-body.ts';
import { parseName, parseReasoningBudget, parseTemplateVariables, parseTooling } from './tools.ts';
import {
  wrongValue,
  asString,
  nonEmptyString,
  unsupported,
  wrongType,
  asObject,
  displayName,
  isLongerThan,
} from '../../json/values.ts';
import type { Element } from '../element.ts';
import { checkJsonSchema, checkLooseSchema, reducedSchema } from '../../json/json-schema.ts';

/**
 * Parses the body of `POST /v1/chat/completions`. Throws `missing_required_parameter`, `invalid_type`,
 * `invalid_value` or `unsupported_parameter`, with the path of the field.
 */
export function parseChatRequest(
  object: Readonly<Record<string, unknown>>,
  options: Pick<ParseOptions, 'maxChoices' | 'notes'>,
): ChatRequest {
  refuseResponsesBody(object);
  const body = new RequestBody(object, fields.FIELDS_OF.chat, options.notes);
  const shared = parseGenerationFields(body, options);
  const maxTokens = body.read(fields.maxTokens);
  const messages = parseMessages(body);
  const longest = clampTokens(body.read(fields.maxCompletionTokens) ?? maxTokens);
  const logprobs = parseLogprobs(body);
  const { tools, toolChoice, parallelToolCalls } = parseTooling(body);
  const reasoning = body.isSet(fields.reasoning) ? body.nested(fields.reasoning) : null;
  const nestedEffort = reasoning?.read(fields.nestedEffort) ?? null;
  const templateVariables = parseTemplateVariables(body);
  // V8 copies an object at the start of another one ten times as fast.
  return {
    ...shared,
    kind: 'chat',
    messages,
    maxTokens: longest,
    logprobs,
    tools,
    toolChoice,
    parallelToolCalls,
    reasoningEffort: body.read(fields.reasoningEffort) ?? nestedEffort,
    reasoningBudget: parseReasoningBudget(reasoning?.read(fields.reasoningBudget) ?? null, templateVariables),
    templateVariables,
  };
}

/** Some clients send bodies of the Responses API to this endpoint. */
function refuseResponsesBody({ messages = null, input = null }: Readonly<Record<string, unknown>>): void {
  if (messages !== null || input === null) return;
  const message =
    '`messages` is required. A body with `input` belongs to the Responses API: send it to `POST /v1/responses`.';
  throw new ServiceError('missing_required_parameter', message, { param: 'messages' });
}

function parseLogprobs(body: RequestBody): number | null {
  const enabled = body.read(fields.chatLogprobs);
  const alternatives = body.read(fields.topLogprobs) ?? 0;
  if (!enabled && alternatives > 0) throw wrongValue('top_logprobs', 'absent or 0 unless `logprobs` is true');
  return enabled ? alternatives : null;
}

/**
 * Parses the body of `POST /v1/completions`. Throws `missing_required_parameter`, `invalid_type`,
 * `invalid_value` or `unsupported_parameter`, with the path of the field.
 */
export function parseTextRequest(
  object: Readonly<Record<string, unknown>>,
  options: Pick<ParseOptions, 'maxChoices' | 'notes'>,
): TextRequest {
  const body = new RequestBody(withoutNeutralBestOf(object), fields.FIELDS_OF.text, options.notes);
  const shared = parseGenerationFields(body, options);
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
  return nonEmptyString(value, path);
}

/** Drops a `best_of` that equals `n`, which has no effect. */
function withoutNeutralBestOf(object: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
  const bestOf = object['best_of'] ?? null;
  return bestOf !== null && bestOf === (object['n'] ?? 1) ? { ...object, best_of: null } : object;
}

/** The fields that chat and text requests share. */
type GenerationFields = Omit<TextRequest, 'kind' | 'prompts' | 'echo' | 'maxTokens' | 'logprobs'>;

/** Parses the fields that chat and text requests share. Throws a 400 with the path of the field. */
function parseGenerationFields(
  body: RequestBody,
  options: Pick<ParseOptions, 'maxChoices' | 'notes'>,
): GenerationFields {
  return {
    model: body.read(fields.model) ?? '', // Required: `read` throws if it is absent.
    sampling: parseSampling(body),
    stop: parseStop(body.raw(fields.stop)),
    choices: parseChoices(body, options.maxChoices),
    responseFormat: parseFormat(body.optional('response_format'), readNestedSchema),
    stream: body.read(fields.stream),
    includeUsage: body.nested(fields.streamOptions).read(fields.includeUsage),
    cacheScope: null,
    tokenIds: false,
    continuation: null,
    user: body.read(fields.user),
  };
}

/** Clamps a token limit to the largest number that every engine can represent. */
export function clampTokens(tokens: number | null): number | null {
  return tokens === null ? null : Math.min(tokens, fields.MAX_INT32);
}

export function parseSampling(body: RequestBody): Sampling {
  const read: Record<string, number | null> = {};
  const explicit = new Set<SamplingNumber>();
  for (const [id, field] of SAMPLING_NUMBERS) {
    read[id] = body.read(field);
    if (body.isSet(field)) explicit.add(id);
  }
  const numbers = read as Pick<Sampling, SamplingNumber>; // Each field has the type of its parameter.
  const { seed } = numbers;
  return {
    ...numbers,
    seed: seed === null ? null : Number(BigInt.asUintN(32, BigInt(seed))),
    logitBias: parseLogitBias(body),
    explicit,
  };
}

const SAMPLING_NUMBERS = SAMPLING_LIST.map(([id]) => [id, fields.SAMPLING_FIELDS[id]] as const);

const NO_BIASES: ReadonlyMap<number, number> = new Map();

function parseLogitBias(body: RequestBody): ReadonlyMap<number, number> {
  const value = body.raw(fields.logitBias);
  if (value === null) return NO_BIASES;
  const biases = new Map<number, number>();
  const entries = Object.entries(asObject(value, 'logit_bias'));
  if (entries.length > fields.MAX_BIASED_TOKENS) {
    throw wrongValue('logit_bias', `an object with at most ${fields.MAX_BIASED_TOKENS} token IDs`);
  }
  for (const [name, bias] of entries) {
    const path = `logit_bias.${displayName(name)}`;
    if (!fields.TOKEN_ID.test(name)) throw wrongValue(path, 'named by a token ID');
    if (typeof bias !== 'number') throw wrongType(path, 'a number', bias);
    if (bias < -100 || bias > 100) throw wrongValue(path, 'between -100 and 100', bias);
    biases.set(Number(name), bias);
  }
  return biases;
}

export function parseStop(
  value: unknown,
  path = 'stop',
  most = fields.MAX_STOP_SEQUENCES,
): readonly string[] {
  if (value === null) return [];
  if (typeof value === 'string') return [parseStopSequence(value, path)];
  if (!Array.isArray(value)) throw wrongType(path, 'a string or an array of strings', value);
  if (value.length > most) throw wrongValue(path, `at most ${most} strings`);
  return value.map((sequence, index) => parseStopSequence(sequence, `${path}[${index}]`));
}

function parseStopSequence(value: unknown, path: string): string {
  const sequence = asString(value, path);
  if (sequence === '' || isLongerThan(sequence, fields.MAX_STOP_LENGTH)) {
    throw wrongValue(path, `1 to ${fields.MAX_STOP_LENGTH} characters long`);
  }
  return sequence;
}

function parseChoices(body: RequestBody, maxChoices: number): number {
  const choices = body.read(fields.choices);
  if (choices > maxChoices) throw wrongValue('n', `between 1 and ${maxChoices}`, choices);
  return choices;
}

const FORMATS = ['text', 'json_object', 'json_schema'] as const;
const ONLY_TYPE = new Set(['type']);
const WITH_SCHEMA = new Set(['type', 'json_schema']);
const SCHEMA_FIELDS = new Set(['name', 'description', 'schema', 'strict']);

/** Parses the format of the text. `readSchema` reads one of the type `json_schema`. */
export function parseFormat(
  format: Element | null,
  readSchema: (format: Element) => ResponseFormat,
): ResponseFormat {
  if (format === null) return { type: 'text' };
  const type = format.oneOf('type', FORMATS);
  if (type === 'json_schema') return readSchema(format);
  format.noteUnknown(ONLY_TYPE);
  return { type };
}

function readNestedSchema(format: Element): ResponseFormat {
  format.noteUnknown(WITH_SCHEMA);
  return parseJsonSchemaFormat(format.element('json_schema'), SCHEMA_FIELDS);
}

/**
 * Parses the name and the schema of a format. A schema that is not strict may have any keyword, and without one the text is
 * any JSON object. `known`: the fields that the object may have.
 */
export function parseJsonSchemaFormat(format: Element, known: ReadonlySet<string>): ResponseFormat {
  format.noteUnknown(known);
  const name = parseName(format);
  format.optionalText('description');
  const strict = format.boolean('strict');
  if (strict === true) return { type: 'json_schema', name, schema: parseStrictSchema(format), strict };
  const schema = format.get('schema');
  if (schema === null) return { type: 'json_object' };
  return { type: 'json_schema', name, schema: checkLooseSchema(schema, format.at('schema')), strict };
}

/** Parses a `schema` that is always followed. */
export function parseStrictSchema(format: Element): JsonSchema {
  const path = format.at('schema');
  return checkJsonSchema(reducedSchema(format.required('schema'), path, format.notes, true), path);
}
