import { randomBytes } from 'node:crypto';
import type { TracingConfig } from '../config/schema.ts';
import type { GenerationKind, Usage } from '../core/generation.ts';
import { OtlpExporter, type AttributeValue, type ExporterOptions, type Span } from './otlp.ts';

/** The position of one generation in its trace. */
export interface Trace extends TraceContext {
  /** The span of the caller; null: none. */
  readonly parentId: string | null;
  /** The header for replicas, whose spans are children of the generation span. */
  readonly traceparent: string;
}

/** A generation that has ended. */
export interface TracedGeneration {
  requestId: string;
  kind: GenerationKind;
  path: string;
  /** Null: unknown. */
  model: string | null;
  stream: boolean;
  status: number;
  /** Error code, or `client_disconnected`; null: completed. */
  code: string | null;
}

/** The times and counts of a generation. Times in `…Ms` are monotonic; `startedAt` is in Unix milliseconds. */
export interface TracedRecord {
  readonly startedAt: number;
  readonly startedAtMs: number;
  readonly slotAtMs: number | null;
  readonly firstTokenAtMs: number | null;
  readonly endedAtMs: number | null;
  readonly replica: string | null;
  readonly attempts: number;
  readonly usage: Readonly<Usage>;
  readonly finishReason: string | null;
}

/**
 * Records a span for each generation, with spans for its phases, when it ends. Spans never contain prompts or
 * responses.
 */
export class Tracer implements AsyncDisposable {
  readonly #config: TracingConfig;
  readonly #exporter: OtlpExporter;

  constructor(config: TracingConfig, options: ExporterOptions) {
    this.#config = config;
    this.#exporter = new OtlpExporter(config, options);
  }

  /** Begins the span of a generation; `traceparent` is the header of its request. */
  begin(traceparent: string | string[] | undefined): Trace {
    const parent = parseTraceparent(traceparent);
    const { parentBased, ratio } = this.#config;
    const traceId = parent?.traceId ?? newTraceId();
    const sampled = parent !== null && parentBased ? parent.sampled : isSampled(traceId, ratio);
    const context = { traceId, spanId: newSpanId(), sampled };
    return { ...context, parentId: parent?.spanId ?? null, traceparent: formatTraceparent(context) };
  }

  end(trace: Trace, generation: TracedGeneration, record: TracedRecord): void {
    if (trace.sampled) this.#exporter.add(spansOf(trace, generation, record));
  }

