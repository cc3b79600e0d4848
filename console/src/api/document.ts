import { useQuery } from '@tanstack/react-query';
import { faultOf, unreachable, type ApiError } from './client.ts';

/** The parts of an OpenAPI 3.1 schema that the service's document uses. */
export interface Schema {
  $ref?: string;
  type?: string | readonly string[];
  enum?: readonly unknown[];
  const?: unknown;
  anyOf?: readonly Schema[];
  oneOf?: readonly Schema[];
  properties?: Readonly<Record<string, Schema>>;
  required?: readonly string[];
  items?: Schema;
  additionalProperties?: boolean | Schema;
  description?: string;
  contentSchema?: Schema;
  default?: unknown;
  format?: string;
  pattern?: string;
  minimum?: number;
  maximum?: number;
  exclusiveMinimum?: number;
  minLength?: number;
  maxLength?: number;
  minItems?: number;
  maxItems?: number;
  maxProperties?: number;
}

export interface Parameter {
  name: string;
  in: 'path' | 'query';
  required?: boolean;
  description?: string;
  schema: Schema;
}

type Content = Readonly<Record<string, { schema: Schema } | undefined>>;

export interface DocumentOperation {
  operationId: string;
  summary: string;
  security?: readonly Readonly<Record<string, unknown>>[];
  parameters?: readonly Parameter[];
  requestBody?: { content: Content };
  responses: Readonly<Record<string, { description: string; content?: Content }>>;
}

/** The OpenAPI document of the service. */
export interface ApiDocument {
  info: { version: string };
  security: readonly Readonly<Record<string, unknown>>[];
  paths: Readonly<Record<string, Readonly<Record<string, DocumentOperation>>>>;
  components: { schemas: Readonly<Record<string, Schema>> };
}

/** Loads the OpenAPI document. Rejects with an `ApiError`. */
async function readDocument(signal: AbortSignal): Promise<ApiDocument> {
  let response: Response;
  try {
    response = await fetch('/openapi.json', { signal });
  } catch (error) {
    signal.throwIfAborted();
    throw unreachable(error);
  }
  if (!response.ok) throw await faultOf(response);
  return (await response.json()) as ApiDocument; // The service's tests check the document against OpenAPI.
}

/** Loads the OpenAPI document once. */
export function useDocument() {
  return useQuery<ApiDocument, ApiError>({
    queryKey: ['document'],
    queryFn: ({ signal }) => readDocument(signal),
    staleTime: Infinity,
  });
}
