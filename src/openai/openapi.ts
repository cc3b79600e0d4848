import { ERRORS, type ErrorCode } from '../errors.ts';
import type { Field, GenerationKind } from './field.ts';
import { FIELDS } from './fields.ts';
import { ANSWER_SCHEMAS, REQUEST_SCHEMAS } from './openapi-schemas.ts';

type Json = Readonly<Record<string, unknown>>;

/** Another part of the interface, for the same document. */
export interface DocumentPart {
  paths: Json;
  schemas: Json;
  securitySchemes: Json;
}

/**
 * The OpenAPI 3.1 document of the interface, with another part that is described elsewhere. Requests come from the
 * table of fields, errors from the table of codes.
 */
export function openApiDocument(info: { version: string; serverUrl: string }, part: DocumentPart): object {
  return {
    openapi: '3.1.0',
    info: {
      title: 'Sluice',
      version: info.version,
      description: 'An inference service with the wire format of the OpenAI chat completions API.',
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
    },
    servers: [{ url: info.serverUrl }],
    security: [{ key: [] }],
    paths: {
      '/v1/chat/completions': { post: generation('chat') },
      '/v1/completions': { post: generation('text') },
      '/v1/models': {
        get: read('listModels', 'List the models.', reference('ModelList'), [401]),
      },
      '/v1/models/{namespace}/{name}': {
        get: {
          ...read('getModel', 'Describe one model.', reference('Model'), [401, 404]),
          parameters: ['namespace', 'name'].map((name) => ({
            name,
            in: 'path',
            required: true,
            schema: { type: 'string' },
          })),
        },
      },
      '/healthz': { get: open('health', 'Say that the process lives.') },
      '/readyz': {
        get: open('readiness', 'Say whether the service can generate.', {
          503: {
            description: 'Not ready, and how far the models are, without its database, or stopping.',
            ...json({ type: 'object' }),
          },
        }),
      },
      '/openapi.json': { get: open('document', 'This document.') },
      ...part.paths,
    },
    components: {
      securitySchemes: {
        key: { type: 'http', scheme: 'bearer', description: 'An API key of the service.' },
        ...part.securitySchemes,
      },
      schemas: {
        ChatRequest: requestSchema('chat'),
        TextRequest: requestSchema('text'),
        ...REQUEST_SCHEMAS,
        ...ANSWER_SCHEMAS,
        Error: errorSchema(),
        ...part.schemas,
      },
    },
  };
}

/** Codes of the management interface alone. */
const MANAGEMENT: readonly ErrorCode[] = ['admin_required', 'not_found'];
const CODES = (Object.keys(ERRORS) as ErrorCode[]).filter((code) => !MANAGEMENT.includes(code));

const GENERATION_ERRORS = [400, 401, 403, 404, 408, 413, 429, 431, 500, 503];

function generation(kind: GenerationKind): Json {
  const [name, id, summary] =
    kind === 'chat'
      ? ['Chat', 'createChatCompletion', 'Answer a conversation.']
      : ['Text', 'createCompletion', 'Go on from a text.'];
  return {
    operationId: id,
    summary,
    requestBody: {
      required: true,
      content: { 'application/json': { schema: reference(`${name}Request`) } },
    },
    responses: {
      200: {
        description: 'The whole answer; with `stream`, events that end in `data: [DONE]`.',
        content: {
          'application/json': { schema: reference(`${name}Answer`) },
          'text/event-stream': { schema: reference(`${name}Chunk`) },
        },
      },
      ...errorAnswers(codesOf(GENERATION_ERRORS)),
    },
  };
}

function read(operationId: string, summary: string, schema: Json, errors: readonly number[]): Json {
  return {
    operationId,
    summary,
    // The key is optional here unless the operator asks for it.
    security: [{ key: [] }, {}],
    responses: {
      200: { description: 'The answer.', ...json(schema) },
      ...errorAnswers(codesOf([...errors, 500])),
    },
  };
}

/** An endpoint that asks for no key. */
function open(operationId: string, summary: string, others: Json = {}): Json {
  const responses = { 200: { description: 'The answer.', ...json({ type: 'object' }) }, ...others };
  return { operationId, summary, security: [], responses };
}

function json(schema: Json): Json {
  return { content: { 'application/json': { schema } } };
}

function codesOf(statuses: readonly number[]): ErrorCode[] {
  return CODES.filter((code) => statuses.includes(ERRORS[code][0]));
}

/** Answers in the one shape of errors, by status; each tells which of these codes it can have. */
export function errorAnswers(codes: readonly ErrorCode[]): Json {
  const byStatus = Map.groupBy(codes, (code) => ERRORS[code][0]);
  return Object.fromEntries(
    [...byStatus].map(([status, those]) => {
      const description = those.map((code) => `\`${code}\`: ${ERRORS[code][2]}`).join('\n\n');
      return [status, { description, ...json(reference('Error')) }];
    }),
  );
}

function requestSchema(kind: GenerationKind): Json {
  return objectSchema(
    FIELDS.filter((field) => field.kinds.includes(kind) && !field.internal),
    '',
  );
}

/** The object whose fields stand directly below `parent` in the table. */
function objectSchema(fields: readonly Field[], parent: string): Json {
  const own = fields.filter(
    ({ path }) => path.startsWith(parent) && !path.slice(parent.length).includes('.'),
  );
  const taken = own.filter((field) => field.use !== 'refused' || field.neutral.length > 0);
  return {
    type: 'object',
    additionalProperties: false,
    required: own.filter((field) => field.required).map((field) => field.path.slice(parent.length)),
    properties: Object.fromEntries(
      taken.map((field) => [field.path.slice(parent.length), fieldSchema(field, fields)]),
    ),
  };
}

function fieldSchema(field: Field, fields: readonly Field[]): Json {
  const { description } = field;
  if (field.use === 'refused') return { enum: [null, ...field.neutral], description };
  const nested = fields.some(({ path }) => path.startsWith(`${field.path}.`));
  const schema = nested ? objectSchema(fields, `${field.path}.`) : field.schema;
  if (field.required || Object.keys(schema).length === 0) return { ...schema, description };
  // Defaults that are no values, such as what the context leaves, stand in the description alone.
  const value = 'fallback' in field && field.fallback !== null ? { default: field.fallback } : {};
  return { anyOf: [schema, { type: 'null' }], ...value, description };
}

function errorSchema(): Json {
  const types = new Set(Object.values(ERRORS).map(([, type]) => type));
  return {
    type: 'object',
    required: ['error'],
    properties: {
      error: {
        type: 'object',
        required: ['message', 'type', 'param', 'code'],
        properties: {
          message: { type: 'string' },
          type: { type: 'string', enum: [...types] },
          param: { type: ['string', 'null'] },
          code: { type: ['string', 'null'], enum: [...Object.keys(ERRORS), null] },
        },
      },
    },
  };
}

function reference(name: string): Json {
  return { $ref: `#/components/schemas/${name}` };
}
