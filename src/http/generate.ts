import type { IncomingMessage } from 'node:http';
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { AuthenticatedKey } from '../accounts/keys.ts';
import { StalledError } from '../support/connection-watch.ts';
import { ServiceError } from '../core/errors.ts';
import { EventStream, KEEP_ALIVE, type KeepAliveOptions } from '../support/event-stream.ts';
import { ignoredFeature, outputOf, refuseOtherKind, withRecommended } from '../core/features.ts';
import { hasImages, type GenerationEvent, type GenerationRequest } from '../core/generation.ts';
import { ClientDisconnected, complete, type Generation } from '../inference/complete.ts';
import { GenerationRecord } from '../inference/record.ts';
import type { Log } from '../support/log.ts';
import type { ServedModel } from '../routing/served-model.ts';
import { admitImages } from '../protocols/images.ts';
import { refuseUnsupported } from '../replicas/wire/unsupported.ts';
import { Notes } from '../core/notes.ts';
import type { ParsedRequest, ResponseStream, WholeResponse } from '../core/protocol.ts';
import type { BodyReservation } from './body.ts';
import { commonHeaders, sendError, sendJson, type GenerationExchange } from './exchange.ts';
import type { FrameOutput, GenerationOutput } from './generation-output.ts';
import { probeStreamWith } from './half-close.ts';
import { limitHeaders } from './limit-headers.ts';
import { countRefusal, internalError, unexpectedError } from './refusal.ts';
import { clientRequestId, logRequest, type RequestSummary } from './request-log.ts';
import type { HttpContext } from './context.ts';

/** How a generation ended. */
export interface GenerationResult {
  summary: RequestSummary;
  record: GenerationRecord;
}

/**
 * Handles a request of `caller` to a generation endpoint. Sends one response and logs one line, however the request
 * ends.
 */
export async function generate(
  context: HttpContext,
  exchange: GenerationExchange,
  caller: AuthenticatedKey,
): Promise<void> {
  const { request, response, requestId } = exchange;
  const stop = new AbortController();
  context.generations.begin(stop, caller);
  let ended = false;
  response.on('close', () => {
    if (!response.writableFinished) {
      if (ended) context.inference.accounting.ledger.undelivered(requestId);
      else if (!stop.signal.aborted) stop.abort(clientDisconnected(request));
    }
    if (ended) context.generations.end(stop);
  });
  await respondToGeneration(context, exchange, caller, stop, new ConnectionOutput(context, exchange));
  // The request counts as running until its last byte is sent, so that a stopping service waits for it.
  ended = true;
  if (response.closed) context.generations.end(stop);
}

/**
 * Runs a generation: body -> request -> events -> `output`. Sets the record of the exchange and logs one line. Never
 * rejects.
 */
export async function respondToGeneration(
  context: HttpContext,
  exchange: GenerationExchange,
  caller: AuthenticatedKey,
  stop: AbortController,
  output: GenerationOutput,
): Promise<GenerationResult> {
  const { protocol, request, response, requestId, client } = exchange;
  const record = new GenerationRecord(new Notes(isStrict(request, caller)));
  exchange.record = record;
  const { path } = protocol;
  const summary: RequestSummary = { path, status: 200, code: null, stream: false, model: null };
  const body = exchange.bodyMemory?.retain();
  const trace = context.tracer?.begin(request.headers.traceparent);
  record.traceparent = trace?.traceparent ?? null;
  try {
    const { model, parsed } = parse(context, exchange, caller, record.notes);
    const { generation } = parsed;
    summary.stream = generation.stream;
    summary.model = generation.model;
    context.generations.useModel(stop, generation.model);
    if (exchange.isLarge) {
      await nextTurn();
      await parsed.prepare?.();
    }
    const identity = {
      requestId,
      clientRequestId: clientRequestId(request) ?? null,
      protocol: protocol.id,
      client,
      caller,
    };
    const events = complete(context.inference, model, identity, generation, stop, record);
    if (generation.stream) {
      await stream(output, parsed.stream(requestId), events, body, {
        requestId,
        log: context.log,
        summary,
        record,
      });
    } else {
      output.sendJson(await collect(events, parsed.whole(requestId), body));
    }
  } catch (error) {
    const fault = asServiceError(error, requestId, context.log);
    recordFault(summary, fault);
    if (!record.isRowWritten && fault instanceof ServiceError) {
      countRefusal(context, request, fault, caller);
    }
    // Without the database, the limits cannot be read, and the caller would wait once more.
    const readable = !(fault instanceof ServiceError && fault.code === 'storage_unavailable');
    if (record.limitHeaders.length === 0 && !response.headersSent && readable) {
      record.limitHeaders = await limitHeaders(context.inference.accounting, caller, summary.model);
    }
    output.fail(fault);
  } finally {
    body?.release();
    logRequest(context.log, exchange, summary, record);
    context.metrics.record(summary, record);
    context.alerts.recordRequest({ accountId: caller.accountId, ...summary });
    if (trace) context.tracer?.end(trace, { ...summary, requestId, kind: protocol.kind }, record);
    context.load.record({
      failed: summary.code !== null && summary.code !== 'client_disconnected',
      promptTokens: record.usage.promptTokens,
      completionTokens: record.usage.completionTokens,
      ttftMs: record.firstTokenAtMs === null ? null : record.firstTokenAtMs - record.startedAtMs,
    });
  }
  return { summary, record };
}

