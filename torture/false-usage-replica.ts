import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import { FALSE_USAGE_MODEL, RETRY_AFTER_MS } from './configuration.ts';
import { FALSE_USAGES, parseScript, type FalseUsage, type ReplicaScript } from './false-usage.ts';

const CONTEXT_TOKENS = 65_536;

/** The fields of requests that the replica reads. */
interface RequestBody {
  stream?: boolean;
  prompt?: string;
  messages?: { content: string }[];
}

/** Starts a replica that uses vLLM's dialect and reports the usage selected by each prompt. */
export async function startFalseUsageReplica(port: number): Promise<AsyncDisposable> {
  return await startReplica(port, (response, body, script) => {
    const isChat = body.messages !== undefined;
    if (body.stream) void sendStream(response, script, isChat);
    else setTimeout(() => sendBody(response, script, isChat), script.delayMs);
  });
}

/** Another replica of the same model. */
export interface LimitedReplica extends AsyncDisposable {
  /** The requests so far whose scripts have `isCounted`. */
  readonly counted: number;
}

/** Starts a replica that responds with 429 to every request. */
export async function startLimitedReplica(port: number): Promise<LimitedReplica> {
  let counted = 0;
  const headers = { 'retry-after-ms': RETRY_AFTER_MS };
  const server = await startReplica(port, (response, _body, { isCounted }) => {
    if (isCounted) counted++;
    response.writeHead(429, headers).end();
  });
  return {
    get counted() {
      return counted;
    },
    [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
  };
}

async function startReplica(
  port: number,
  generate: (response: ServerResponse, body: RequestBody, script: ReplicaScript) => void,
): Promise<AsyncDisposable> {
  const server = createServer((request, response) => {
    const parts: Buffer[] = [];
    request.on('data', (part: Buffer) => parts.push(part));
    request.on('end', () => {
      if (request.url === '/health') return response.end();
      if (request.url === '/v1/models')
        return response.end(
          JSON.stringify({ data: [{ id: FALSE_USAGE_MODEL, max_model_len: CONTEXT_TOKENS }] }),
        );
      if (request.method === 'GET') return response.writeHead(404).end();
      // The service sends JSON objects.
      const body = JSON.parse(Buffer.concat(parts).toString()) as RequestBody;
      return generate(response, body, parseScript(body.prompt ?? body.messages?.at(-1)?.content ?? ''));
    });
  });
  server.listen(port, '127.0.0.1');
  await once(server, 'listening');
  return {
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((closed) => server.close(closed));
    },
  };
}

function sendBody(response: ServerResponse, script: ReplicaScript, isChat: boolean): void {
  const content = word(script.wordBytes).repeat(script.words);
  const fields = isChat ? { message: { content } } : { text: content };
  const usage = FALSE_USAGES[script.usage].report(script.words, 'total');
  response.end(JSON.stringify({ choices: [{ index: 0, ...fields, finish_reason: 'stop' }], usage }));
}

/** Sends one frame per token with the usage so far, like vLLM with `continuous_usage_stats`. */
async function sendStream(response: ServerResponse, script: ReplicaScript, isChat: boolean): Promise<void> {
  const content = word(script.wordBytes);
  const falseUsage: FalseUsage = FALSE_USAGES[script.usage];
  const frame = (text: string, finish: string | null) => ({
    choices: [{ index: 0, ...(isChat ? { delta: { content: text } } : { text }), finish_reason: finish }],
  });
  const closed = new AbortController();
  response.once('close', () => closed.abort());
  response.writeHead(200, { 'content-type': 'text/event-stream' });
  for (let index = 1; index <= script.words; index++) {
    const usage = falseUsage.report(index, 'token');
    const hasRoom = response.write(`data: ${JSON.stringify({ ...frame(content, null), usage })}\n\n`);
    if (!hasRoom && !(await drained(response, closed.signal))) return;
  }
  const finish = { ...frame('', 'stop'), usage: falseUsage.report(script.words, 'finish') };
  const total = { choices: [], usage: falseUsage.report(script.words, 'total') };
  const last = falseUsage.finishLast ? [total, finish] : [finish, total];
  response.end(`${last.map((chunk) => `data: ${JSON.stringify(chunk)}\n\n`).join('')}data: [DONE]\n\n`);
}

/** Waits until the buffer has room. Resolves with false if the service has closed the connection. */
async function drained(response: ServerResponse, signal: AbortSignal): Promise<boolean> {
  return await once(response, 'drain', { signal }).then(
    () => true,
    () => false,
  );
}

/** Returns a token of this length: a word and a space. */
function word(bytes: number): string {
  return `${'w'.repeat(bytes - 1)} `;
}
