import type { TracingConfig } from '../config/schema.ts';
import type { GenerationKind, Usage } from '../generation.ts';
import type { Log } from '../log.ts';
import { ATTRIBUTES, OPERATIONS, SPANS } from './names.ts';
import { OtlpExporter, type AttributeValue, type Span } from './otlp.ts';
import {
  formatTraceparent,
  isSampled,
  newSpanId,
  newTraceId,
  parseTraceparent,
  type TraceContext,
} from './trace-context.ts';

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

  /** `instance` identifies this process. */
  constructor(config: TracingConfig, instance: string, log: Log) {
    this.#config = config;
    this.#exporter = new OtlpExporter(config, instance, log);
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

  /** Records the spans of a generation that has ended. */
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
