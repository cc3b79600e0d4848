import { z } from 'zod';
import type { ErrorCode } from '../../errors.ts';
import { errorAnswers, type DocumentPart } from '../../openai/openapi.ts';
import type { Access } from './contract/operation.ts';
import type { Endpoint } from './endpoint.ts';
import { API_ENDPOINTS } from './endpoints.ts';
import { named } from './contract/schemas.ts';

type Json = Record<string, unknown>;

/** The management interface in OpenAPI 3.1, from the schemas that its routes parse with. */
export function managementPart(): DocumentPart {
  part ??= {
    paths: Object.fromEntries(
      [...Map.groupBy(API_ENDPOINTS, ({ path }) => path)].map(([path, endpoints]) => [
        path,
        Object.fromEntries(endpoints.map((one) => [one.method.toLowerCase(), operation(one)])),
      ]),
    ),
    schemas: components(),
    securitySchemes: {
      admin: { type: 'http', scheme: 'bearer', description: 'An API key of the kind `admin`.' },
      session: {
        type: 'apiKey',
        in: 'cookie',
        name: 'sluice.session_token',
        description:
          'The session of a person who is signed in to the console; under https its name begins with `__Host-`. Changes also take the `Origin` of the console.',
      },
    },
  };
  return part;
}

/** It is the same each time, and costs some milliseconds. */
let part: DocumentPart | undefined;

/** Codes that every endpoint of this interface can answer. */
const COMMON: readonly ErrorCode[] = [
  'invalid_api_key',
  'internal_error',
  'storage_unavailable',
  'shutting_down',
];
/** What else an endpoint can say to those who may not call it. */
const ERRORS_OF: Readonly<Record<Access, readonly ErrorCode[]>> = {
  open: [],
  'signed-in': ['sign_in_required'],
  any: [],
  account: [],
  member: ['admin_required'],
  owner: ['admin_required', 'owner_required'],
  operator: ['admin_required'],
};
const PERSON = { session: [] };
/** One of them is enough; none: nobody need be known. */
const SECURITY_OF: Readonly<Record<Access, readonly Record<string, never[]>[]>> = {
  open: [],
  'signed-in': [PERSON],
  any: [{ key: [] }, PERSON],
  account: [{ key: [] }, PERSON],
  member: [{ admin: [] }, PERSON],
  owner: [{ admin: [] }, PERSON],
  operator: [{ admin: [] }, PERSON],
};
const OF_QUERY: readonly ErrorCode[] = ['invalid_value', 'invalid_type', 'unsupported_parameter'];
const OF_BODY: readonly ErrorCode[] = [
  'invalid_json',
  'missing_required_parameter',
  ...OF_QUERY,
  'request_timeout',
  'request_too_large',
];

function operation(endpoint: Endpoint): Json {
  const { operationId, summary, access, status, query, body, answer, errors } = endpoint;
  const codes = new Set([
    ...(body ? OF_BODY : query ? OF_QUERY : []),
    ...ERRORS_OF[access],
    ...(endpoint.method === 'GET' ? [] : (['origin_not_allowed'] as const)),
    ...errors,
    ...COMMON,
  ]);
  return {
    operationId,
    summary,
    tags: ['management'],
    security: SECURITY_OF[access],
    parameters: [...pathParameters(endpoint), ...queryParameters(endpoint)],
    ...(body && { requestBody: { required: true, ...json(body) } }),
    responses: {
      [status]: { description: 'The answer.', ...(answer && json(answer)) },
      ...errorAnswers([...codes]),
    },
  };
}

function pathParameters({ path }: Endpoint): Json[] {
  return [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => ({
    name,
    in: 'path',
    required: true,
    schema: { type: 'string' },
  }));
}

function queryParameters({ query }: Endpoint): Json[] {
  return Object.entries(query?.shape ?? {}).map(([name, schema]) => {
    const { description, ...rest } = toJsonSchema(schema);
    return { name, in: 'query', required: !schema.isOptional(), description, schema: rest };
  });
}

function json(schema: z.ZodType): Json {
  const id = named.get(schema)?.id;
  if (id === undefined) throw new TypeError('a body has no name in the document');
  return { content: { 'application/json': { schema: { $ref: reference(id) } } } };
}

const reference = (id: string): string => `#/components/schemas/${id}`;

function components(): Json {
  const { schemas } = z.toJSONSchema(named, { uri: reference, io: 'input', override });
  return Object.fromEntries(Object.entries(schemas).map(([id, schema]) => [id, embedded(schema)]));
}

function toJsonSchema(schema: z.core.$ZodType): Json {
  return embedded(z.toJSONSchema(schema, { io: 'input', override }));
}

/** A schema as part of the document, which says for all of them what dialect they are in. */
function embedded(schema: object): Json {
  return Object.fromEntries(Object.entries(schema).filter(([word]) => word !== '$schema' && word !== '$id'));
}

/** What zod says beside a format is the format once more, as an expression of hundreds of characters. */
function override({ jsonSchema }: { jsonSchema: z.core.JSONSchema.BaseSchema }): void {
  if (jsonSchema.format === 'date-time') delete jsonSchema.pattern;
}
