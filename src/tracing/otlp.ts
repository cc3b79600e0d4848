import type { Dispatcher } from 'undici';
import type { TracingConfig } from '../config/schema.ts';
import { Deadline } from '../support/deadline.ts';
import type { Log } from '../support/log.ts';
import { proxyAgent, requestWithProxy } from '../support/proxy-agent.ts';
import { VERSION } from '../support/version.ts';
import { messageOf } from '../support/thrown.ts';

/** The value of an attribute. Lists contain only strings. */
export type AttributeValue = string | number | boolean | readonly string[];

/** A span that has ended. Times are Unix microseconds. */
export interface Span {
  traceId: string;
  spanId: string;
  /** Null: it has no parent. */
  parentId: string | null;
  name: string;
  kind: 'server' | 'internal';
  startUs: number;
  endUs: number;
  attributes: readonly (readonly [name: string, value: AttributeValue])[];
  failed: boolean;
}

/** Maximum number of waiting spans. Additional ones are dropped. */
const MAX_SPANS = 4096;
const BATCH_SPANS = 512;
const INTERVAL_MS = 5000;
const TIMEOUT_MS = 10_000;
/** How long the last spans may take when the service stops, in milliseconds. */
const LAST_TIMEOUT_MS = 2000;
const WARNING_MS = 60_000;

/** Responses after which OTLP allows the same spans to be sent again. */
const RETRYABLE: ReadonlySet<number> = new Set([429, 502, 503, 504]);

const KINDS = { internal: 1, server: 2 } as const;
const STATUS_ERROR = 2;

export interface ExporterOptions {
  /** Identifies this process. */
  instance: string;
  /** The variables of proxies. */
  env: NodeJS.ProcessEnv;
  log: Log;
}

/** Sends spans to an OTLP/HTTP receiver in batches, as JSON. Failed batches are sent again if OTLP allows it. */
export class OtlpExporter implements AsyncDisposable {
  readonly #config: TracingConfig;
  readonly #log: Log;
  readonly #resource: readonly (readonly [string, AttributeValue])[];
  readonly #env: NodeJS.ProcessEnv;
  #agent: Dispatcher | null = null;
  readonly #timer: NodeJS.Timeout;
  /** Aborted when the last spans have taken too long. */
  readonly #closing = new AbortController();
  #spans: Span[] = [];
  #dropped = 0;
  #sending: Promise<void> | null = null;
  #warnedAtMs = -Infinity;

  constructor(config: TracingConfig, { instance, env, log }: ExporterOptions) {
    this.#config = config;
    this.#env = env;
    this.#log = log;
    const own = [
      ['service.name', 'sluice'],
      ['service.version', VERSION],
      ['service.instance.id', instance],
    ] as const;
    this.#resource = [...new Map<string, AttributeValue>([...own, ...config.resource])];
    this.#timer = setInterval(() => this.#flush(), INTERVAL_MS).unref();
  }

  add(spans: readonly Span[]): void {
    if (this.#spans.length + spans.length > MAX_SPANS) {
      this.#dropped += spans.length;
      return;
    }
    this.#spans.push(...spans);
    if (this.#spans.length >= BATCH_SPANS) this.#flush();
  }

  /** Sends the waiting spans, for up to 2 seconds. */
  async [Symbol.asyncDispose](): Promise<void> {
    clearInterval(this.#timer);
    using _ = new Deadline(LAST_TIMEOUT_MS, () => this.#closing.abort());
    await this.#sending;
    while (this.#spans.length > 0 && !this.#closing.signal.aborted) {
      await this.#send(this.#spans.splice(0, BATCH_SPANS));
    }
    await this.#agent?.destroy();
  }

  #flush(): void {
    if (this.#sending !== null || this.#spans.length === 0) return;
    const batch = this.#spans.splice(0, BATCH_SPANS);
    this.#sending = this.#send(batch).then((isRetryable) => {
      this.#sending = null;
      if (isRetryable) this.#spans.unshift(...batch);
      else if (this.#spans.length >= BATCH_SPANS) this.#flush();
    });
  }

  /** Returns whether the batch should be sent again later. Never rejects. */
  async #send(batch: readonly Span[]): Promise<boolean> {
    try {
      const headers = [...this.#config.headers].map(([name, value]) => [name, value.reveal()]);
      // An invalid variable of a proxy is an error here, and does not keep the service from starting.
      this.#agent ??= proxyAgent(this.#env, { connect: { timeout: TIMEOUT_MS }, connections: 1 });
      const { statusCode, body } = await requestWithProxy(new URL(this.#config.url), {
        method: 'POST',
        headers: { ...Object.fromEntries(headers), 'content-type': 'application/json' },
        body: JSON.stringify(exportRequest(this.#resource, batch)),
        dispatcher: this.#agent,
        signal: AbortSignal.any([AbortSignal.timeout(TIMEOUT_MS), this.#closing.signal]),
      });
      await body.dump();
      if (statusCode < 300) return false;
      this.#warn(`status ${statusCode}`);
      return RETRYABLE.has(statusCode);
    } catch (error) {
      this.#warn(messageOf(error));
      return true;
    }
  }

  #warn(reason: string): void {
    const nowMs = performance.now();
    if (nowMs - this.#warnedAtMs < WARNING_MS) return;
    this.#warnedAtMs = nowMs;
    this.#log.warn('cannot send traces', { reason, dropped: this.#dropped });
  }
}

/** Returns an `ExportTraceServiceRequest` of OTLP in its JSON encoding. */
function exportRequest(resource: Span['attributes'], spans: readonly Span[]): object {
  const scopeSpans = [{ scope: { name: 'sluice', version: VERSION }, spans: spans.map(spanJson) }];
  return { resourceSpans: [{ resource: { attributes: resource.map(attributeJson) }, scopeSpans }] };
}

function spanJson({ parentId, name, kind, startUs, endUs, attributes, failed, ...ids }: Span): object {
  return {
    ...ids,
    ...(parentId !== null && { parentSpanId: parentId }),
    name,
    kind: KINDS[kind],
    startTimeUnixNano: `${startUs}000`,
    endTimeUnixNano: `${endUs}000`,
    attributes: attributes.map(attributeJson),
    status: failed ? { code: STATUS_ERROR } : {},
  };
}

function attributeJson([key, value]: readonly [string, AttributeValue]): object {
  return { key, value: valueJson(value) };
}

function valueJson(value: AttributeValue): object {
  switch (typeof value) {
    case 'string':
      return { stringValue: value };
    case 'boolean':
      return { boolValue: value };
    case 'number':
      // This encoding represents 64-bit integers as strings.
      return { intValue: String(value) };
    default:
      return { arrayValue: { values: value.map(valueJson) } };
  }
}
