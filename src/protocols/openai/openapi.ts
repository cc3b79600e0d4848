import { type GenerationKind, FINISH_REASONS, IMAGE_DETAILS } from '../../core/generation.ts';
import { type ErrorCode, ERRORS, errorType } from '../../core/errors.ts';
import type { EndpointDescription, ModelsDescription, Protocol, ValueBounds } from '../../core/protocol.ts';
import { choices, FIELDS, MAX_CALL_ID, MAX_TOOL_DESCRIPTION, NAME } from './fields.ts';
import { BODY_VALUES, EMBEDDING_FIELDS } from './embedding-fields.ts';
import { RERANK_FIELDS } from './rerank-fields.ts';
import type { Field } from '../field.ts';
import { MAX_TOOLS } from '../tooling.ts';
import { MAX_IMAGE_PIXELS, MAX_IMAGE_URL } from '../images.ts';
import {
  anyObject,
  boolean,
  given,
  integer,
  list,
  nothing,
  nullable,
  number,
  object,
  otherType,
  reference,
  string,
  typed,
  typedGiven,
} from '../schema-notation.ts';
import { bodyBounds } from '../../json/json-body.ts';
import {
  ANNOTATIONS,
  MAX_SCHEMA_CHARACTERS,
  MAX_SCHEMA_DEPTH,
  MAX_SCHEMA_NODES,
  SUPPORTED_KEYWORDS,
} from '../../json/json-schema.ts';

/** An object of the OpenAPI document. */
export type Json = Readonly<Record<string, unknown>>;

/** Paths and schemas of another API to include in the document. */
export interface DocumentPart {
  paths: Json;
  schemas: Json;
  securitySchemes: Json;
}

/** Returns the OpenAPI 3.1 document of the protocols, of the rest of `/v1`, and of `part`. */
export function openApiDocument(
  info: { version: string; serverUrl: string; maxChoices: number },
  protocols: readonly Protocol[],
  part: DocumentPart,
): object {
  const described = protocols.map((protocol) => ({ path: protocol.path, ...protocol.describe(info) }));
  return {
    openapi: '3.1.0',
    info: {
      title: 'Sluice',
      version: info.version,
      description: 'An inference service that is compatible with the OpenAI completions APIs.',
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
    },
    servers: [{ url: info.serverUrl }],
    security: [{ key: [] }],
    paths: {
      ...Object.fromEntries(described.map(({ path, operation }) => [path, { post: operation }])),
      ...Object.assign({}, ...described.map(({ paths }) => paths)),
      ...modelPaths(described.flatMap(({ models }) => models ?? [])),
      '/healthz': { get: publicOperation('health', 'Check that the process is running.') },
      '/readyz': {
        get: publicOperation('readiness', 'Check that the service is ready to generate.', {
          503: {
            description:
              'Not ready: the models are still loading, the database is not available, or the service is stopping. The response shows the progress of loading models.',
            ...json({ type: 'object' }),
          },
        }),
      },
      '/metrics': {
        get: {
          operationId: 'metrics',
          summary: "Get metrics in Prometheus' text format, with an admin key.",
          security: [{ key: [] }],
          responses: {
            200: { description: 'The metrics.', content: { 'text/plain': { schema: { type: 'string' } } } },
            ...errorResponses([...HTTP_ERRORS, 'invalid_api_key', 'admin_required', 'storage_unavailable']),
          },
        },
      },
      '/openapi.json': { get: publicOperation('document', 'Get this document.') },
      ...part.paths,
    },
    components: {
      securitySchemes: {
        ...SECURITY_SCHEMES,
        ...part.securitySchemes,
      },
      schemas: {
        ...Object.assign({}, ...described.map(({ schemas }) => schemas)),
        RequestMessage: messageSchema(),
        ...REQUEST_SCHEMAS,
        ...RESPONSE_SCHEMAS,
        StreamError: object({ error: errorDetail(), usage: reference('Usage') }),
        Error: object({ error: errorDetail() }),
        ...part.schemas,
      },
    },
  };
}

