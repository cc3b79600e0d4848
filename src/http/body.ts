import { totalmem } from 'node:os';
import { getHeapStatistics } from 'node:v8';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { ServiceError } from '../core/errors.ts';
import { CHARACTER_BYTES } from '../json/json-heap.ts';

/** Share that an account may use of the memory that other accounts leave, so that some is always left to the next. */
const ACCOUNT_SHARE = 1 / 4;

/** Share of V8's heap, which also needs room for copies of bodies, for everything else and for garbage. */
const HEAP_SHARE = 1 / 4;

/** Memory that a response reserves at once, in bytes. Smaller responses need no reservation. */
const RESPONSE_STEP_BYTES = 65_536;

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
 * Limits the memory of all running requests, and of those of one account to a share of it. Counts the body of a request in
 * the form that it has, and the response that is collected for it. Memory is reserved before a body is read, for the two
 * bytes that V8 may need for each of its own.
 */
export class BodyMemory {
  readonly #maxBytes: number;
  #reserved = 0;
  readonly #reservedByAccount = new Map<string, number>();

  constructor({ bodyBytes, bodyBytesInMemory }: BodyLimits) {
    const heapBytes = getHeapStatistics().heap_size_limit * HEAP_SHARE;
    const maxBytes = Math.min(bodyBytesInMemory ?? machineBytes() / 10, heapBytes);
    // A single body always fits.
    this.#maxBytes = Math.max(Math.floor(maxBytes), CHARACTER_BYTES * bodyBytes);
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

  /**
   * Reserves bytes for an account. `own`: bytes of the same request. Throws a `ServiceError` `overloaded`, or
   * `concurrent_body_bytes` if other requests of the account use its share.
   */
  reserve(account: string, bytes: number, own: number): void {
    const before = this.#reservedByAccount.get(account) ?? 0;
    const ofAccount = before + bytes;
    const others = before - own;
    const most = (this.#maxBytes - this.#reserved + before) * ACCOUNT_SHARE;
    if (others > 0 && ofAccount > most) {
      throw new ServiceError(
        'concurrent_body_bytes',
        `The bodies of your running requests may use at most ${Math.floor(most)} bytes of memory now. Try again when one of them has ended.`,
        { retryAfterMs: 1000 },
      );
    }
    if (this.#reserved + bytes > this.#maxBytes) {
      throw new ServiceError(
        'overloaded',
        'The running requests use all the memory for bodies. Try again later.',
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

/** The memory reserved for one request. It is freed after one call of `release`, and one more for each `retain`. */
export class BodyReservation {
  readonly #memory: BodyMemory;
  readonly #account: string;
  #bytes = 0;
  #responseBytes = 0;
  #users = 1;

  constructor(memory: BodyMemory, account: string) {
    this.#memory = memory;
    this.#account = account;
  }

  /** Throws like `BodyMemory.reserve`; the reservation is then unchanged. */
  grow(bytes: number): void {
    this.#memory.reserve(this.#account, bytes, this.#bytes);
    this.#bytes += bytes;
  }

  /** Changes the reservation to what the body takes in another form. Throws like `grow`. */
  resize(bytes: number): void {
    if (bytes > this.#bytes) this.grow(bytes - this.#bytes);
    else if (bytes < this.#bytes) this.#free(this.#bytes - bytes);
  }

  /**
   * Reserves what a response of this size needs in addition. Returns whether it has grown so much that other requests should
   * get a turn. Throws like `grow`.
   */
  hold(responseBytes: number): boolean {
    const more = responseBytes - this.#responseBytes;
    if (more < RESPONSE_STEP_BYTES) return false;
    this.grow(more);
    this.#responseBytes = responseBytes;
    return true;
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
    this.#free(this.#bytes);
  }

  #free(bytes: number): void {
    this.#bytes -= bytes;
    this.#memory.release(this.#account, bytes);
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
    memory.grow(CHARACTER_BYTES * capacity);
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
          memory.grow(CHARACTER_BYTES * (larger - body.length));
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
