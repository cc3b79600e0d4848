import { z } from 'zod';
import type { ErrorCode } from '../../core/errors.ts';
import { bodyBounds } from '../../json/json-body.ts';
import {
  BODY_ERRORS,
  errorResponses,
  HTTP_ERRORS,
  JSON_ERRORS,
  KEY_ERRORS,
  QUERY_ERRORS,
  type DocumentPart,
} from '../../protocols/openai/openapi.ts';
import type { Access } from './contract/operation.ts';
import type { Endpoint } from './endpoint.ts';
import { API_ENDPOINTS } from './endpoints.ts';
import { id, namedSchemas } from './contract/schemas.ts';
import { BODY_BYTES, BODY_VALUES, OPEN_BODY_BYTES } from './parse.ts';

type Json = Record<string, unknown>;

/** Returns the management API in OpenAPI 3.1, from the schemas that parse requests. */
export function managementPart(): DocumentPart {
  part ??= {
    paths: Object.fromEntries(
      [...Map.groupBy(API_ENDPOINTS, ({ path }) => path)].map(([path, endpoints]) => [
        path,
        Object.fromEntries(endpoints.map((endpoint) => [endpoint.method.toLowerCase(), operation(endpoint)])),
      ]),
    ),
    schemas: components(),
    securitySchemes: {
      admin: { type: 'http', scheme: 'bearer', description: 'An admin key.' },
      session: {
        type: 'apiKey',
        in: 'cookie',
        name: 'sluice.session_token',
        description:
          'The console session of a user. With https, the name of the cookie starts with `__Host-`. Requests that change something must also send the `Origin` of the console.',
      },
    },
  };
  return part;
}

/** Cached, because it takes some milliseconds. */
let part: DocumentPart | undefined;

/** Errors by access level. */
const ERRORS_OF: Readonly<Record<Access, readonly ErrorCode[]>> = {
  open: [],
  'signed-in': ['sign_in_required'],
  any: [],
  account: [],
  member: ['admin_required'],
  owner: ['admin_required', 'owner_required'],
  operator: ['admin_required'],
};
const SESSION = { session: [] };
/** Accepted credentials by access level. */
const SECURITY_OF: Readonly<Record<Access, readonly Record<string, never[]>[]>> = {
  open: [],
  'signed-in': [SESSION],
  any: [{ key: [] }, SESSION],
  account: [{ key: [] }, SESSION],
  member: [{ admin: [] }, SESSION],
  owner: [{ admin: [] }, SESSION],
  operator: [{ admin: [] }, SESSION],
};

function operation(endpoint: Endpoint): Json {
  const { operationId, summary, access, status, query, body, response, errors } = endpoint;
  const parameters = pathParameters(endpoint);
  const codes = [
    ...HTTP_ERRORS,
    ...KEY_ERRORS,
    ...(body ? JSON_ERRORS : query ? QUERY_ERRORS : []),
    ...(parameters.length > 0 ? (['not_found'] as const) : []),
    ...ERRORS_OF[access],
    ...(endpoint.method === 'GET' ? [] : (['origin_not_allowed', ...BODY_ERRORS] as const)),
    ...(endpoint.method === 'GET' || access === 'open' || access === 'operator'
      ? []
      : (['too_many_changes'] as const)),
    ...errors,
  ];
  return {
    operationId,
    summary,
    tags: ['management'],
    security: SECURITY_OF[access],
    parameters: [...parameters, ...queryParameters(endpoint)],
    ...(body && {
      requestBody: {
        description: bodyBounds(access === 'open' ? OPEN_BODY_BYTES : BODY_BYTES, BODY_VALUES),
        required: true,
        ...json(body),
      },
    }),
    responses: {
      [status]: { description: 'The response.', ...(response && json(response)) },
      ...errorResponses(codes),
    },
  };
}

function pathParameters({ path }: Endpoint): Json[] {
  return [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => ({
    name,
    in: 'path',
    required: true,
    schema: toJsonSchema(id),
  }));
}

function queryParameters({ query }: Endpoint): Json[] {
  return Object.entries(query?.shape ?? {}).map(([name, schema]) => {
    const { description, ...rest } = toJsonSchema(schema);
    return { name, in: 'query', required: !schema.isOptional(), description, schema: rest };
  });
}

function json(schema: z.ZodType): Json {
  const id = namedSchemas.get(schema)?.id;
  if (id === undefined) throw new TypeError('the schema of a body is not a component');
  return { content: { 'application/json': { schema: { $ref: reference(id) } } } };
}

const reference = (id: string): string => `#/components/schemas/${id}`;

function components(): Json {
  const { schemas } = z.toJSONSchema(namedSchemas, { uri: reference, io: 'input', override });
  return Object.fromEntries(Object.entries(schemas).map(([id, schema]) => [id, embedded(schema)]));
}

function toJsonSchema(schema: z.core.$ZodType): Json {
  return embedded(z.toJSONSchema(schema, { io: 'input', override }));
}

/** Removes the keywords that apply only to a standalone document. */
function embedded(schema: object): Json {
  return Object.fromEntries(Object.entries(schema).filter(([word]) => word !== '$schema' && word !== '$id'));
}

/** Removes zod's pattern of hundreds of characters, which repeats the format. */
function override({ jsonSchema }: { jsonSchema: z.core.JSONSchema.BaseSchema }): void {
  if (jsonSchema.format === 'date-time') delete jsonSchema.pattern;
}
