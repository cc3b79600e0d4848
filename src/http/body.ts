import { totalmem } from 'node:os';
import type { IncomingMessage } from 'node:http';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { ServiceError } from '../errors.ts';

/** Share of `limits.bodyBytesInMemory` that the requests of one account may hold. */
const ACCOUNT_SHARE = 1 / 4;

/** A body without `Content-Length` is read into a buffer that begins with so many bytes and doubles. */
const FIRST_BYTES = 16_384;

interface BodyLimits {
  bodyBytes: number;
  bodyBytesInMemory?: number;
}

declare module 'fastify' {
  interface FastifyRequest {
    /** The memory that the request's body takes; null where there is none. */
    bodyMemory: BodyLease | null;
  }
}

/**
 * Reads bodies as bytes, whatever type they claim, within `limits.bodyBytes` each and a bound on all of them together
 * that is taken before a byte is read. A body counts until its response has closed and no handler retains it.
 */
export function registerBodies(app: FastifyInstance, limits: BodyLimits): void {
  const memory = new BodyMemory(limits);
  app.decorateRequest('bodyMemory', null);
  app.removeAllContentTypeParsers();
  app.addHook('preParsing', (request, reply, payload, done) => {
    const { 'content-length': length, 'transfer-encoding': coding } = request.headers;
    if (length !== undefined || coding !== undefined) {
      const lease = memory.lease(accountOf(request));
      request.bodyMemory = lease;
      reply.raw.once('close', () => lease.release());
    }
    done(null, payload);
  });
  app.addContentTypeParser('*', async (request: FastifyRequest, payload: IncomingMessage) => {
    const { bodyMemory, routeOptions } = request;
    return bodyMemory && (await read(payload, routeOptions.bodyLimit, bodyMemory));
  });
  // Fastify refuses a `Content-Type` that has not the form of a media type.
  app.addHook('onRequest', (request, _reply, done) => {
    request.raw.headers['content-type'] = undefined;
    done();
  });
}

/** Requests without an account share one share. */
function accountOf({ caller, principal }: FastifyRequest): string {
  return caller?.accountId ?? principal?.actor.id ?? '';
}

/** The body bytes that all requests hold, in all and by account. */
class BodyMemory {
  readonly #most: number;
  readonly #mostOfAccount: number;
  #held = 0;
  readonly #heldBy = new Map<string, number>();

  constructor({ bodyBytes, bodyBytesInMemory }: BodyLimits) {
    this.#most = bodyBytesInMemory ?? Math.max(Math.floor(machineBytes() / 10), bodyBytes);
    // One body always fits.
    this.#mostOfAccount = Math.max(Math.floor(this.#most * ACCOUNT_SHARE), bodyBytes);
  }

  lease(account: string): BodyLease {
    return new BodyLease(this, account);
  }

  /** Takes bytes for an account. Throws `overloaded` or `concurrent_body_bytes` where they do not fit. */
  take(account: string, bytes: number): void {
    const held = (this.#heldBy.get(account) ?? 0) + bytes;
    if (held > this.#mostOfAccount) {
      throw new ServiceError(
        'concurrent_body_bytes',
        `The request bodies of your running requests may total at most ${this.#mostOfAccount} bytes. Try again when one has ended.`,
        { retryAfterMs: 1000 },
      );
    }
    if (this.#held + bytes > this.#most) {
      throw new ServiceError(
        'overloaded',
        'The running requests use all the memory for request bodies. Try again later.',
        { retryAfterMs: 1000 },
      );
    }
    this.#held += bytes;
    this.#heldBy.set(account, held);
  }

  give(account: string, bytes: number): void {
    this.#held -= bytes;
    const left = (this.#heldBy.get(account) ?? 0) - bytes;
    if (left > 0) this.#heldBy.set(account, left);
    else this.#heldBy.delete(account);
  }
}

/** What one body holds of the memory, until its last user has released it. */
class BodyLease {
  readonly #memory: BodyMemory;
  readonly #account: string;
  #bytes = 0;
  #users = 1;

  constructor(memory: BodyMemory, account: string) {
    this.#memory = memory;
    this.#account = account;
  }

  /** Throws as `BodyMemory.take` does, and then holds what it held. */
  grow(bytes: number): void {
    this.#memory.take(this.#account, bytes);
    this.#bytes += bytes;
  }

  /** Adds a user: the bytes, or what was parsed from them, are needed until it releases them too. */
  retain(): this {
    this.#users++;
    return this;
  }

  release(): void {
    if (--this.#users > 0) return;
    this.#memory.give(this.#account, this.#bytes);
    this.#bytes = 0;
  }
}

/** The whole body. Rejects with `request_too_large`, `request_timeout`, or as `BodyMemory.take` throws. */
async function read(payload: IncomingMessage, limit: number, lease: BodyLease): Promise<Uint8Array> {
  const length = Number(payload.headers['content-length'] ?? NaN);
  if (length > limit) throw tooLarge(limit);
  const capacity = Number.isNaN(length) ? Math.min(FIRST_BYTES, limit) : length;
  lease.grow(capacity);
  return await new Promise<Uint8Array>((resolve, reject) => {
    let body = Buffer.allocUnsafe(capacity);
    let filled = 0;
    const fail = (error: Error): void => {
      payload.off('data', onData).off('end', onEnd);
      reject(error);
    };
    const onData = (chunk: Buffer): void => {
      const needed = filled + chunk.length;
      try {
        if (needed > limit) throw tooLarge(limit);
        if (needed > body.length) {
          const larger = Math.min(Math.max(2 * body.length, needed), limit);
          lease.grow(larger - body.length);
          body = Buffer.concat([body.subarray(0, filled)], larger);
        }
      } catch (error) {
        // Only `ServiceError`s are thrown above.
        fail(error as ServiceError);
        return;
      }
      chunk.copy(body, filled);
      filled = needed;
    };
    const onEnd = (): void => resolve(body.subarray(0, filled));
    payload.on('data', onData).once('end', onEnd);
    payload.once('error', () => fail(new ServiceError('request_timeout', 'The request body is incomplete.')));
  });
}

function tooLarge(limit: number): ServiceError {
  return new ServiceError('request_too_large', `The request body is larger than ${limit} bytes.`);
}

/** The memory of the machine, or of the container where that is less. */
function machineBytes(): number {
  return Math.min(totalmem(), process.constrainedMemory() || Infinity);
}
