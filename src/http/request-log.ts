import type { IncomingMessage } from 'node:http';
import type { FastifyRequest } from 'fastify';
import type { GenerationRecord } from '../inference/record.ts';
import type { Log } from '../support/log.ts';
import type { Notes } from '../core/notes.ts';
import type { GenerationExchange } from './exchange.ts';

/** The result of a request, in addition to its `GenerationRecord`. */
export interface RequestSummary {
  path: string;
  /** HTTP status. For a stream that failed after its 200 was sent, the status that its error would otherwise have had. */
  status: number;
  /** Error code, or `client_disconnected` if the client disconnected; null: completed. */
  code: string | null;
  stream: boolean;
  model: string | null;
  /** Internal cause of an error. */
  cause?: string;
}

/** Valid values of `X-Client-Request-Id`; others are ignored. */
const CLIENT_REQUEST_ID = /^[\x20-\x7e]{1,512}$/;

/** Logs one line for one generation, without its prompt and completion. */
export function logRequest(
  log: Log,
  { request, requestId, ip, caller }: GenerationExchange,
  summary: RequestSummary,
  record: GenerationRecord,
): void {
  const { usage } = record;
  const since = (atMs: number | null) => (atMs === null ? null : tenths(atMs - record.startedAtMs));
  log.info('request', {
    requestId,
    clientRequestId: clientRequestId(request),
    path: summary.path,
    ip,
    key: caller?.id,
    account: caller?.accountId,
    model: summary.model,
    replica: record.replica,
    continuedAfter: record.continuedAfter ?? undefined,
    stream: summary.stream,
    status: summary.status,
    code: summary.code,
    cause: summary.cause,
    notes: record.notes.count === 0 ? undefined : record.notes.header(),
    finishReason: summary.code === null ? record.finishReason : null,
    promptTokens: usage.promptTokens,
    cachedTokens: usage.cachedTokens,
    completionTokens: usage.completionTokens,
    reasoningTokens: usage.reasoningTokens,
    toolCalls: record.toolCalls?.total ?? 0,
    invalidToolCalls: record.toolCalls?.invalid ?? 0,
    queueMs: since(record.slotAtMs),
    ttftMs: since(record.firstTokenAtMs),
    totalMs: since(record.endedAtMs ?? performance.now()),
  });
}

/** The result of a request to count prompt tokens. */
export interface CountSummary {
  model: string;
  notes: Notes;
  tokens: number;
  /** False: an estimate. */
  exact: boolean;
  /** When the request had arrived, on the monotonic clock. */
  startedAtMs: number;
}

/** Logs one line for one count of prompt tokens. */
export function logCount(
  log: Log,
  { raw, id, ip, routeOptions, caller }: FastifyRequest,
  { model, notes, tokens, exact, startedAtMs }: CountSummary,
): void {
  log.info('token count', {
    requestId: id,
    clientRequestId: clientRequestId(raw),
    path: routeOptions.url,
    ip,
    key: caller?.id,
    account: caller?.accountId,
    model,
    notes: notes.count === 0 ? undefined : notes.header(),
    promptTokens: tokens,
    exact,
    totalMs: tenths(performance.now() - startedAtMs),
  });
}

function tenths(ms: number): number {
  return Math.round(ms * 10) / 10;
}

/** Returns the client request ID; undefined: missing or not valid. */
export function clientRequestId(request: IncomingMessage): string | undefined {
  const value = request.headers['x-client-request-id'];
  return typeof value === 'string' && CLIENT_REQUEST_ID.test(value) ? value : undefined;
}
