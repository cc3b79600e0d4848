import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

/** A request that the fake saw. */
export interface Seen {
  host: 'hub' | 'store';
  method: string;
  path: string;
  range: string | null;
  ifRange: string | null;
  authorization: string | null;
}

/**
 * Plays the Hub: a host that knows files and answers with redirects, and a store on another port that sends them.
 * `script` is what the store does with the next requests, one entry each; with none left it sends what is asked.
 */
export class FakeHub implements AsyncDisposable {
  readonly seen: Seen[] = [];
  readonly files = new Map<string, Buffer>();
  /** Whether HEAD tells SHA-256 and size, as for files in large file storage. */
  linked = true;
  /** Told instead of the true ones. */
  linkedSha256: string | null = null;
  linkedSize: number | null = null;
  /** Status of every answer of the hub; null: the usual ones. */
  status: number | null = null;
  etag: string | null = '"v1"';
  script: Act[] = [];
  /** Resolves when the client has written that many bytes of the file, or has gone. */
  arrived: (bytes: number, gone: () => boolean) => Promise<void> = async () => {};
  readonly #hub: Server;
  readonly #store: Server;

  private constructor() {
    this.#hub = createServer((request, response) => this.#onHub(request, response));
    this.#store = createServer((request, response) => void this.#onStore(request, response));
  }

  static async open(): Promise<FakeHub> {
    const fake = new FakeHub();
    for (const server of [fake.#hub, fake.#store]) {
      server.listen(0, '127.0.0.1');
      await once(server, 'listening');
    }
    return fake;
  }

  /** For `HF_ENDPOINT`. */
  get endpoint(): string {
    return addressOf(this.#hub);
  }

  /** Where a file lies without the hub before it. */
  storeUrl(name: string): string {
    return `${addressOf(this.#store)}/${name}`;
  }

  /** The requests that asked the store for bytes. */
  get fetches(): readonly Seen[] {
    return this.seen.filter(({ host, method }) => host === 'store' && method === 'GET');
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const server of [this.#hub, this.#store]) {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    }
  }

  #onHub(request: IncomingMessage, response: ServerResponse): void {
    this.#note('hub', request);
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

  async #onStore(request: IncomingMessage, response: ServerResponse): Promise<void> {
    this.#note('store', request);
    const bytes = this.files.get((request.url ?? '').slice(1));
    const act = this.script.shift() ?? {};
    if (act.change !== undefined) this.etag = act.change;
    if (act.hold !== undefined) await act.hold;
    if (act.status !== undefined || bytes === undefined) {
      response.writeHead(act.status ?? 404).end();
      return;
    }
    const [, from] = /^bytes=(\d+)-$/.exec(request.headers.range ?? '') ?? [];
    const ifRange = request.headers['if-range'];
    const start = from !== undefined && (ifRange === undefined || ifRange === this.etag) ? Number(from) : 0;
    if (start > 0 && start >= bytes.length) {
      response.writeHead(416, { 'content-range': `bytes */${bytes.length}` }).end();
      return;
    }
    const body = bytes.subarray(start);
    response.writeHead(start > 0 ? 206 : 200, {
      'content-length': String(act.claim ?? body.length),
      ...(this.etag === null ? {} : { etag: this.etag }),
      ...(start > 0 ? { 'content-range': `bytes ${start}-${bytes.length - 1}/${bytes.length}` } : {}),
    });
    if (act.cutAfter === undefined && act.stallAfter === undefined) {
      response.end(act.corrupt === true ? Buffer.alloc(body.length, 1) : body);
      return;
    }
    response.write(body.subarray(0, act.cutAfter ?? act.stallAfter));
    if (act.dripMs !== undefined) {
      const drip = setInterval(() => response.write(Buffer.alloc(1)), act.dripMs);
      response.once('close', () => clearInterval(drip));
    }
    if (act.cutAfter === undefined) return;
    // What a client has received and not yet read is lost when its connection is cut.
    await this.arrived(start + act.cutAfter, () => response.destroyed);
    response.destroy();
  }

  #note(host: Seen['host'], request: IncomingMessage): void {
    this.seen.push({
      host,
      method: request.method ?? '',
      path: request.url ?? '',
      range: request.headers.range ?? null,
      ifRange: request.headers['if-range']?.toString() ?? null,
      authorization: request.headers.authorization ?? null,
    });
  }
}

/** What the store does with one request. */
export interface Act {
  status?: number;
  /** Bytes after which the connection is cut. */
  cutAfter?: number;
  /** Bytes after which nothing more comes. */
  stallAfter?: number;
  /** With `stallAfter`: a byte comes all the same whenever so many milliseconds have passed. */
  dripMs?: number;
  /** Sends other bytes of the same length. */
  corrupt?: boolean;
  /** A length claimed instead of the true one. */
  claim?: number;
  /** The file becomes another one before this answer: its new ETag. */
  change?: string;
  /** Answers only when this has resolved. */
  hold?: Promise<unknown>;
}

export function sha256(bytes: Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex');
}

function addressOf(server: Server): string {
  // A server that listens on TCP has an address of this type.
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}
