import { randomUUIDv7 } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { AuthenticatedKey } from '../accounts/keys.ts';
import { keepConnection } from '../support/connection-watch.ts';
import { ServiceError } from '../core/errors.ts';
import type { Protocol } from '../core/protocol.ts';
import { jsonBody } from '../json/json-thread.ts';
import { authorizationOf, callerOf, invalidKey, refuseWhileStopping } from './authenticate.ts';
import { readBody, type BodyMemory } from './body.ts';
import { clientName } from './client-name.ts';
import type { HttpContext } from './context.ts';
import type { GenerationExchange } from './exchange.ts';
import { generate } from './generate.ts';
import { generateOnce, bodyHash, readIdempotencyKey } from './idempotency/generate-once.ts';
import { authenticatedRequests, limitHeaders } from './limit-headers.ts';
import { refuse } from './refusal.ts';
import { violation } from './strict.ts';

const EMPTY = new Uint8Array(0);

/** Returns the client's address, which may be behind trusted proxies; null: it has disconnected. */
type ClientAddress = (request: IncomingMessage) => string | null;

/** The generation endpoints, on `node:http` without Fastify. */
export class GenerationEndpoint {
  readonly #context: HttpContext;
  readonly #memory: BodyMemory;
  readonly #addressOf: ClientAddress;

  constructor(context: HttpContext, memory: BodyMemory, addressOf: ClientAddress) {
    this.#context = context;
    this.#memory = memory;
    this.#addressOf = addressOf;
  }

  /** Authenticates, reads the body, and generates. Sends one response and never rejects. */
  async serve(protocol: Protocol, request: IncomingMessage, response: ServerResponse): Promise<void> {
    const exchange: GenerationExchange = {
      request,
      response,
      requestId: randomUUIDv7(),
      protocol,
      ip: this.#addressOf(request),
      client: clientName(request.headers['user-agent']),
      caller: null,
      bodyMemory: null,
      body: null,
      isLarge: false,
      idempotencyKey: null,
      fingerprint: '',
    };
    let caller: AuthenticatedKey;
    try {
      caller = await this.#receive(exchange);
    } catch (error) {
      const { accounting } = this.#context.inference;
      exchange.record = { limitHeaders: await limitHeaders(accounting, exchange.caller) };
      refuse(this.#context, exchange, error, protocol.path, exchange.caller);
      return;
    }
    const { idempotencyKey } = exchange;
    if (idempotencyKey === null) await generate(this.#context, exchange, caller);
    else await generateOnce(this.#context, exchange, caller, idempotencyKey);
  }

  /** Sets the caller, the idempotency key and then the body of the exchange. Returns the caller. */
  async #receive(exchange: GenerationExchange): Promise<AuthenticatedKey> {
    const { request, response, requestId } = exchange;
    const fault = violation(request);
    if (fault) throw fault;
    const found = callerOf(this.#context.keys, authorizationOf(request.headers), exchange);
    const caller = found instanceof Promise ? await found : found;
    exchange.caller = caller;
    authenticatedRequests.set(request, { requestId, caller });
    keepConnection(request);
    refuseWhileStopping(this.#context);
    if (request.headers['idempotency-key'] !== undefined)
      exchange.idempotencyKey = readIdempotencyKey(request);
    const memory = this.#memory.reservationFor(request, response, caller.accountId);
    exchange.bodyMemory = memory;
    const bytes =
      memory === null ? EMPTY : await readBody(request, this.#context.settings.limits.bodyBytes, memory);
    if (exchange.idempotencyKey !== null) exchange.fingerprint = bodyHash(exchange.protocol, bytes);
    const body = jsonBody(bytes, exchange.protocol.bodyValues, memory);
    if (body instanceof Promise) {
      exchange.isLarge = true;
      // The thread has the bytes, even if the client disconnects meanwhile.
      memory?.retain();
      try {
        exchange.body = await body;
      } finally {
        memory?.release();
      }
      if (response.closed) throw new ServiceError('request_timeout', 'The client has disconnected.');
    } else {
      exchange.body = body;
    }
    // A body can take minutes to arrive, and the key may have been revoked or restricted meanwhile.
    const current = this.#context.keys.current(caller);
    if (current === null) throw invalidKey(authorizationOf(request.headers));
    exchange.caller = current;
    return current;
  }
}
