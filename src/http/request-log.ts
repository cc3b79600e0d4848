import type { FastifyRequest } from 'fastify';
import type { GenerationRecord } from '../inference/record.ts';
import type { Log } from '../log.ts';

/** How a request ended, beside what its generation recorded. */
export interface RequestOutcome {
  /** The endpoint's, without a query. */
  path: string;
  /** As it was, or would have been, had the 200 not gone out. */
  status: number;
  /** An error's code, `hung_up`, or null. */
  code: string | null;
  stream: boolean;
  model: string | null;
  /** What really happened, for operators. */
  cause?: string;
}

/** The longest id of a caller's own that is logged, in characters; longer ones and others than printable ASCII are not. */
const CLIENT_REQUEST_ID = /^[\x20-\x7e]{1,512}$/;

/** One line for one generation: who, what, how much, how long. Never the prompt nor the answer. */
export function logRequest(
  log: Log,
  request: FastifyRequest,
  outcome: RequestOutcome,
  record: GenerationRecord,
): void {
  const { usage } = record;
  const since = (atMs: number | null) =>
    atMs === null ? null : Math.round((atMs - record.startedAtMs) * 10) / 10;
  log.info('request', {
    requestId: request.id,
    clientRequestId: clientRequestId(request),
    path: outcome.path,
    ip: request.ip,
    key: request.caller?.id,
    account: request.caller?.accountId,
    model: outcome.model,
    replica: record.replica,
    stream: outcome.stream,
    status: outcome.status,
    code: outcome.code,
    cause: outcome.cause,
    finishReason: outcome.code === null ? record.finishReason : null,
    promptTokens: usage.promptTokens,
    cachedTokens: usage.cachedTokens,
    completionTokens: usage.completionTokens,
    queueMs: since(record.slotAtMs),
    ttftMs: since(record.firstTokenAtMs),
    totalMs: since(record.endedAtMs ?? performance.now()),
  });
}

/** The caller's own id of a request; undefined: it sent none, or one that is none. */
export function clientRequestId(request: FastifyRequest): string | undefined {
  const value = request.headers['x-client-request-id'];
  return typeof value === 'string' && CLIENT_REQUEST_ID.test(value) ? value : undefined;
}
