import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import { LIAR_MODEL } from './configuration.ts';
import { LIES, readOrder, type Lie, type Order } from './lies.ts';

/** Tokens of prompt and completion together. */
const CONTEXT_TOKENS = 4096;

/** Parts of requests and responses in vLLM's dialect that the liar uses. */
interface Body {
  stream?: boolean;
  prompt?: string;
  messages?: { content: string }[];
}

/** Starts a replica in vLLM's dialect that reports the usage which its prompts ask for. */
export async function startLiar(port: number): Promise<AsyncDisposable> {
  const server = createServer((request, response) => {
    const parts: Buffer[] = [];
    request.on('data', (part: Buffer) => parts.push(part));
    request.on('end', () => {
      if (request.url === '/health') return response.end();
      if (request.url === '/v1/models')
        return response.end(JSON.stringify({ data: [{ id: LIAR_MODEL, max_model_len: CONTEXT_TOKENS }] }));
      // The service sends JSON objects.
      const body = JSON.parse(Buffer.concat(parts).toString()) as Body;
      const order = readOrder(body.prompt ?? body.messages?.at(-1)?.content ?? '');
      if (body.stream) return void stream(response, order, body.messages !== undefined);
      return whole(response, order, body.messages !== undefined);
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

function whole(response: ServerResponse, { lie, words, wordBytes }: Order, isChat: boolean): void {
  const content = word(wordBytes).repeat(words);
  const says = isChat ? { message: { content } } : { text: content };
  const usage = LIES[lie].report(words, 'total');
  response.end(JSON.stringify({ choices: [{ index: 0, ...says, finish_reason: 'stop' }], usage }));
}

/** One frame a token, each with the usage so far, as vLLM sends them with `continuous_usage_stats`. */
async function stream(response: ServerResponse, order: Order, isChat: boolean): Promise<void> {
  const content = word(order.wordBytes);
  const lie: Lie = LIES[order.lie];
  const frame = (text: string, finish: string | null) => ({
    choices: [{ index: 0, ...(isChat ? { delta: { content: text } } : { text }), finish_reason: finish }],
  });
  const closed = new AbortController();
  response.once('close', () => closed.abort());
  response.writeHead(200, { 'content-type': 'text/event-stream' });
  for (let index = 1; index <= order.words; index++) {
    const usage = lie.report(index, 'token');
    const more = response.write(`data: ${JSON.stringify({ ...frame(content, null), usage })}\n\n`);
    if (!more && !(await drained(response, closed.signal))) return;
  }
  const finish = { ...frame('', 'stop'), usage: lie.report(order.words, 'finish') };
  const total = { choices: [], usage: lie.report(order.words, 'total') };
  const last = lie.finishLast ? [total, finish] : [finish, total];
  response.end(`${last.map((chunk) => `data: ${JSON.stringify(chunk)}\n\n`).join('')}data: [DONE]\n\n`);
}

/** False where the service has closed the connection. */
async function drained(response: ServerResponse, signal: AbortSignal): Promise<boolean> {
  return await once(response, 'drain', { signal }).then(
    () => true,
    () => false,
  );
}

/** One token: without its space at the end it is one word. */
function word(bytes: number): string {
  return `${'w'.repeat(bytes - 1)} `;
}