const SECURITY_SCHEMES: Json = {
  key: { type: 'http', scheme: 'bearer', description: 'An API key.' },
  headerKey: {
    type: 'apiKey',
    in: 'header',
    name: 'x-api-key',
    description: 'An API key, where the clients of Anthropic send it.',
  },
};

/** The operations that return models, in OpenAI's form and in these. */
function modelPaths(forms: readonly ModelsDescription[]): Json {
  const headers = forms.map(({ header }) => header);
  const anyOf = (...names: string[]): Json => ({ anyOf: names.map(reference) });
  const pathParameter = (name: string): Json => ({
    name,
    in: 'path',
    required: true,
    schema: { type: 'string' },
  });
  const list = anyOf('ModelList', ...forms.map((form) => form.list));
  const one = anyOf('Model', ...forms.map((form) => form.one));
  const errors = ['model_not_allowed', 'model_not_found', 'engine_unavailable'] as const;
  return {
    '/v1/models': { get: { ...getOperation('listModels', 'List models.', list), parameters: headers } },
    '/v1/models/{namespace}/{name}': {
      get: {
        ...getOperation('getModel', 'Get a model.', one, errors),
        parameters: [...['namespace', 'name'].map(pathParameter), ...headers],
      },
    },
  };
}

export function describeChat({ maxChoices }: { maxChoices: number }): EndpointDescription {
  const ChatRequest = { ...requestSchema('chat', maxChoices), anyOf: CHAT_COMBINATIONS };
  const operation = completions('createChatCompletion', 'Create a chat completion.', 'Chat');
  return { operation, schemas: { ChatRequest } };
}

export function describeText({ maxChoices }: { maxChoices: number }): EndpointDescription {
  const TextRequest = { ...requestSchema('text', maxChoices), allOf: textCombinations(maxChoices) };
  const operation = completions('createCompletion', 'Create a text completion.', 'Text');
  return { operation, schemas: { TextRequest } };
}

export function describeEmbeddings(): EndpointDescription {
  const operation = generationOperation(
    'createEmbeddings',
    'Create embeddings.',
    reference('EmbeddingRequest'),
    { description: 'The vectors, in the order of the inputs.', whole: reference('EmbeddingResponse') },
    BODY_VALUES,
  );
  const EmbeddingResponse = object({
    object: { const: 'list' },
    data: list(
      object({
        object: { const: 'embedding' },
        index: integer,
        embedding: {
          description: 'An array of numbers, or Base64 of numbers in 32 bits, little-endian.',
          anyOf: [list(number), { ...string, contentEncoding: 'base64' }],
        },
      }),
    ),
    model: string,
    usage: object({ prompt_tokens: integer, total_tokens: integer }),
  });
  return {
    operation,
    schemas: { EmbeddingRequest: objectSchema(EMBEDDING_FIELDS, ''), EmbeddingResponse },
  };
}

export function describeRerank(): EndpointDescription {
  const operation = generationOperation(
    'rerank',
    'Rank documents by their relevance to a query.',
    reference('RerankRequest'),
    { description: 'The scores, highest first.', whole: reference('RerankResponse') },
  );
  const RerankResponse = object({
    id: string,
    model: string,
    results: list(
      object({
        index: { ...integer, description: 'The position of the document in the request.' },
        relevance_score: number,
        'document?': object({ text: string }),
      }),
    ),
    usage: object({ prompt_tokens: integer, total_tokens: integer }),
    meta: object({ tokens: object({ input_tokens: integer }) }),
  });
  return {
    operation,
    schemas: { RerankRequest: objectSchema(RERANK_FIELDS, ''), RerankResponse },
    paths: { '/v2/rerank': { post: { ...operation, operationId: 'rerankForCohere' } } },
  };
}

/** `name` is the start of the names of the schemas. */
function completions(operationId: string, summary: string, name: string): Json {
  return generationOperation(operationId, summary, reference(`${name}Request`), {
    description: 'The completion; with `stream`, server-sent events that end with `data: [DONE]`.',
    whole: reference(`${name}Response`),
    event: eventSchema(reference(`${name}Chunk`)),
  });
}

