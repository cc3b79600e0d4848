import type { FastifyReply, FastifyRequest } from 'fastify';
import type { AuthenticatedKey } from '../accounts/keys.ts';
import { StalledError } from '../connection-watch.ts';
import { ServiceError } from '../errors.ts';
import { EventStream, KEEP_ALIVE } from '../event-stream.ts';
import type { GenerationRequest } from '../generation.ts';
import { complete } from '../inference/complete.ts';
import { ClientDisconnected } from '../inference/complete.ts';
import { GenerationRecord } from '../inference/record.ts';
import type { Log } from '../log.ts';
import type { ServedModel } from '../routing/served-model.ts';
import { ResponseBuilder, type ResponseIdentity } from '../openai/response.ts';
import { parseChatRequest } from '../openai/chat-request.ts';
import { refuseUnsupported } from '../openai/request-body.ts';
import { parseJsonBody } from '../openai/json-body.ts';
import { DONE, StreamFormatter } from '../openai/stream.ts';
import { parseTextRequest } from '../openai/text-request.ts';
import { answerJson, commonHeaders, refuse, type Exchange } from './exchange.ts';
import { probeStreamWith } from './half-close.ts';
import { limitHeaders } from './limit-headers.ts';
import { clientRequestId, logRequest, type RequestOutcome } from './request-log.ts';
import type { HttpContext } from './context.ts';

const EMPTY = new Uint8Array(0);

/**
 * Both generation endpoints: body -> request -> events -> answer. The caller has been authenticated by a hook,
 * before the body was read. Every way out writes one answer and one line of the request log.
 */
export async function generate(
  context: HttpContext,
  kind: GenerationRequest['kind'],
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<void> {
  reply.hijack();
  // The hook lets no request pass that has no caller.
  const caller = request.caller as AuthenticatedKey;
  const record = new GenerationRecord();
  const exchange: Exchange = { request: request.raw, response: reply.raw, requestId: request.id, record };
  const stop = new AbortController();
  const path = kind === 'chat' ? '/v1/chat/completions' : '/v1/completions';
  const outcome: RequestOutcome = { path, status: 200, code: null, stream: false, model: null };
  context.activity.begin(stop, caller);
  const body = request.bodyMemory?.retain();
  let over = false;
  reply.raw.once('close', () => {
    if (!reply.raw.writableFinished) {
      if (over) context.inference.accounting.ledger.undelivered(request.id);
      else if (!stop.signal.aborted) stop.abort(hungUp(request));
    }
    if (over) context.activity.end(stop);
  });
  try {
    const { model, parsed } = parse(context, kind, request, caller);
    outcome.stream = parsed.stream;
    outcome.model = parsed.model;
    const asker = { requestId: request.id, clientRequestId: clientRequestId(request) ?? null, caller };
    const events = complete(context.inference, model, asker, parsed, stop, record);
    const identity = identify(kind, exchange.requestId, parsed.model);
    if (parsed.stream) await stream(context, exchange, identity, parsed, events, outcome, record);
    else {
      const answer = new ResponseBuilder(identity, parsed);
      for await (const event of events) answer.add(event);
      answerJson(exchange, 200, answer.body());
    }
  } catch (error) {
    const fault = asServiceError(error, exchange.requestId, context.log);
    note(outcome, fault);
    if (record.limitHeaders.length === 0 && !reply.raw.headersSent) {
      record.limitHeaders = await limitHeaders(context.inference.accounting, request, outcome.model);
    }
    if (fault instanceof ServiceError) refuse(exchange, fault, context.limits.drainBytes);
    else reply.raw.destroy();
  } finally {
    // Running until the last byte is out: a stopping service lets the caller have the whole answer.
    over = true;
    body?.release();
    if (reply.raw.closed) context.activity.end(stop);
    logRequest(context.log, request, outcome, record);
    context.load.ended({
      failed: outcome.code !== null && outcome.code !== 'hung_up',
      promptTokens: record.usage.promptTokens,
      completionTokens: record.usage.completionTokens,
      ttftMs: record.firstTokenAtMs === null ? null : record.firstTokenAtMs - record.startedAtMs,
    });
  }
}

function parse(
  context: HttpContext,
  kind: GenerationRequest['kind'],
  request: FastifyRequest,
  caller: AuthenticatedKey,
): { model: ServedModel; parsed: GenerationRequest } {
  const body = parseJsonBody(request.body instanceof Uint8Array ? request.body : EMPTY);
  // The request lives as long as its generation; what was parsed is all that is needed.
  request.body = undefined;
  const options = { maxChoices: context.limits.choices, internal: false };
  const parsed = kind === 'chat' ? parseChatRequest(body, options) : parseTextRequest(body, options);
  const model = context.router.model(parsed.request.model, caller.models);
  if (caller.models?.has(model.id) === false) throw notAllowed(model.id);
  refuseUnsupported(parsed, model.dialects);
  return { model, parsed: parsed.request };
}

function hungUp({ raw }: FastifyRequest): ClientDisconnected {
  const { errored } = raw.socket;
  return errored instanceof StalledError ? new ClientDisconnected(errored.message) : new ClientDisconnected();
}

/** A key that may use some models only asked for another. */
export function notAllowed(model: string): ServiceError {
  return new ServiceError('model_not_allowed', `This API key is not allowed to use the model \`${model}\`.`, {
    param: 'model',
  });
}

function identify(kind: GenerationRequest['kind'], requestId: string, model: string): ResponseIdentity {
  const prefix = kind === 'chat' ? 'chatcmpl-' : 'cmpl-';
  return { id: prefix + requestId.replaceAll('-', ''), created: Math.floor(Date.now() / 1000), model };
}

async function stream(
  context: HttpContext,
  exchange: Exchange,
  identity: ResponseIdentity,
  request: GenerationRequest,
  events: ReturnType<typeof complete>,
  outcome: RequestOutcome,
  record: GenerationRecord,
): Promise<void> {
  using out = new EventStream(exchange.response, context.writes, context.stream, () =>
    commonHeaders(exchange),
  );
  probeStreamWith(exchange.response, () => void out.write(KEEP_ALIVE));
  const formatter = new StreamFormatter(identity, request);
  try {
    for await (const event of events) {
      const drained = out.write(formatter.format(event));
      if (drained) await drained;
    }
    out.end(DONE);
  } catch (error) {
    const fault = asServiceError(error, exchange.requestId, context.log);
    if (!out.opened || !(fault instanceof ServiceError)) throw fault;
    note(outcome, fault);
    out.end(formatter.error(fault, record.usage) + DONE);
  }
}

/**
 * What a fault is for the caller; a hang-up stays what it is, and whatever we did not foresee is a 500. A 500, an
 * engine's too, says the request id and nothing else.
 */
function asServiceError(error: unknown, requestId: string, log: Log): ServiceError | ClientDisconnected {
  if (error instanceof ClientDisconnected) return error;
  if (!(error instanceof ServiceError)) {
    log.error('unexpected error', { requestId, error: error instanceof Error ? error : String(error) });
  } else if (error.code !== 'internal_error') return error;
  return new ServiceError('internal_error', `The service failed. The request ID is ${requestId}.`, {
    cause: error instanceof ServiceError ? error.cause : error,
  });
}

function note(outcome: RequestOutcome, fault: ServiceError | ClientDisconnected): void {
  if (fault instanceof ClientDisconnected) {
    outcome.code = 'hung_up';
    outcome.cause = fault.message;
    return;
  }
  outcome.code = fault.code;
  outcome.status = fault.status;
  outcome.cause = fault.cause instanceof Error ? fault.cause.message : undefined;
}
