import { createHash } from 'node:crypto';
import { once } from 'node:events';
import {
  createServer,
  type IncomingMessage,
  type RequestListener,
  type Server,
  type ServerResponse,
} from 'node:http';
import type { AddressInfo } from 'node:net';

export interface ReceivedRequest {
  host: 'hub' | 'store';
  method: string;
  path: string;
  range: string | null;
  ifRange: string | null;
  authorization: string | null;
}

/**
 * A fake Hub: a host that redirects to files, and a store on another port that sends them. Each entry of `script` applies
 * to one request of the store. After the last one, the store responds normally.
 */
export class FakeHub implements AsyncDisposable {
  readonly requests: ReceivedRequest[] = [];
  readonly files = new Map<string, Buffer>();
  /** Whether HEAD responses have the SHA-256 and size, as for files in large file storage. */
  linked = true;
  /** Sent instead of the actual values. */
  linkedSha256: string | null = null;
  linkedSize: number | null = null;
  /** Status of all responses of the hub; null: normal. */
  status: number | null = null;
  etag: string | null = '"v1"';
  script: StoreBehavior[] = [];
  /** Resolves when the client has written this many bytes of the file, or has disconnected. */
  waitForBytes: (bytes: number, isDisconnected: () => boolean) => Promise<void> = async () => {};
  readonly #hub: Server;
  readonly #store: Server;

  private constructor() {
    this.#hub = createServer((request, response) => this.#handleHub(request, response));
    this.#store = createServer((request, response) => void this.#handleStore(request, response));
  }

  static async open(): Promise<FakeHub> {
    const fake = new FakeHub();
    for (const server of [fake.#hub, fake.#store]) {
      server.listen(0, '127.0.0.1');
      await once(server, 'listening');
    }
    return fake;
  }

  /** Value for `HF_ENDPOINT`. */
  get endpoint(): string {
    return addressOf(this.#hub);
  }

  /** URL of a file without the redirect of the hub. */
  storeUrl(name: string): string {
    return `${addressOf(this.#store)}/${name}`;
  }

  /** The GET requests to the store. */
  get fetches(): readonly ReceivedRequest[] {
    return this.requests.filter(({ host, method }) => host === 'store' && method === 'GET');
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const server of [this.#hub, this.#store]) {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    }
  }

  #handleHub(request: IncomingMessage, response: ServerResponse): void {
    this.#record('hub', request);
    const [, name] = /\/resolve\/[^/]+\/(.+)$/.exec(request.url ?? '') ?? [];
    const bytes = this.files.get(name ?? '');
    if (this.status !== null || bytes === undefined) {
      response.writeHead(this.status ?? 404).end();
      return;
    }
    const linked = {
      'x-linked-etag': `"${this.linkedSha256 ?? sha256(bytes)}"`,
      'x-linked-size': String(this.linkedSize ?? bytes.length),
    };
    response.writeHead(302, { location: this.storeUrl(name ?? ''), ...(this.linked ? linked : {}) }).end();
  }

  async #handleStore(request: IncomingMessage, response: ServerResponse): Promise<void> {
    this.#record('store', request);
    const bytes = this.files.get((request.url ?? '').slice(1));
    const behavior = this.script.shift() ?? {};
    if (behavior.newEtag !== undefined) this.etag = behavior.newEtag;
    if (behavior.waitFor !== undefined) await behavior.waitFor;
    if (behavior.status !== undefined || bytes === undefined) {
      response.writeHead(behavior.status ?? 404).end();
      return;
    }
    const [, from] = /^bytes=(\d+)-$/.exec(request.headers.range ?? '') ?? [];
    const ifRange = request.headers['if-range'];
    const mayResume = ifRange === undefined || ifRange === this.etag || behavior.ignoresIfRange === true;
    const start = from !== undefined && mayResume ? Number(from) : 0;
    if (start > 0 && start >= bytes.length) {
      response.writeHead(416, { 'content-range': `bytes */${bytes.length}` }).end();
      return;
    }
    const body = bytes.subarray(start);
    response.writeHead(start > 0 ? 206 : 200, {
      'content-length': String(behavior.contentLength ?? body.length),
      ...(this.etag === null ? {} : { etag: this.etag }),
      ...(start > 0 && {
        'content-range': behavior.contentRange ?? `bytes ${start}-${bytes.length - 1}/${bytes.length}`,
      }),
    });
    if (behavior.cutAfter === undefined && behavior.stallAfter === undefined) {
      response.end(behavior.corrupt === true ? Buffer.alloc(body.length, 1) : body);
      return;
    }
    let sent = behavior.cutAfter ?? behavior.stallAfter ?? 0;
    response.write(body.subarray(0, sent));
    if (behavior.dripMs !== undefined) {
      const drip = setInterval(() => response.write(body.subarray(sent, ++sent)), behavior.dripMs);
      response.once('close', () => clearInterval(drip));
    }
    if (behavior.cutAfter === undefined) return;
    // Destroying the connection discards bytes that the client has not read yet.
    await this.waitForBytes(start + behavior.cutAfter, () => response.destroyed);
    response.destroy();
  }

  #record(host: ReceivedRequest['host'], request: IncomingMessage): void {
    this.requests.push({
      host,
      method: request.method ?? '',
      path: request.url ?? '',
      range: request.headers.range ?? null,
      ifRange: request.headers['if-range']?.toString() ?? null,
      authorization: request.headers.authorization ?? null,
    });
  }
}

/** How the store responds to one request. */
export interface StoreBehavior {
  status?: number;
  /** Bytes after which the connection is destroyed. */
  cutAfter?: number;
  /** Bytes after which nothing more is sent. */
  stallAfter?: number;
  /** With `stallAfter`: interval in milliseconds at which one more byte is sent. */
  dripMs?: number;
  /** Sends other bytes of the same length. */
  corrupt?: boolean;
  /** `content-length` instead of the actual length. */
  contentLength?: number;
  /** `content-range` of a 206 response instead of the actual range. */
  contentRange?: string;
  /** New ETag: the file changes before this response. */
  newEtag?: string;
  /** Sends a 206 response although the ETag is not that of `If-Range`. */
  ignoresIfRange?: boolean;
  /** Delays the response until this resolves. */
  waitFor?: Promise<unknown>;
}

export function sha256(bytes: Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex');
}

/** Starts an HTTP server on this machine. */
export async function listen(onRequest: RequestListener): Promise<Server> {
  const server = createServer(onRequest).listen(0, '127.0.0.1');
  await once(server, 'listening');
  return server;
}

export function addressOf(server: Server): string {
  // A server that listens on TCP has an address of this type.
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}