/** Describes the operation of a protocol. */
export function generationOperation(
  operationId: string,
  summary: string,
  request: Json,
  response: { description: string; whole: Json; event?: Json; errors?: ErrorForm },
  bodyValues?: ValueBounds,
): Json {
  return {
    operationId,
    summary,
    parameters: [IDEMPOTENCY_KEY],
    requestBody: {
      description: bodyBounds('`limits.bodyBytes`', bodyValues),
      required: true,
      content: { 'application/json': { schema: request } },
    },
    responses: {
      200: {
        description: response.description,
        headers: { 'x-sluice-idempotent-replay': REPLAY },
        content: {
          'application/json': { schema: response.whole },
          ...(response.event && { 'text/event-stream': { schema: response.event } }),
        },
      },
      ...errorResponses(GENERATION_ERRORS, response.errors),
    },
  };
}

const IDEMPOTENCY_KEY: Json = {
  name: 'Idempotency-Key',
  in: 'header',
  required: false,
  description:
    'A unique value for this request. If the account repeats the request with the same value and body while it is running, or for some time afterwards, the repeated request gets the same response.',
  schema: { type: 'string', minLength: 1, maxLength: 255, pattern: '^[ -~]+$' },
};

const REPLAY: Json = {
  description: 'Set if this is the response of an earlier request with the same `Idempotency-Key`.',
  schema: { type: 'string', const: 'true' },
};

/** The schema of one event of a stream. OpenAPI 3.2 has `itemSchema` for it, 3.1 only `schema`. */
function eventSchema(chunk: Json): Json {
  return {
    ...object({
      data: {
        anyOf: [
          jsonText(chunk),
          {
            ...jsonText(reference('StreamError')),
            description: 'An error after the 200 status has been sent. `[DONE]` follows.',
          },
          { const: '[DONE]', description: 'The end of the stream.' },
        ],
      },
    }),
    description: 'One server-sent event. Comments (`: keep-alive`) may come between events.',
  };
}

/** The schema of one event of a stream whose events have types. */
export function typedEvent(data: Json): Json {
  return {
    ...object({ event: string, data: jsonText(data) }),
    description: 'One server-sent event. The type is in `event` and in the data.',
  };
}

function jsonText(contentSchema: Json): Json {
  return { ...string, contentMediaType: 'application/json', contentSchema };
}

/** The security of operations that clients of Anthropic's API call. */
export const KEY_OR_HEADER: readonly Json[] = [{ key: [] }, { headerKey: [] }];

function getOperation(
  operationId: string,
  summary: string,
  schema: Json,
  errors: readonly ErrorCode[] = [],
): Json {
  return {
    operationId,
    summary,
    // The operator can require a key.
    security: [...KEY_OR_HEADER, {}],
    responses: {
      200: { description: 'The response.', ...json(schema) },
      ...errorResponses([...HTTP_ERRORS, ...KEY_ERRORS, ...errors]),
    },
  };
}

/** An endpoint without authentication. */
function publicOperation(operationId: string, summary: string, otherResponses: Json = {}): Json {
  const responses = {
    200: { description: 'The response.', ...json({ type: 'object' }) },
    ...otherResponses,
    ...errorResponses(HTTP_ERRORS),
  };
  return { operationId, summary, security: [], responses };
}

function json(schema: Json): Json {
  return { content: { 'application/json': { schema } } };
}

/** `top_logprobs` above 0 requires `logprobs: true`. */
const CHAT_COMBINATIONS: readonly Json[] = [
  { required: ['logprobs'], properties: { logprobs: { const: true } } },
  { properties: { top_logprobs: { enum: [0, null] } } },
];

/** The schema of a message: some fields depend on the role. */
function messageSchema(): Json {
  const schema = objectSchema(
    FIELDS.filter(({ kinds }) => kinds.includes('chat')),
    'messages[].',
  );
  const none = { tool_calls: { maxItems: 0 }, tool_call_id: { type: 'null' } };
  const written = { content: { not: { type: 'null' } } };
  return {
    ...schema,
    anyOf: [
      {
        required: ['content'],
        properties: { role: { enum: ['system', 'developer', 'user'] }, ...written, ...none },
      },
      { properties: { role: { const: 'assistant' }, tool_call_id: none.tool_call_id } },
      {
        required: ['tool_call_id'],
        properties: {
          role: { const: 'tool' },
          tool_calls: none.tool_calls,
          tool_call_id: { type: 'string' },
        },
      },
    ],
  };
}

