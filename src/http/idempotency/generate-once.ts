import { hash } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import type { AuthenticatedKey } from '../../accounts/keys.ts';
import { ServiceError } from '../../core/errors.ts';
import type { GenerationRequest } from '../../core/generation.ts';
import type { ClientDisconnected } from '../../inference/complete.ts';
import type { GenerationRecord } from '../../inference/record.ts';
import type { HttpContext } from '../context.ts';
import { sendJson, type GenerationExchange } from '../exchange.ts';
import {
  clientDisconnected,
  isStrict,
  openEventStream,
  parse,
  respondToGeneration,
  sendFault,
} from '../generate.ts';
import { limitHeaders } from '../limit-headers.ts';
import { refuse } from '../refusal.ts';
import { clientRequestId } from '../request-log.ts';
import { Notes } from '../../core/notes.ts';
import type { Protocol } from '../../core/protocol.ts';
import type { KeyedGeneration, ResponseReader } from './keyed-generation.ts';
import { keyReused, tooLargeToShare } from './store.ts';

/**
 * Handles a request with an idempotency key. Runs the generation if the key is free; otherwise, sends the response of the
 * generation that runs or has ended with this key. Never rejects.
 */
export async function generateOnce(
  context: HttpContext,
  exchange: GenerationExchange,
  caller: AuthenticatedKey,
  key: string,
): Promise<void> {
  const { fingerprint } = exchange;
  const found = context.idempotency.find(caller.accountId, key);
  if (found === null) {
    const generation = context.idempotency.begin(caller.accountId, key, fingerprint, exchange.requestId);
    await begin(context, exchange, caller, generation);
  } else {
    await join(context, exchange, caller, found);
  }
}

/**
 * Runs a generation and sends its response to the caller. If the caller disconnects, the generation continues for
 * `idempotency.graceMs`, so that a repeated request can join it.
 */
async function begin(
  context: HttpContext,
  exchange: GenerationExchange,
  caller: AuthenticatedKey,
  generation: KeyedGeneration,
): Promise<void> {
  const { idempotency, generations, inference, log } = context;
  const { reader, closed } = openReader(exchange, generation);
  generations.begin(generation.stop, caller);
  const delivered = deliver(context, exchange, reader);
  const conflict = await idempotency.claim(generation);
  if (conflict === null) {
    const { summary, record } = await respondToGeneration(
      context,
      exchange,
      caller,
      generation.stop,
      generation,
    );
    const hasContent = summary.code === null || record.firstTokenAtMs !== null;
    idempotency.finish(generation, generation.fault === null && hasContent);
  } else {
    const { requestId, protocol } = exchange;
    const { path } = protocol;
    log.info('request refused', { requestId, code: conflict.code, path });
    context.metrics.recordRefusal(path, conflict);
    exchange.record = { limitHeaders: await limitHeaders(inference.accounting, caller) };
    generation.fail(conflict);
    idempotency.finish(generation, false);
  }
  await delivered;
  await closed;
  // The request counts as running until its last byte is sent, so that a stopping service waits for it.
  generations.end(generation.stop);
}