/**
 * Passes all events to `use`. If it throws, the generation ends with this error: what cannot be sent is never settled as
 * complete.
 */
async function forEachEvent(
  events: Generation,
  use: (event: GenerationEvent) => Promise<unknown> | null,
): Promise<void> {
  for (;;) {
    const step = events.take();
    const { value } = step instanceof Promise ? await step : step;
    if (value === undefined) return;
    try {
      const done = use(value);
      if (done) await done;
    } catch (error) {
      await events.throw(error);
    }
  }
}

/**
 * Returns the response with all events. Thousands of vectors or log probabilities may be there at once, and must not hold
 * the event loop.
 */
async function collect(
  events: Generation,
  response: WholeResponse,
  memory: BodyReservation | undefined,
): Promise<string | readonly Buffer[]> {
  let body: string | readonly Buffer[] = '';
  await forEachEvent(events, (event) => {
    response.add(event);
    if (event.type === 'end') body = response.body();
    return memory?.hold(response.heldBytes) ? nextTurn() : null;
  });
  return body;
}

/** Sends the response on the connection of its request. */
class ConnectionOutput implements GenerationOutput {
  readonly #context: HttpContext;
  readonly #exchange: GenerationExchange;

  constructor(context: HttpContext, exchange: GenerationExchange) {
    this.#context = context;
    this.#exchange = exchange;
  }