/** The number of prompts times `n` is limited, and `echo` cannot be combined with `logprobs`. */
function textCombinations(maxChoices: number): readonly Json[] {
  const counts = Array.from({ length: maxChoices }, (_, index) => Math.floor(maxChoices / (index + 1)));
  return [
    {
      anyOf: [...new Set(counts)].map((prompts) => ({
        properties: { n: { maximum: Math.floor(maxChoices / prompts) }, prompt: { maxItems: prompts } },
      })),
    },
    {
      anyOf: [
        { properties: { echo: { enum: [false, null] } } },
        { properties: { logprobs: { type: 'null' } } },
      ],
    },
  ];
}

function requestSchema(kind: GenerationKind, maxChoices: number): Json {
  const fields = FIELDS.filter((field) => field.kinds.includes(kind));
  return objectSchema(
    fields.map((field) =>
      field === choices ? { ...field, schema: { ...field.schema, maximum: maxChoices } } : field,
    ),
    '',
  );
}

/** The schema of the object at `parent`. Fields that are not in the table are ignored with a note. */
export function objectSchema(fields: readonly Field[], parent: string): Json {
  const own = fields.filter(
    ({ path }) => path.startsWith(parent) && !path.slice(parent.length).includes('.'),
  );
  return {
    type: 'object',
    required: own.filter(({ required }) => required).map(({ name }) => name),
    properties: Object.fromEntries(own.map((field) => [field.name, fieldSchema(field, fields)])),
  };
}

function fieldSchema(field: Field, fields: readonly Field[]): Json {
  const { description } = field;
  if (field.use === 'noted') return { description: `Ignored with a note. ${description}` };
  if (field.use === 'refused') return { enum: [null, ...field.neutral], description };
  const nested = fields.some(({ path }) => path.startsWith(`${field.path}.`));
  const schema = nested ? objectSchema(fields, `${field.path}.`) : field.schema;
  if (field.required || Object.keys(schema).length === 0) return { ...schema, description };
  // Defaults that are not constant, such as the context length, are only in the description.
  const value = 'fallback' in field && field.fallback !== null ? { default: field.fallback } : {};
  return { anyOf: [schema, nothing], ...value, description };
}

const SCHEMA_BOUNDS = `A JSON Schema that uses only supported keywords, with at most ${MAX_SCHEMA_CHARACTERS} characters and ${MAX_SCHEMA_NODES} schemas, nested at most ${MAX_SCHEMA_DEPTH} levels deep. Engines refuse some combinations of keywords and some patterns.`;

/** An ID of a call, or a name that a model called. */
export const callId = { ...string, minLength: 1, maxLength: MAX_CALL_ID };
const functionName = { ...string, pattern: NAME.source };

export const imageUrl = {
  ...string,
  description: `A data URI in base64 with a PNG, JPEG, GIF or WebP image of at most ${MAX_IMAGE_PIXELS} pixels. If the model takes URLs, also an \`https\` URL of at most ${MAX_IMAGE_URL} characters, with a public host and the port 443.`,
};

const strictSchema = {
  anyOf: [
    { const: true },
    { ...anyObject, propertyNames: { enum: [...SUPPORTED_KEYWORDS, ...ANNOTATIONS] } },
  ],
  description: SCHEMA_BOUNDS,
};

const looseSchema = {
  anyOf: [{ const: true }, anyObject],
  description: `A JSON Schema with any keywords, at most ${MAX_SCHEMA_CHARACTERS} characters. Absent: any JSON object.`,
};

/** The fields of a format with a JSON schema: those of a strict one, and of one that is not. */
export const SCHEMA_FORMATS: readonly Parameters<typeof given>[0][] = [
  { name: functionName, 'description?': string, schema: strictSchema, strict: { const: true } },
  { name: functionName, 'description?': string, 'schema?': looseSchema, 'strict?': { const: false } },
];

