import assert from 'node:assert/strict';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { HttpReplicaClient, type ReplicaOptions } from '../../src/replicas/replica-client.ts';
import { ReplicaRefused, type ReplicaClient } from '../../src/replicas/replica.ts';
import { ScriptedEngine } from '../support/scripted-engine/engine.ts';
import type { Directive } from '../support/scripted-engine/directive.ts';
import type { ScriptedOptions } from '../support/scripted-engine/options.ts';
import { injectFaults } from '../support/scripted-engine/fault-injection.ts';
import { serveEngine } from '../../src/engine/server.ts';
import { ServiceError } from '../../src/core/errors.ts';
import { SILENT } from '../../src/support/log.ts';
import { chat, collect, MODEL, NEVER_ABORTED } from '../engine/requests.ts';

/** Options with timeouts that no test reaches. */
export const REPLICA: ReplicaOptions = {
  name: 'replica',
  dialect: 'sluice',
  url: 'http://localhost',
  model: MODEL,
  sharedPrefixCache: false,
  firstByteMs: 60_000,
  responseMs: 60_000,
  silenceMs: 60_000,
  log: SILENT,
};

/** Starts a scripted engine with a real server, on a Unix socket if `more` has one, and returns its client. */
export async function openScripted(
  scripted: Partial<ScriptedOptions> = {},
  more: Partial<ReplicaOptions> = {},
): Promise<ReplicaClient & AsyncDisposable> {
  const server = await serveEngine(
    new ScriptedEngine(scripted),
    more.socketPath === undefined ? { host: '127.0.0.1', port: 0 } : { socketPath: more.socketPath },
    { maxChoices: 4, modelId: MODEL, log: SILENT, beforeResponse: injectFaults },
  );
  const url = server.port === null ? REPLICA.url : server.address;
  const client = new HttpReplicaClient({ ...REPLICA, url, ...more });
  return {
    name: client.name,
    dialect: client.dialect,
    model: client.model,
    generate: (request, signal) => client.generate(request, signal),
    countPromptTokens: (request, signal) => client.countPromptTokens(request, signal),
    forget: (cacheScope, signal) => client.forget(cacheScope, signal),
    health: (signal) => client.health(signal),
    describe: (signal) => client.describe(signal),
    async [Symbol.asyncDispose]() {
      await client[Symbol.asyncDispose]();
      await server.close();
    },
  };
}

/** Asserts that the generation fails with one of these codes, and not with `ReplicaRefused`. */
export async function assertFails(
  client: ReplicaClient,
  directive: Directive,
  ...codes: string[]
): Promise<void> {
  await assert.rejects(collect(client.generate(chat(directive), NEVER_ABORTED)), (error) => {
    assert(error instanceof ServiceError);
    assert(!(error instanceof ReplicaRefused));
    assert(codes.includes(error.code), `the code is ${error.code}`);
    return true;
  });
}

/** Whether the error is `engine_unavailable`, but not `ReplicaRefused`. */
export function isUnavailable(error: unknown): boolean {
  return (
    error instanceof ServiceError && error.code === 'engine_unavailable' && !(error instanceof ReplicaRefused)
  );
}

/** Sends the first chunk of a stream and nothing else. */
export function respondFirstChunkOnly(response: ServerResponse): void {
  response.writeHead(200);
  response.write('data: {"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}\n\n');
}

/** Responds in the OpenAI format, streaming or not. */
export function respondHello(
  response: ServerResponse,
  request: IncomingMessage,
  body: Record<string, unknown>,
): void {
  const isChat = request.url === '/v1/chat/completions';
  const usage = { prompt_tokens: 7, completion_tokens: 2, total_tokens: 9 };
  const choiceOf = (content: string) =>
    isChat ? { [body['stream'] ? 'delta' : 'message']: { content } } : { text: content };
  if (!body['stream']) {
    response.end(
      JSON.stringify({ choices: [{ index: 0, ...choiceOf('hé 東京'), finish_reason: 'stop' }], usage }),
    );
    return;
  }
  const chunks = [
    { choices: [{ index: 0, ...choiceOf('hé'), finish_reason: null }] },
    { choices: [{ index: 0, ...choiceOf(' 東京'), finish_reason: null }] },
    { choices: [{ index: 0, ...choiceOf(''), finish_reason: 'stop' }] },
    { choices: [], usage },
  ];
  response.end(`${chunks.map((chunk) => `data: ${JSON.stringify(chunk)}\n\n`).join('')}data: [DONE]\n\n`);
}

type Handler = (response: ServerResponse, request: IncomingMessage, body: Record<string, unknown>) => unknown;

/** A replica with a custom HTTP handler, and its client. */
export class HttpReplica implements AsyncDisposable {
  readonly client: ReplicaClient;
  readonly url: string;
  /** Paths of the generation requests. */
  readonly paths: (string | undefined)[] = [];
  readonly bodies: Record<string, unknown>[] = [];
  connections = 0;
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  #wake: () => void = () => {};

  private constructor(server: Server, more: Partial<ReplicaOptions>) {
    // A TCP server has an `AddressInfo`.
    this.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    this.#server = server;
    this.client = new HttpReplicaClient({ ...REPLICA, dialect: 'vllm', url: this.url, ...more });
    server.on('connection', (socket) => {
      this.connections++;
      this.#sockets.add(socket);
      socket.on('close', () => {
        this.#sockets.delete(socket);
        this.#wake();
      });
    });
  }

  static async listen(handler: Handler, more: Partial<ReplicaOptions> = {}): Promise<HttpReplica> {
    const server = createServer((request, response) => {
      let body = '';
      request.setEncoding('utf8').on('data', (part: string) => (body += part));
      request.on('end', () => {
        // The client sends JSON objects.
        const fields = JSON.parse(body || '{}') as Record<string, unknown>;
        if (request.method === 'POST') {
          raw.paths.push(request.url);
          raw.bodies.push(fields);
        }
        void handler(response, request, fields);
      });
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const raw = new HttpReplica(server, more);
    return raw;
  }

  /** Closes idle connections, as servers do after a timeout. */
  closeIdle(): void {
    this.#server.closeIdleConnections();
  }

  /** Refuses new connections. */
  stopListening(): void {
    this.#server.close();
  }

  /** Resolves when all connections are closed. */
  async closed(): Promise<void> {
    while (this.#sockets.size > 0) await new Promise<void>((resolve) => (this.#wake = resolve));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.client[Symbol.asyncDispose]();
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }
}
