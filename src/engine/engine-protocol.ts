import { ServiceError } from '../core/errors.ts';
import {
  type GenerationRequest,
  type Sampling,
  type SamplingNumber,
  REASONING_EFFORTS,
  type ChatRequest,
  type Continuation,
  type EmbeddingRequest,
  type GenerationKind,
  type JsonSchema,
  type Message,
  type ResponseFormat,
  type Role,
  type TextRequest,
  type Tool,
  type ToolCall,
  type ToolChoice,
  type Usage,
  type EngineEvent,
} from '../core/generation.ts';
import { errorBody } from '../core/error-body.ts';
import { valueBounds } from '../json/json-body.ts';
import { accepts, type ScalarField } from '../protocols/field.ts';
import { encodeVector } from '../json/vectors.ts';
import { BIAS, SAMPLING_FIELDS } from '../protocols/openai/fields.ts';
import type { JsonObject } from '../json/values.ts';

/**
 * The protocol between the service and its engines, on this machine and on others. The service sends the request of a
 * generation as JSON; the engine responds with one line of JSON per event, called a frame. Text without log probabilities
 * is an array, to keep the most frequent event short; other events are objects with the fields of `EngineEvent`. A
 * vector is Base64 of its numbers, in 32 bits, little-endian.
 * Both ends must have the same version of this file: see `ENGINE_PROTOCOL`.
 */

/**
 * The version, which `GET /health` of an engine reports. The service uses only engines of its own version. Increment it
 * when `GenerationRequest`, `EngineEvent` or their formats change.
 */
export const ENGINE_PROTOCOL = 5;

export const GENERATE_PATH = '/generate';

/** Counts the prompt tokens of a request, which has the same body as at `GENERATE_PATH`. */
export const COUNT_PATH = '/count';

/** Deletes what an engine keeps for later requests with a `cacheScope`. */
export const FORGET_PATH = '/forget';

export interface ForgetBody {
  cacheScope: string;
}

/** The response of `COUNT_PATH`. */
export interface PromptCountBody {
  promptTokens: number;
}

/** Media type of frames. */
export const EVENT_FRAMES = 'application/x-sluice-events';

/**
 * Maximum number of JSON values in the body of a request. The token IDs of a continued generation in the largest contexts
 * fit, and all that a service accepts from its callers.
 */
export const ENGINE_VALUES = valueBounds(4_000_000);

/** A request as JSON. It is nested no deeper than the caller's, so that it has the same maximum depth. */
type EngineRequest = { version: number; sampling: EngineSampling } & Omit<GenerationRequest, 'sampling'>;

type EngineSampling = Omit<Sampling, 'logitBias' | 'explicit'> & { logitBias: readonly [number, number][] };

/** Returns the body of a request for an engine, which is converted to JSON next. `model`: its name on the engine. */
export function engineRequest(
  request: GenerationRequest,
  changes: Pick<GenerationRequest, 'model' | 'maxTokens'>,
): EngineRequest {
  const { explicit: _, logitBias, ...sampling } = request.sampling;
  const { continuation } = request;
  return {
    version: ENGINE_PROTOCOL,
    ...request,
    ...changes,
    sampling: { ...sampling, logitBias: [...logitBias] },
    // The engine generates the text again from the token IDs.
    continuation: continuation && { ...continuation, text: '' },
    // These are not for the engine: the trace is in a header.
    user: null,
    traceparent: null,
  };
}

/**
 * Reads the body of a request from a service. Throws `invalid_value` for another version of the protocol, and for values
 * that no service sends.
 */
export function readEngineRequest(body: JsonObject): GenerationRequest {
  const { version, ...fields } = body;
  if (version !== ENGINE_PROTOCOL) {
    throw new ServiceError(
      'invalid_value',
      `This engine expects version ${ENGINE_PROTOCOL} of the engine protocol. Install the same version of Sluice for the service and its engines.`,
    );
  }
  const invalid = invalidField(fields);
  if (invalid !== null) {
    throw new ServiceError('invalid_value', `\`${invalid}\` is not a value that a service sends.`, {
      param: invalid,
    });
  }
  const request = fields as unknown as Omit<EngineRequest, 'version'>; // Written by `engineRequest`.
  const logitBias = new Map(request.sampling.logitBias);
  const read = { ...request, sampling: { ...request.sampling, logitBias, explicit: new Set() } };
  return read as unknown as GenerationRequest; // The other fields are as they were in the request.
}