/** Schemas of request objects that the field table does not describe. */
const REQUEST_SCHEMAS = {
  ContentPart: {
    oneOf: [
      typedGiven('text', { text: string, 'cache_control?': {} }),
      typedGiven('image_url', {
        image_url: given({ url: imageUrl, 'detail?': { enum: IMAGE_DETAILS } }),
        'cache_control?': {},
      }),
      typedGiven('refusal', { refusal: string }),
    ],
  },
  RequestToolCall: typedGiven('function', {
    id: callId,
    function: given({
      name: callId,
      arguments: {
        ...string,
        description:
          'JSON text of an object. An empty string means `{}`. Any other text is sent to the model as `{"INVALID_JSON":"…"}`.',
      },
    }),
    'index?': {},
    'extra_content?': {},
    'cache_control?': {},
  }),
  Tool: {
    description: 'Tools of other types are ignored with a note.',
    anyOf: [
      typedGiven('function', {
        function: given({
          name: functionName,
          'description?': { ...string, maxLength: MAX_TOOL_DESCRIPTION },
          'parameters?': {
            ...anyObject,
            description:
              'JSON Schema of the arguments. Null: no arguments. With `strict`, only supported keywords are allowed.',
          },
          'strict?': boolean,
        }),
        'cache_control?': {},
        'name?': {},
      }),
      otherType('function'),
    ],
  },
  ToolChoice: {
    anyOf: [
      { ...string, enum: ['none', 'auto', 'required'] },
      reference('FunctionChoice'),
      typedGiven('allowed_tools', {
        allowed_tools: given({
          mode: { ...string, enum: ['auto', 'required'] },
          tools: list(reference('FunctionChoice'), { minItems: 1, maxItems: MAX_TOOLS }),
        }),
      }),
    ],
  },
  FunctionChoice: typedGiven('function', { function: given({ name: functionName }) }),
  ResponseFormat: {
    anyOf: [
      given({ type: { enum: ['text', 'json_object'] } }),
      typedGiven('json_schema', { json_schema: { anyOf: SCHEMA_FORMATS.map(given) } }),
    ],
  },
};

const finishReason = { ...string, enum: FINISH_REASONS };
const usage = reference('Usage');
const logprob = { token: string, logprob: number, bytes: nullable(list(integer)) };
const head = (name: string) => ({ id: string, object: { const: name }, created: integer, model: string });
const role = { const: 'assistant' };
const logprobs = nullable(reference('ChatLogprobs'));
const textChoice = { index: integer, text: string, logprobs: nullable(reference('TextLogprobs')) };

/** Schemas of responses and chunks. */
const RESPONSE_SCHEMAS = {
  /** Only chats have `completion_tokens_details`. */
  Usage: object({
    prompt_tokens: integer,
    completion_tokens: integer,
    total_tokens: integer,
    prompt_tokens_details: object({ cached_tokens: integer }),
    'completion_tokens_details?': object({ reasoning_tokens: integer }),
  }),
  ToolCall: typed('function', {
    id: string,
    function: object({
      name: string,
      arguments: {
        ...string,
        description: 'JSON text of an object, incomplete if `finish_reason` is `length`.',
      },
    }),
  }),
  /** The first delta of a call has every field, with empty arguments; later deltas have a part of the arguments. */
  ToolCallDelta: object({
    index: integer,
    'id?': string,
    'type?': { const: 'function' },
    function: object({ 'name?': string, arguments: string }),
  }),
  ChatLogprobs: object({
    content: list(object({ ...logprob, top_logprobs: list(object(logprob)) })),
    refusal: nothing,
  }),
  TextLogprobs: object({
    tokens: list(string),
    token_logprobs: list(number),
    top_logprobs: list({ ...anyObject, additionalProperties: number }),
    text_offset: list(integer),
  }),
  ChatResponse: object({
    ...head('chat.completion'),
    choices: list(
      object({
        index: integer,
        message: object({
          role,
          content: nullable(string),
          'reasoning_content?': string,
          'tool_calls?': list(reference('ToolCall'), { minItems: 1 }),
          refusal: nothing,
        }),
        logprobs,
        finish_reason: finishReason,
      }),
    ),
    usage,
  }),
  ChatChunk: object({
    ...head('chat.completion.chunk'),
    choices: list(
      object({
        index: integer,
        delta: object({
          'role?': role,
          'content?': string,
          'reasoning_content?': string,
          'tool_calls?': list(reference('ToolCallDelta'), { minItems: 1, maxItems: 1 }),
        }),
        'logprobs?': logprobs,
        finish_reason: nullable(finishReason),
      }),
    ),
    'usage?': nullable(usage),
  }),
  TextResponse: object({
    ...head('text_completion'),
    choices: list(object({ ...textChoice, finish_reason: finishReason })),
    usage,
  }),
  TextChunk: object({
    ...head('text_completion'),
    choices: list(object({ ...textChoice, finish_reason: nullable(finishReason) })),
    'usage?': nullable(usage),
  }),
  Model: object({
    id: string,
    object: { const: 'model' },
    created: integer,
    owned_by: string,
    architecture: object({ instruct_type: nullable(string), modality: string, tokenizer: string }),
    context_length: integer,
    max_completion_tokens: integer,
    pricing: object({ prompt: string, completion: string, 'input_cache_read?': string }),
    quantization: string,
  }),
  ModelList: object({ data: list(reference('Model')) }),
};