/** Sends the response of a generation that an earlier request began. */
async function join(
  context: HttpContext,
  exchange: GenerationExchange,
  caller: AuthenticatedKey,
  generation: KeyedGeneration,
): Promise<void> {
  const { generations, inference, log } = context;
  const { path } = exchange.protocol;
  const notes = new Notes(isStrict(exchange.request, caller));
  let request: GenerationRequest;
  try {
    if (generation.fingerprint !== exchange.fingerprint) throw keyReused();
    // Also checks that the key may use the model.
    request = parse(context, exchange, caller, notes).parsed.generation;
    if (!generation.shared) throw tooLargeToShare();
  } catch (error) {
    exchange.record = { limitHeaders: await limitHeaders(inference.accounting, caller) };
    refuse(context, exchange, error, path, caller);
    return;
  }
  const { ended, requestId } = generation;
  const { reader, closed } = openReader(exchange, generation);
  const stop = new AbortController();
  stop.signal.addEventListener('abort', () => {
    // A generation that was aborted for the same reason sends its own error.
    if (!generation.stop.signal.aborted) reader.fail(stop.signal.reason as ServiceError);
  });
  generations.begin(stop, caller);
  generations.useModel(stop, request.model);
  exchange.bodyMemory?.discard();
  exchange.requestId = requestId;
  exchange.replay = true;
  exchange.record = { limitHeaders: await limitHeaders(inference.accounting, caller, request.model), notes };
  await deliver(context, exchange, reader);
  await closed;
  generations.end(stop);
  log.info('idempotent request', {
    requestId,
    clientRequestId: clientRequestId(exchange.request),
    path,
    ip: exchange.ip,
    key: caller.id,
    account: caller.accountId,
    model: request.model,
    stream: request.stream,
    replayed: ended,
    complete: exchange.response.writableFinished,
  });
}

/** Adds a reader to a generation, and removes it when the response has closed. `closed` resolves then. */
function openReader(
  { request, response }: GenerationExchange,
  generation: KeyedGeneration,
): { reader: ResponseReader; closed: Promise<void> } {
  const reader = generation.join();
  const closed = new Promise<void>((resolve) => {
    response.once('close', () => {
      reader.close(response.writableFinished ? null : clientDisconnected(request));
      resolve();
    });
  });
  return { reader, closed };
}

/** Sends the response of a generation on one connection, at the pace of its client. Never rejects. */
async function deliver(
  context: HttpContext,
  exchange: GenerationExchange,
  reader: ResponseReader,
): Promise<void> {
  try {
    const record = await reader.streamRecord();
    if (record === null) {
      const parts = await Array.fromAsync(reader);
      if (!reader.closed) sendJson(exchange, 200, parts);
    } else {
      await deliverStream(context, exchange, record, reader);
    }
  } catch (error) {
    // Readers reject only with these errors.
    sendFault(context, exchange, error as ServiceError | ClientDisconnected);
  }
}

async function deliverStream(
  context: HttpContext,
  exchange: GenerationExchange,
  record: GenerationRecord,
  reader: ResponseReader,
): Promise<void> {
  using out = openEventStream(context, exchange, null);
  let sent = '';
  try {
    for await (const bytes of reader) {
      const frames = bytes.toString('utf8');
      if (frames !== '') sent = frames;
      const drained = out.write(frames);
      if (drained) await drained;
    }
    if (!reader.closed) out.end('');
  } catch (error) {
    if (!out.opened || !(error instanceof ServiceError)) throw error;
    out.end(exchange.protocol.errorFrames(error, record.usage, sent));
  }
}

const VALID = /^[\x20-\x7e]{1,255}$/;

/**
 * Returns the value of the `Idempotency-Key` header, without the quotes that surround it in the form of the IETF draft
 * (draft-ietf-httpapi-idempotency-key-header). Throws a `ServiceError` `invalid_value` unless there is one header with
 * 1 to 255 printable ASCII characters.
 */
export function readIdempotencyKey({ headersDistinct }: IncomingMessage): string {
  const [value = '', ...more] = headersDistinct['idempotency-key'] ?? [];
  if (more.length > 0) {
    throw new ServiceError('invalid_value', 'The request has more than one `Idempotency-Key` header.');
  }
  const key = /^"(.*)"$/.exec(value)?.[1] ?? value;
  if (VALID.test(key)) return key;
  throw new ServiceError(
    'invalid_value',
    'The `Idempotency-Key` header must have 1 to 255 printable ASCII characters.',
  );
}

/** Returns a hash of the endpoint and of the bytes of the body. */
export function bodyHash({ id }: Protocol, body: Uint8Array): string {
  return `${id}:${hash('sha256', body, 'base64url')}`;
}
