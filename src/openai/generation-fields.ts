import {
  type GenerationKind,
  type OptionalSampling,
  type ResponseFormat,
  type Sampling,
  type TextRequest,
} from '../generation.ts';
import type { ParseOptions } from '../protocol.ts';
import { NAME } from './chat-fields.ts';
import type { Field } from './field.ts';
import * as fields from './fields.ts';
import { checkJsonSchema } from './json-schema.ts';
import { RequestBody } from './request-body.ts';
import {
  asObject,
  asString,
  displayName,
  isLongerThan,
  missing,
  refuseUnknown,
  wrongType,
  wrongValue,
} from './values.ts';

/** The fields that chat and text requests share. */
export type GenerationFields = Omit<TextRequest, 'kind' | 'prompts' | 'echo' | 'maxTokens' | 'logprobs'>;

/** Parses the fields that chat and text requests share. Throws a 400 with the path of the field. */
export function parseGenerationFields(
  body: RequestBody,
  kind: GenerationKind,
  options: ParseOptions,
): GenerationFields {
  return {
    model: body.read(fields.model) ?? '', // Required: `read` throws if it is absent.
    sampling: parseSampling(body),
    stop: parseStop(body.raw(fields.stop)),
    choices: parseChoices(body, options.maxChoices),
    responseFormat: parseResponseFormat(body, kind),
    stream: body.read(fields.stream),
    includeUsage: parseIncludeUsage(body, kind),
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

function parseSampling(body: RequestBody): Sampling {
  const seed = body.read(fields.seed);
  return {
    temperature: body.read(fields.temperature),
    topP: body.read(fields.topP),
    topK: body.read(fields.topK),
    minP: body.read(fields.minP),
    seed: seed === null ? null : Number(BigInt.asUintN(32, BigInt(seed))),
    presencePenalty: body.read(fields.presencePenalty),
    frequencyPenalty: body.read(fields.frequencyPenalty),
    repetitionPenalty: body.read(fields.repetitionPenalty),
    logitBias: parseLogitBias(body),
    explicit: new Set(OPTIONAL_SAMPLING.flatMap(([name, field]) => (body.has(field) ? [name] : []))),
  };
}

const OPTIONAL_SAMPLING: readonly (readonly [OptionalSampling, Field])[] = [
  ['temperature', fields.temperature],
  ['topP', fields.topP],
  ['presencePenalty', fields.presencePenalty],
  ['frequencyPenalty', fields.frequencyPenalty],
];

function parseLogitBias(body: RequestBody): ReadonlyMap<number, number> {
  const biases = new Map<number, number>();
  const value = body.raw(fields.logitBias);
  if (value === null) return biases;
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

function parseStop(value: unknown): readonly string[] {
  if (value === null) return [];
  if (typeof value === 'string') return [parseStopSequence(value, 'stop')];
  if (!Array.isArray(value)) throw wrongType('stop', 'a string or an array of strings', value);
  if (value.length > fields.MAX_STOP_SEQUENCES) {
    throw wrongValue('stop', `at most ${fields.MAX_STOP_SEQUENCES} strings`);
  }
  return value.map((sequence, index) => parseStopSequence(sequence, `stop[${index}]`));
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

function parseIncludeUsage(body: RequestBody, kind: GenerationKind): boolean | null {
  const value = body.raw(fields.streamOptions);
  if (value === null) return null;
  const options = new RequestBody(asObject(value, 'stream_options'), kind, 'stream_options.');
  return options.read(fields.includeUsage);
}

function parseResponseFormat(body: RequestBody, kind: GenerationKind): ResponseFormat {
  const field = RESPONSE_FORMATS[kind];
  const value = body.raw(field);
  if (value === null) return { type: 'text' };
  const object = asObject(value, 'response_format');
  const type = object['type'] ?? null;
  if (type === null) throw missing('response_format.type');
  if (typeof type !== 'string') throw wrongType('response_format.type', 'a string', type);
  switch (type) {
    case 'text':
      refuseUnknown(object, ONLY_TYPE, 'response_format.');
      return { type };
    case 'json_object':
      refuseUnknown(object, ONLY_TYPE, 'response_format.');
      return { type };
    case 'json_schema':
      refuseUnknown(object, WITH_SCHEMA, 'response_format.');
      return parseJsonSchemaFormat(object['json_schema'] ?? null);
    default:
      throw wrongValue('response_format.type', 'one of text, json_object, json_schema');
  }
}

const RESPONSE_FORMATS: Readonly<Record<GenerationKind, Field>> = {
  chat: fields.chatResponseFormat,
  text: fields.textResponseFormat,
};
const ONLY_TYPE = new Set(['type']);
const WITH_SCHEMA = new Set(['type', 'json_schema']);
const SCHEMA_FIELDS = new Set(['name', 'description', 'schema', 'strict']);

function parseJsonSchemaFormat(value: unknown): ResponseFormat {
  const path = 'response_format.json_schema';
  if (value === null) throw missing(path);
  const object = asObject(value, path);
  refuseUnknown(object, SCHEMA_FIELDS, `${path}.`);
  const { name = null, description = null, schema = null, strict = null } = object;
  if (name === null) throw missing(`${path}.name`);
  const checkedName = asString(name, `${path}.name`);
  if (!NAME.test(checkedName)) {
    throw wrongValue(`${path}.name`, '1 to 64 letters, digits, "_" or "-"');
  }
  if (description !== null) asString(description, `${path}.description`);
  if (schema === null) throw missing(`${path}.schema`);
  if (strict !== null && typeof strict !== 'boolean') throw wrongType(`${path}.strict`, 'a boolean', strict);
  return {
    type: 'json_schema',
    name: checkedName,
    schema: checkJsonSchema(schema, `${path}.schema`),
    strict,
  };
}