  openStream(record: GenerationRecord, keepAlive: () => string): FrameOutput {
    const { holdMs, keepAliveMs } = this.#context.settings.stream;
    const alive = () => record.isRowWritten;
    return openEventStream(this.#context, this.#exchange, { holdMs, keepAliveMs, keepAlive, alive });
  }

  sendJson(body: string | readonly Buffer[]): void {
    sendJson(this.#exchange, 200, body);
  }

  fail(error: ServiceError | ClientDisconnected): void {
    sendFault(this.#context, this.#exchange, error);
  }
}

/** Opens the event stream of one response. `keepAlives` is null if they are among its frames. */
export function openEventStream(
  { writes }: HttpContext,
  exchange: GenerationExchange,
  keepAlives: KeepAliveOptions | null,
): EventStream {
  const out = new EventStream(exchange.response, writes, { keepAlives }, () => commonHeaders(exchange));
  probeStreamWith(exchange.response, () => void out.write(KEEP_ALIVE));
  return out;
}

/** Sends an error, or closes the connection if the client has disconnected. */
export function sendFault(
  { settings }: HttpContext,
  exchange: GenerationExchange,
  error: ServiceError | ClientDisconnected,
): void {
  if (error instanceof ServiceError) sendError(exchange, error, settings.limits.drainBytes);
  else exchange.response.destroy();
}

/** Reads a request from the body of the exchange. Throws a `ServiceError` if the key may not use the model. */
export function parse(
  context: HttpContext,
  exchange: GenerationExchange,
  caller: AuthenticatedKey,
  notes: Notes,
): { model: ServedModel; parsed: ParsedRequest } {
  const body = exchange.body?.() ?? {};
  // Frees the bytes while the generation runs.
  exchange.body = null;
  const parsed = exchange.protocol.parse(body, {
    maxChoices: context.settings.limits.choices,
    notes,
    sealer: context.sealing.of(caller.accountId),
  });
  const model = modelOf(context, parsed.generation, caller);
  if (hasImages(parsed.generation)) admitImages(parsed.generation, model.images(), notes);
  refuseUnsupported(parsed, model.dialects, exchange.protocol);
  const ignored = ignoredFeature(parsed.generation, model.dialects);
  if (ignored !== null)
    notes.add(exchange.protocol.paramOf(ignored), 'ignored (not supported by the engine of this model)');
  const card = model.card();
  if (card !== null) {
    parsed.fit?.(card);
    const { generation } = parsed;
    generation.sampling = withRecommended(generation.sampling, card.defaultSampling, model.dialects);
  }
  return { model, parsed };
}

/**
 * Returns the model of a request, and sets its ID in the request, which may have an alias. Throws a `ServiceError` if the key
 * may not use it, or if it serves requests of another kind.
 */
export function modelOf(
  { router }: HttpContext,
  generation: GenerationRequest,
  caller: AuthenticatedKey,
): ServedModel {
  const model = router.model(generation.model, caller.models);
  if (caller.models?.has(model.id) === false) throw modelNotAllowed(model.id);
  const card = model.card();
  if (card !== null) refuseOtherKind(generation, outputOf(card.architecture.modality));
  generation.model = model.id;
  return model;
}

/** Whether a request is refused if something in it would have no effect. */
export function isStrict({ headers }: IncomingMessage, caller: AuthenticatedKey): boolean {
  return caller.strict || headers['x-sluice-strict'] === 'true';
}

/** Returns the reason to abort the generation of a request whose connection has closed. */
export function clientDisconnected({ socket }: IncomingMessage): ClientDisconnected {
  const { errored } = socket;
  return errored instanceof StalledError ? new ClientDisconnected(errored.message) : new ClientDisconnected();
}

export function modelNotAllowed(model: string): ServiceError {
  return new ServiceError('model_not_allowed', `This API key is not allowed to use the model \`${model}\`.`, {
    param: 'model',
  });
}

async function stream(
  output: GenerationOutput,
  formatter: ResponseStream,
  events: Generation,
  memory: BodyReservation | undefined,
  { requestId, log, summary, record }: GenerationResult & { requestId: string; log: Log },
): Promise<void> {
  using out = output.openStream(record, () => formatter.keepAlive());
  try {
    await forEachEvent(events, (event) => {
      const frames = formatter.format(event);
      memory?.hold(formatter.heldBytes);
      return out.write(frames);
    });
    out.end(formatter.end);
  } catch (error) {
    const fault = asServiceError(error, requestId, log);
    if (!out.opened || !(fault instanceof ServiceError)) throw fault;
    recordFault(summary, fault);
    out.end(formatter.error(fault, record.usage));
  }
}

/**
 * Converts an unexpected error into an `internal_error`, and logs it. The message of an `internal_error`, even from an
 * engine, contains only the request ID.
 */
function asServiceError(error: unknown, requestId: string, log: Log): ServiceError | ClientDisconnected {
  if (error instanceof ClientDisconnected) return error;
  if (!(error instanceof ServiceError)) return unexpectedError(error, requestId, log);
  return error.code === 'internal_error' ? internalError(error.cause, requestId) : error;
}

function recordFault(summary: RequestSummary, fault: ServiceError | ClientDisconnected): void {
  if (fault instanceof ClientDisconnected) {
    summary.code = 'client_disconnected';
    summary.cause = fault.message;
    return;
  }
  summary.code = fault.code;
  summary.status = fault.status;
  summary.cause = fault.cause instanceof Error ? fault.cause.message : undefined;
}