/** Throws unless the engine whose `GET /health` returned this body speaks this version of the protocol. */
export function checkEngineVersion(health: JsonObject): void {
  const { protocol } = health;
  if (protocol === ENGINE_PROTOCOL) return;
  const found = typeof protocol === 'number' ? `version ${protocol}` : 'no version';
  throw new Error(
    `the engine has ${found} of the engine protocol, and this service version ${ENGINE_PROTOCOL}; install the same version of Sluice for both`,
  );
}

/** An empty line, which keeps the connection from timing out. */
export const KEEP_ALIVE_FRAME = '\n';

export function formatFrame(event: EngineEvent): string {
  if (event.type === 'token' && event.logprobs === null) {
    const { choice, completionTokens, tokenIds } = event;
    const ids = tokenIds === undefined ? '' : `,[${tokenIds.join(',')}]`;
    return `[${choice},${completionTokens},${JSON.stringify(event.text)}${ids}]\n`;
  }
  if (event.type === 'embedding') {
    return `${JSON.stringify({ ...event, vector: encodeVector(event.vector) })}\n`;
  }
  return `${JSON.stringify(event)}\n`;
}

/** Formats an error, which ends the response. */
export function formatErrorFrame(error: ServiceError): string {
  return `${errorBody(error)}\n`;
}

/**
 * The types and bounds of the fields of a request that an engine relies on. Services send only checked requests, but
 * anyone who reaches the port of an engine can send others. JSON schemas are checked when they are compiled.
 */

/** Returns the path of the first invalid value, relative to this one; null if there is none. */
type Check = (value: unknown) => string | null;

/** Checks for the fields of `T`. The compiler finds a field without a check. */
type Checks<T> = { readonly [Field in keyof T]-?: Check };

const is =
  (valid: (value: unknown) => boolean): Check =>
  (value) =>
    valid(value) ? null : '';

const anything: Check = () => null;
const string = is((value) => typeof value === 'string');
const boolean = is((value) => typeof value === 'boolean');
const object = is((value) => typeof value === 'object' && value !== null && !Array.isArray(value));

function integer(least: number, most = Number.MAX_SAFE_INTEGER): Check {
  return is((value) => Number.isSafeInteger(value) && Number(value) >= least && Number(value) <= most);
}

function orNull(check: Check): Check {
  return (value) => (value === null ? null : check(value));
}

function listOf(check: Check, least = 0): Check {
  return (value) => {
    if (!Array.isArray(value) || value.length < least) return '';
    for (const [index, item] of value.entries()) {
      const invalid = check(item);
      if (invalid !== null) return `[${index}]${invalid}`;
    }
    return null;
  };
}

function fieldsOf<T>(checks: Checks<T>): Check {
  const list = Object.entries<Check>(checks);
  return (value) => {
    if (object(value) !== null) return '';
    for (const [field, check] of list) {
      const invalid = check((value as Record<string, unknown>)[field]);
      if (invalid !== null) return `.${field}${invalid}`;
    }
    return null;
  };
}

/** Checks an object of one of several kinds. `field` has the kind. */
function variantOf(field: string, variants: Readonly<Record<string, Check>>): Check {
  return (value) => {
    const kind = object(value) === null ? (value as Record<string, unknown>)[field] : null;
    const check = typeof kind === 'string' && Object.hasOwn(variants, kind) ? variants[kind] : undefined;
    return check ? check(value) : `.${field}`;
  };
}

type MessageOf<R extends Role> = Extract<Message, { role: R }>;

const absent = is((value) => value === undefined);

