import { totalmem } from 'node:os';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { ServiceError } from '../errors.ts';

/** Share of `limits.bodyBytesInMemory` that the requests of one account may use. */
const ACCOUNT_SHARE = 1 / 4;

/** Initial buffer size of a body without `Content-Length`; it doubles when full. */
const INITIAL_BYTES = 16_384;

interface BodyLimits {
  bodyBytes: number;
  bodyBytesInMemory?: number;
}

declare module 'fastify' {
  interface FastifyRequest {
    /** The memory reserved for the request's body; null: no body. */
    bodyMemory: BodyReservation | null;
  }
}

/** Makes Fastify read bodies as bytes, regardless of their `Content-Type`. */
export function registerBodies(app: FastifyInstance, memory: BodyMemory): void {
  app.decorateRequest('bodyMemory', null);
  app.removeAllContentTypeParsers();
  app.addHook('preParsing', (request, reply, payload, done) => {
    request.bodyMemory = memory.reservationFor(request.raw, reply.raw, accountOf(request));
    done(null, payload);
  });
  app.addContentTypeParser('*', async (request: FastifyRequest, payload: IncomingMessage) => {
    const { bodyMemory, routeOptions } = request;
    return bodyMemory && (await readBody(payload, routeOptions.bodyLimit, bodyMemory));
  });
  // Fastify rejects a `Content-Type` that is not a valid media type.
  app.addHook('onRequest', (request, _reply, done) => {
    request.raw.headers['content-type'] = undefined;
    done();
  });
}

/** Requests without an account count as one account. */
function accountOf({ caller, principal }: FastifyRequest): string {
  return caller?.accountId ?? principal?.actor.id ?? '';
}

/**
 * Limits the total size of all bodies to `limits.bodyBytesInMemory`, and the size for one account to a share of it.
 * Memory is reserved before a body is read.
 */
export class BodyMemory {
  readonly #maxBytes: number;
  readonly #maxAccountBytes: number;
  #reserved = 0;
  readonly #reservedByAccount = new Map<string, number>();

  constructor({ bodyBytes, bodyBytesInMemory }: BodyLimits) {
    this.#maxBytes = bodyBytesInMemory ?? Math.max(Math.floor(machineBytes() / 10), bodyBytes);
    // A single body always fits.
    this.#maxAccountBytes = Math.max(Math.floor(this.#maxBytes * ACCOUNT_SHARE), bodyBytes);
  }

  /**
   * Returns a reservation of 0 bytes, or null for a request without a body. The reservation is released when the
   * response has closed and no handler retains it.
   */
  reservationFor(
    { headers }: IncomingMessage,
    response: ServerResponse,
    account: string,
  ): BodyReservation | null {
    if (headers['content-length'] === undefined && headers['transfer-encoding'] === undefined) return null;
    const reservation = new BodyReservation(this, account);
    response.on('close', () => reservation.release());
    return reservation;
  }

  /** Reserves bytes for an account. Throws a `ServiceError` `overloaded` or `concurrent_body_bytes`. */
  reserve(account: string, bytes: number): void {
    const ofAccount = (this.#reservedByAccount.get(account) ?? 0) + bytes;
    if (ofAccount > this.#maxAccountBytes) {
      throw new ServiceError(
        'concurrent_body_bytes',
        `The bodies of your running requests may total at most ${this.#maxAccountBytes} bytes. Try again when one of them has ended.`,
        { retryAfterMs: 1000 },
      );
    }
    if (this.#reserved + bytes > this.#maxBytes) {
      throw new ServiceError(
        'overloaded',
        'The running requests use all the memory for request bodies. Try again later.',
        { retryAfterMs: 1000 },
      );
    }
    this.#reserved += bytes;
    this.#reservedByAccount.set(account, ofAccount);
  }

  release(account: string, bytes: number): void {
    this.#reserved -= bytes;
    const left = (this.#reservedByAccount.get(account) ?? 0) - bytes;
    if (left > 0) this.#reservedByAccount.set(account, left);
    else this.#reservedByAccount.delete(account);
  }
}

/** The memory reserved for one body. It is freed after one call of `release`, and one more for each `retain`. */
export class BodyReservation {
  readonly #memory: BodyMemory;
  readonly #account: string;
  #bytes = 0;
  #users = 1;

  constructor(memory: BodyMemory, account: string) {
    this.#memory = memory;
    this.#account = account;
  }

  /** Throws like `BodyMemory.reserve`; the reservation is then unchanged. */
  grow(bytes: number): void {
    this.#memory.reserve(this.#account, bytes);
    this.#bytes += bytes;
  }

  /** For code that uses the body, or what was parsed from it, and then calls `release`. */
  retain(): this {
    this.#users++;
    return this;
  }

  release(): void {
    if (--this.#users === 0) this.discard();
  }

  /** Frees the memory of an unused body early, because the response to a refused request can take long to close. */
  discard(): void {
    this.#memory.release(this.#account, this.#bytes);
    this.#bytes = 0;
  }
}

/**
 * Reads a body of at most `limit` bytes. Rejects with `request_too_large`, `request_timeout`, or with the errors of
 * `BodyMemory.reserve`.
 */
export function readBody(
  payload: IncomingMessage,
  limit: number,
  memory: BodyReservation,
): Promise<Uint8Array<ArrayBuffer>> {
  return new Promise((resolve, reject) => {
    // The client may have disconnected while its key was looked up.
    if (payload.destroyed) throw incomplete();
    const length = Number(payload.headers['content-length'] ?? NaN);
    if (length > limit) throw tooLarge(limit);
    const capacity = Number.isNaN(length) ? Math.min(INITIAL_BYTES, limit) : length;
    memory.grow(capacity);
    let body = Buffer.allocUnsafe(capacity);
    let filled = 0;
    let complete = false;
    const fail = (error: Error): void => {
      if (complete) return;
      payload.off('data', onData).off('end', onEnd);
      memory.discard();
      reject(error);
    };
    const onData = (chunk: Buffer): void => {
      const needed = filled + chunk.length;
      try {
        if (needed > limit) throw tooLarge(limit);
        if (needed > body.length) {
          const larger = Math.min(Math.max(2 * body.length, needed), limit);
          memory.grow(larger - body.length);
          body = Buffer.concat([body.subarray(0, filled)], larger);
        }
      } catch (error) {
        // Only a `ServiceError` is thrown above.
        fail(error as ServiceError);
        return;
      }
      chunk.copy(body, filled);
      filled = needed;
    };
    const onEnd = (): void => {
      complete = true;
      resolve(body.subarray(0, filled));
    };
    payload.on('data', onData).on('end', onEnd);
    payload.on('error', () => fail(incomplete()));
  });
}

function incomplete(): ServiceError {
  return new ServiceError('request_timeout', 'The request body is incomplete.');
}

function tooLarge(limit: number): ServiceError {
  return new ServiceError('request_too_large', `The request body is larger than ${limit} bytes.`);
}

/** Returns the memory of the machine, or of the container if that is less. */
function machineBytes(): number {
  return Math.min(totalmem(), process.constrainedMemory() || Infinity);
}