/** Errors that every endpoint can return. */
export const HTTP_ERRORS = [
  'invalid_value',
  'request_timeout',
  'request_too_large',
  'unsupported_content_encoding',
  'expectation_failed',
  'headers_too_large',
  'internal_error',
  'unsupported_http_version',
] as const satisfies readonly ErrorCode[];

/** Errors of endpoints that check a key. */
export const KEY_ERRORS = [
  'invalid_api_key',
  'storage_unavailable',
  'shutting_down',
] as const satisfies readonly ErrorCode[];

/** Errors of endpoints that can receive a body. */
export const BODY_ERRORS = ['concurrent_body_bytes', 'overloaded'] as const satisfies readonly ErrorCode[];

/** Errors of a query that does not match its schema. */
export const QUERY_ERRORS = ['invalid_type', 'unsupported_parameter'] as const satisfies readonly ErrorCode[];

/** Errors of a JSON body that does not match its schema. */
export const JSON_ERRORS = [
  'invalid_json',
  'missing_required_parameter',
  ...QUERY_ERRORS,
] as const satisfies readonly ErrorCode[];

/** Errors of requests with a model that count against limits. */
export const MODEL_ERRORS: readonly ErrorCode[] = [
  ...HTTP_ERRORS,
  ...KEY_ERRORS,
  ...BODY_ERRORS,
  ...JSON_ERRORS,
  'model_not_allowed',
  'model_not_found',
  'requests_per_minute',
];

const GENERATION_ERRORS: readonly ErrorCode[] = [
  ...MODEL_ERRORS,
  'invalid_encrypted_content',
  'context_length_exceeded',
  'schema_too_slow',
  'request_crashed_engine',
  'tokens_per_minute',
  'concurrent_requests',
  'insufficient_quota',
  'engine_unavailable',
  'queue_full',
  'response_timeout',
  'response_too_large',
  'idempotency_in_flight',
  'idempotency_key_reused',
];

/** The name of the schema of errors, and their status. */
interface ErrorForm {
  schema: string;
  statusOf(status: number): number;
}

const OPENAI_ERRORS: ErrorForm = { schema: 'Error', statusOf: (status) => status };

/** Returns the error responses by status, each with its possible codes. */
export function errorResponses(codes: Iterable<ErrorCode>, form = OPENAI_ERRORS): Json {
  const byStatus = Map.groupBy(new Set(codes), (code) => form.statusOf(ERRORS[code][0]));
  const content = { 'application/json': { schema: reference(form.schema) } };
  return Object.fromEntries(
    [...byStatus].map(([status, codesOfStatus]) => {
      const description = codesOfStatus.map((code) => `\`${code}\`: ${ERRORS[code][1]}`).join('\n\n');
      return [status, { description, content }];
    }),
  );
}

/** The schema of error responses. */
function errorDetail(): Json {
  const types = new Set(Object.values(ERRORS).map(([status]) => errorType(status)));
  return object({
    message: string,
    type: { ...string, enum: [...types] },
    param: nullable(string),
    code: { enum: [...Object.keys(ERRORS), null] },
  });
}
