import type { ServiceError } from './errors.ts';
import type { Feature } from './features.ts';
import type { GenerationEvent, GenerationKind, GenerationRequest, ModelCard, Usage } from './generation.ts';
import type { Notes } from './notes.ts';

/**
 * A language that callers speak at one path: it reads requests, and writes responses, streams and errors. Inside the
 * service, every protocol has the same requests and events (`generation.ts`).
 */
export interface Protocol {
  /** Names the protocol in the ledger, in metrics, traces and filters, such as `chat`. */
  readonly id: string;
  readonly path: string;
  /** A second path with the same requests. */
  readonly otherPath?: string;
  /** The kind of its requests. */
  readonly kind: GenerationKind;
  /** Bounds of the JSON values in a body. Default: those of all bodies. */
  readonly bodyValues?: ValueBounds;
  /** Throws a `ServiceError` with the field. */
  parse(body: Record<string, unknown>, options: ParseOptions): ParsedRequest;
  /** Returns the path of the field that asks for a feature, for errors. */
  paramOf(feature: Feature): string;
  /**
   * Returns the headers of a response with its request ID and limits, as names and values in turn. Absent: they are sent as
   * `x-request-id` and as `limits`, the `x-ratelimit-*` headers.
   */
  headers?(requestId: string, limits: readonly string[]): readonly string[];
  errorStatus(error: ServiceError): number;
  errorBody(error: ServiceError, requestId: string): string;
  /** Returns the frames that end a stream with an error. `usage`: what is charged; `sent`: the last frames that were sent. */
  errorFrames(error: ServiceError, usage: Usage, sent: string): string;
  /** Describes the endpoint for the OpenAPI document. */
  describe(limits: { maxChoices: number }): EndpointDescription;
}

/** Maximum numbers of values. */
export interface ValueBounds {
  readonly values: number;
  /** Strings, including the names of members, arrays and objects. They cost more than numbers. */
  readonly notNumbers: number;
}

export interface ParseOptions {
  /** Maximum number of prompts times `n`. */
  maxChoices: number;
  /** Receives what has no effect. */
  notes: Notes;
  /** Seals texts for the account of the caller. */
  sealer: Sealer;
}

/** Encrypts texts that a caller keeps and sends back. Only the same account can send them back. */
export interface Sealer {
  seal(text: string): string;
  /** Returns null for what was not sealed for this account. */
  open(sealed: string): string | null;
}

/** A request that was read, and the writers of its response. */
export interface ParsedRequest {
  readonly generation: GenerationRequest;
  /** Returns the path of the schema of the parameters of a function, by its index; null: of the response format. */
  schemaPath(tool: number | null): string;
  /** Notes what the model cannot do. Absent: nothing depends on the model. Not called before the model is known. */
  fit?(card: ModelCard): void;
  /** Does work for the response to a large request that would hold the event loop. Called before the writers, if at all. */
  prepare?(): Promise<void>;
  /** Returns the writer of a response that is not a stream. */
  whole(requestId: string): WholeResponse;
  /** Returns the writer of a stream. Only for a request whose response is one. */
  stream(requestId: string): ResponseStream;
}

export interface WholeResponse {
  add(event: GenerationEvent): void;
  /** About how much memory the response takes so far, in bytes. */
  readonly heldBytes: number;
  /** The JSON body, complete after the `end` event. A large one is in parts, because copying it would take long. */
  body(): string | readonly Buffer[];
}

export interface ResponseStream {
  /** About how much memory is held for later frames, in bytes. */
  readonly heldBytes: number;
  /** Returns the frames to send for an event, or ''. */
  format(event: GenerationEvent): string;
  /** Returns the frames that end the stream with an error. `usage`: what is charged. */
  error(error: ServiceError, usage: Usage): string;
  /** Returns the frames that keep the client waiting while there are no events. */
  keepAlive(): string;
  /** The last frames of a stream without an error. */
  readonly end: string;
}

/** An operation and the schemas that it refers to, in the form of OpenAPI 3.1. */
export interface EndpointDescription {
  operation: Readonly<Record<string, unknown>>;
  schemas: Readonly<Record<string, unknown>>;
  /** The operations of other paths of the protocol. */
  paths?: Readonly<Record<string, unknown>>;
  /** How its clients get models. Absent: as OpenAI's clients do. */
  models?: ModelsDescription;
}

/** The form of models in a protocol, with the names of its schemas. */
export interface ModelsDescription {
  /** The header that asks for this form, as a parameter. */
  header: Readonly<Record<string, unknown>>;
  list: string;
  one: string;
}