  /** Sends the last spans. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#exporter[Symbol.asyncDispose]();
  }
}

function spansOf(
  { traceId, spanId, parentId }: Trace,
  generation: TracedGeneration,
  record: TracedRecord,
): Span[] {
  const { startedAt, startedAtMs, slotAtMs, firstTokenAtMs } = record;
  const endedAtMs = record.endedAtMs ?? performance.now();
  const unixUs = (atMs: number): number => Math.round((startedAt + atMs - startedAtMs) * 1000);
  const operation = OPERATIONS[generation.kind];
  const spans: Span[] = [
    {
      traceId,
      spanId,
      parentId,
      name: generation.model === null ? operation : `${operation} ${generation.model}`,
      kind: 'server',
      startUs: unixUs(startedAtMs),
      endUs: unixUs(endedAtMs),
      attributes: attributesOf(generation, record),
      failed: generation.status >= 500,
    },
  ];
  const add = (name: keyof typeof SPANS, startMs: number, endMs: number): void => {
    const times = { startUs: unixUs(startMs), endUs: unixUs(endMs) };
    const span = { traceId, spanId: newSpanId(), parentId: spanId, name, ...times };
    spans.push({ ...span, kind: 'internal', attributes: [], failed: false });
  };
  if (record.attempts > 0) add('queue', startedAtMs, slotAtMs ?? endedAtMs);
  if (slotAtMs !== null) add('prefill', slotAtMs, firstTokenAtMs ?? endedAtMs);
  if (firstTokenAtMs !== null) add('decode', firstTokenAtMs, endedAtMs);
  return spans;
}

function attributesOf(
  { requestId, kind, path, model, stream, status, code }: TracedGeneration,
  { replica, attempts, usage, finishReason, firstTokenAtMs }: TracedRecord,
): Span['attributes'] {
  const values: Record<keyof typeof ATTRIBUTES, AttributeValue | null> = {
    operation: OPERATIONS[kind],
    provider: 'sluice',
    requestModel: model,
    responseModel: firstTokenAtMs === null ? null : model,
    finishReasons: code === null && finishReason !== null ? [finishReason] : null,
    inputTokens: attempts === 0 ? null : usage.promptTokens,
    cachedTokens: attempts === 0 ? null : usage.cachedTokens,
    outputTokens: attempts === 0 ? null : usage.completionTokens,
    method: 'POST',
    route: path,
    status,
    errorType: code,
    requestId,
    streamed: stream,
    replica,
    attempts,
  };
  return Object.entries(ATTRIBUTES).flatMap(([key, [name]]) => {
    // The keys of the table.
    const value = values[key as keyof typeof ATTRIBUTES];
    return value === null ? [] : [[name, value] as const];
  });
}

/**
 * The names of spans and attributes. The `gen_ai.*` names are OpenTelemetry's semantic conventions for generative AI,
 * which are still in development. `docs/traces.md` has the same tables.
 */

/** The child spans of a request, with their meaning. */
export const SPANS = {
  queue:
    'From the arrival of the request until it has a slot or, on servers that do not report slots, until it is sent.',
  prefill: 'From the end of `queue` to the first token.',
  decode: 'From the first token to the end of the response.',
} as const satisfies Record<string, string>;

/** `gen_ai.operation.name` of each kind of request. */
const OPERATIONS = {
  chat: 'chat',
  text: 'text_completion',
  embedding: 'embeddings',
  rerank: 'rerank',
} as const;

/** The attributes of the span of a request, with their meaning. */
export const ATTRIBUTES = {
  operation: ['gen_ai.operation.name', '`chat`, `text_completion`, `embeddings` or `rerank`.'],
  provider: ['gen_ai.provider.name', 'Always `sluice`.'],
  requestModel: [
    'gen_ai.request.model',
    'The model ID; missing if the request was refused before its model was known.',
  ],
  responseModel: ['gen_ai.response.model', 'The model ID, if the response has begun.'],
  finishReasons: ['gen_ai.response.finish_reasons', 'A list with the finish reason of the last choice.'],
  inputTokens: ['gen_ai.usage.input_tokens', 'Prompt tokens, including cached ones.'],
  cachedTokens: ['gen_ai.usage.cache_read.input_tokens', 'Prompt tokens read from a prefix cache.'],
  outputTokens: ['gen_ai.usage.output_tokens', 'Completion tokens.'],
  method: ['http.request.method', 'Always `POST`.'],
  route: [
    'http.route',
    'The path of the endpoint, which tells the API, such as `/v1/chat/completions` or `/v1/embeddings`.',
  ],
  status: ['http.response.status_code', 'The HTTP status, as in the request log.'],
  errorType: [
    'error.type',
    'The error code, or `client_disconnected` if the client disconnected; missing if the request completed.',
  ],
  requestId: ['sluice.request.id', '`x-request-id`, as in the log and the ledger.'],
  streamed: ['sluice.request.stream', 'Whether the response is streamed.'],
  replica: ['sluice.replica', 'The name of the last replica; missing if the request was not sent to any.'],
  attempts: ['sluice.attempts', 'The number of replicas that the request was sent to.'],
} as const satisfies Record<string, readonly [name: string, meaning: string]>;

/** The position of a request in a trace, as in W3C's Trace Context. */
export interface TraceContext {
  /** 32 hexadecimal digits. */
  readonly traceId: string;
  /** 16 hexadecimal digits. */
  readonly spanId: string;
  /** Whether the trace is recorded. */
  readonly sampled: boolean;
}

/** A later version may append fields. */
const TRACEPARENT = /^(?!ff)([\da-f]{2})-(?!0{32})([\da-f]{32})-(?!0{16})([\da-f]{16})-([\da-f]{2})(-.*)?$/;

/** Parses the header `traceparent`. Returns null if it is missing or invalid. */
export function parseTraceparent(header: string | string[] | undefined): TraceContext | null {
  if (typeof header !== 'string') return null;
  const [, version, traceId = '', spanId = '', flags = '', rest] = TRACEPARENT.exec(header.trim()) ?? [];
  if (version === undefined || (version === '00' && rest !== undefined)) return null;
  return { traceId, spanId, sampled: (Number.parseInt(flags, 16) & 1) === 1 };
}

export function formatTraceparent({ traceId, spanId, sampled }: TraceContext): string {
  return `00-${traceId}-${spanId}-${sampled ? '01' : '00'}`;
}

function newTraceId(): string {
  return randomBytes(16).toString('hex');
}

function newSpanId(): string {
  return randomBytes(8).toString('hex');
}

/** `isSampled` uses the last `DIGITS` hexadecimal digits of the trace ID, which have `VALUES` possible values. */
const DIGITS = 13;
const VALUES = 16 ** DIGITS;

/** Whether a trace is among this share of all traces. Services with the same share choose the same traces. */
export function isSampled(traceId: string, ratio: number): boolean {
  return Number.parseInt(traceId.slice(-DIGITS), 16) < ratio * VALUES;
}
