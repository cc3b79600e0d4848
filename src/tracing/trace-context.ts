import { randomBytes } from 'node:crypto';

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

export function newTraceId(): string {
  return randomBytes(16).toString('hex');
}

export function newSpanId(): string {
  return randomBytes(8).toString('hex');
}

/** `isSampled` uses the last `DIGITS` hexadecimal digits of the trace ID, which have `VALUES` possible values. */
const DIGITS = 13;
const VALUES = 16 ** DIGITS;

/** Whether a trace is among this share of all traces. Services with the same share choose the same traces. */
export function isSampled(traceId: string, ratio: number): boolean {
  return Number.parseInt(traceId.slice(-DIGITS), 16) < ratio * VALUES;
}
