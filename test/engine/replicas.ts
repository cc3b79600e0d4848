import assert from 'node:assert/strict';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { openReplica, type ReplicaOptions } from '../../src/engine/client.ts';
import { ReplicaRefused, type Engine } from '../../src/engine/engine.ts';
import { ScriptedEngine } from '../../src/engine/scripted/engine.ts';
import type { Directive, ScriptedOptions } from '../../src/engine/scripted/options.ts';
import { injectFaults } from '../../src/engine/scripted/fault-injection.ts';
import { serveEngine } from '../../src/engine/server.ts';
import { ServiceError } from '../../src/errors.ts';
import { SILENT } from '../../src/log.ts';
import { chat, collect, MODEL, STAYS } from './requests.ts';

/** The options of a client that no test waits for. */
export const REPLICA: ReplicaOptions = {
  name: 'replica',
  dialect: 'sluice',
  url: 'http://localhost',
  model: MODEL,
  sharedPrefixCache: false,
  firstByteMs: 10_000,
  silenceMs: 10_000,
  log: SILENT,
};

/** A scripted engine behind a real server, and the client of it. */
export async function openScripted(
  scripted: Partial<ScriptedOptions> = {},
  more: Partial<ReplicaOptions> = {},
): Promise<Engine & AsyncDisposable> {
  const server = await serveEngine(
    new ScriptedEngine(scripted),
    { host: '127.0.0.1', port: 0 },
    { maxChoices: 4, modelId: MODEL, log: SILENT, beforeResponse: injectFaults },
  );
  const engine = openReplica({ ...REPLICA, url: server.address, ...more });
  return {
    name: engine.name,
    dialect: engine.dialect,
    generate: (request, signal) => engine.generate(request, signal),
    health: (signal) => engine.health(signal),
    describe: (signal) => engine.describe(signal),
    async [Symbol.asyncDispose]() {
      await engine[Symbol.asyncDispose]();
      await server.close();
    },
  };
}

/** The generation fails, with one of these codes and not as a refusal. */
export async function fails(engine: Engine, directive: Directive, ...codes: string[]): Promise<void> {
  await assert.rejects(collect(engine.generate(chat(directive), STAYS)), (error) => {
    assert(error instanceof ServiceError);
    assert(!(error instanceof ReplicaRefused));
    assert(codes.includes(error.code), `the code is ${error.code}`);
    return true;
  });
}

/** Whether it is `engine_unavailable` and no refusal. */
export function unavailable(error: unknown): boolean {
  return (
    error instanceof ServiceError && error.code === 'engine_unavailable' && !(error instanceof ReplicaRefused)
  );
}

/** Says that the answer has begun, and then nothing more. */
export function openingOnly(response: ServerResponse): void {
  response.writeHead(200);
  response.write('data: {"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}\n\n');
}

/** Answers as any server of the common format does, whole or as a stream. */
export function sayHello(
  response: ServerResponse,
  request: IncomingMessage,
  body: Record<string, unknown>,
): void {
  const isChat = request.url === '/v1/chat/completions';
  const usage = { prompt_tokens: 7, completion_tokens: 2, total_tokens: 9 };
  const says = (content: string) =>
    isChat ? { [body['stream'] ? 'delta' : 'message']: { content } } : { text: content };
  if (!body['stream']) {
    response.end(
      JSON.stringify({ choices: [{ index: 0, ...says('hé 東京'), finish_reason: 'stop' }], usage }),
    );
    return;
  }
  const chunks = [
    { choices: [{ index: 0, ...says('hé'), finish_reason: null }] },
    { choices: [{ index: 0, ...says(' 東京'), finish_reason: null }] },
    { choices: [{ index: 0, ...says(''), finish_reason: 'stop' }] },
    { choices: [], usage },
  ];
  response.end(`${chunks.map((chunk) => `data: ${JSON.stringify(chunk)}\n\n`).join('')}data: [DONE]\n\n`);
}

type Handler = (response: ServerResponse, request: IncomingMessage, body: Record<string, unknown>) => unknown;

/** A replica of bare HTTP, and the client of it. */
export class Raw implements AsyncDisposable {
  readonly engine: Engine;
  readonly url: string;
  /** Of the generation requests, in order. */
  readonly paths: (string | undefined)[] = [];
  readonly bodies: Record<string, unknown>[] = [];
  connections = 0;
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  #wake: () => void = () => {};

  private constructor(server: Server, more: Partial<ReplicaOptions>) {
    // It listens on TCP.
    this.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    this.#server = server;
    this.engine = openReplica({ ...REPLICA, url: this.url, ...more });
    server.on('connection', (socket) => {
      this.connections++;
      this.#sockets.add(socket);
      socket.on('close', () => {
        this.#sockets.delete(socket);
        this.#wake();
      });
    });
  }

  static async listen(handler: Handler, more: Partial<ReplicaOptions> = {}): Promise<Raw> {
    const server = createServer((request, response) => {
      let body = '';
      request.setEncoding('utf8').on('data', (part: string) => (body += part));
      request.on('end', () => {
        // The client sends objects.
        const fields = JSON.parse(body || '{}') as Record<string, unknown>;
        if (request.method === 'POST') {
          raw.paths.push(request.url);
          raw.bodies.push(fields);
        }
        void handler(response, request, fields);
      });
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const raw = new Raw(server, more);
    return raw;
  }

  /** Closes the connections on which nothing is asked, as servers do after a while. */
  closeIdle(): void {
    this.#server.closeIdleConnections();
  }

  /** Resolves when no connection is open. */
  async closed(): Promise<void> {
    while (this.#sockets.size > 0) await new Promise<void>((resolve) => (this.#wake = resolve));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.engine[Symbol.asyncDispose]();
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }
}