const calls = listOf(fieldsOf<ToolCall>({ id: string, name: string, arguments: string }));
const text = fieldsOf<{ content: string }>({ content: string });
const messages = listOf(
  variantOf('role', {
    system: text,
    // Engines read only text, and the service sends them nothing else.
    user: fieldsOf<Omit<MessageOf<'user'>, 'role'>>({ content: string, images: absent }),
    tool: fieldsOf<Omit<MessageOf<'tool'>, 'role'>>({ toolCallId: string, content: string, images: absent }),
    assistant: fieldsOf<Omit<MessageOf<'assistant'>, 'role'>>({
      content: orNull(string),
      reasoning: orNull(string),
      toolCalls: calls,
    }),
  } satisfies Record<Role, Check>),
  1,
);

const tools = listOf(
  fieldsOf<Tool>({ name: string, description: orNull(string), parameters: object, strict: boolean }),
);
const toolChoice = variantOf('type', {
  auto: anything,
  none: anything,
  required: anything,
  function: fieldsOf<{ name: string }>({ name: string }),
  allowed: fieldsOf<{ mode: string; names: string[] }>({ mode: string, names: listOf(string) }),
} satisfies Record<ToolChoice['type'], Check>);

const responseFormat = variantOf('type', {
  text: anything,
  json_object: anything,
  json_schema: fieldsOf<{ schema: JsonSchema }>({
    schema: (value) => (typeof value === 'boolean' ? null : object(value)),
  }),
} satisfies Record<ResponseFormat['type'], Check>);

/** Checks a sampling parameter against the bounds of its field. */
function parameter({ schema, fallback }: ScalarField<number | null>): Check {
  const check = is((value) => accepts(schema, value));
  return fallback === null ? orNull(check) : check;
}

const parameters = Object.fromEntries(
  Object.entries(SAMPLING_FIELDS).map(([name, field]) => [name, parameter(field)]),
) as Checks<Pick<Sampling, SamplingNumber>>;
const token = integer(0);
const bias = is(
  (value) =>
    Array.isArray(value) && value.length === 2 && token(value[0]) === null && accepts(BIAS, value[1]),
);
const sampling = fieldsOf<EngineSampling>({
  ...parameters,
  // The service sends only 32 bits.
  seed: orNull(integer(0, 0xffff_ffff)),
  logitBias: listOf(bias),
});

const count = integer(0);
const continuation = fieldsOf<Continuation>({
  promptTokenIds: orNull(listOf(count)),
  tokenIds: listOf(count),
  text: string,
  usage: fieldsOf<Usage>({
    promptTokens: count,
    completionTokens: count,
    cachedTokens: count,
    reasoningTokens: count,
  }),
});

const SHARED: Checks<Omit<GenerationRequest, 'kind'>> = {
  model: string,
  maxTokens: orNull(integer(1)),
  sampling,
  stop: listOf(is((value) => typeof value === 'string' && value !== '')),
  choices: integer(1),
  logprobs: orNull(integer(0, 20)),
  responseFormat,
  stream: boolean,
  includeUsage: orNull(boolean),
  tokenIds: boolean,
  continuation: orNull(continuation),
  cacheScope: orNull(string),
  traceparent: anything,
  user: anything,
};

const requests = variantOf('kind', {
  chat: fieldsOf<Omit<ChatRequest, 'kind'>>({
    ...SHARED,
    messages,
    imageTokens: absent,
    tools,
    toolChoice,
    parallelToolCalls: boolean,
    reasoningEffort: orNull(is((value) => REASONING_EFFORTS.some((effort) => effort === value))),
    templateVariables: object,
  }),
  text: fieldsOf<Omit<TextRequest, 'kind'>>({ ...SHARED, prompts: listOf(string, 1), echo: boolean }),
  embedding: fieldsOf<Omit<EmbeddingRequest, 'kind'>>({
    ...SHARED,
    maxTokens: integer(0, 0),
    inputs: listOf((value) => (typeof value === 'string' ? null : listOf(count, 1)(value)), 1),
    dimensions: orNull(integer(1)),
  }),
} satisfies Record<GenerationKind, Check>);

/** Returns the path of the first invalid field of a `GenerationRequest` in its form as JSON, or null. */
function invalidField(request: JsonObject): string | null {
  return requests(request)?.slice(1) ?? null;
}
