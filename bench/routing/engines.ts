/**
 * Scripted engines with a simulated prefix cache, which look like vLLM servers to a router. Arguments: the ports.
 * `GET /counts` returns their token counts.
 */
import { randomUUID } from 'node:crypto';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { json } from 'node:stream/consumers';
import { sendJson } from '../../src/engine/server.ts';
import { ScriptedEngine } from '../../test/support/scripted-engine/engine.ts';
import { Notes } from '../../src/core/notes.ts';
import { CHAT } from '../../src/protocols/openai/protocols.ts';

const MODEL = 'bench/model';
const CONTEXT_TOKENS = 32_768;
const SLOTS = 16;

/** The fields of a request that have an effect. Routers add others, which the parser would refuse. */
const FIELDS = ['model', 'messages', 'max_tokens', 'stream'];

function startEngine(port: number): void {
  const engine = new ScriptedEngine({
    slots: SLOTS,
    queue: 10_000,
    contextTokens: CONTEXT_TOKENS,
    // Completions have the length of `max_tokens`.
    tokens: CONTEXT_TOKENS,
    tokenMs: 15,
    tokenMsPerRequest: 1,
    promptTokenMs: 0.2,
    cacheTokens: 60_000,
  });

  async function generate(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const body = (await json(request)) as Record<string, unknown>; // A router sends an object.
    const known = Object.fromEntries(FIELDS.flatMap((name) => (name in body ? [[name, body[name]]] : [])));
    const parsed = CHAT.parse(
      { ...known, stream_options: { include_usage: true } },
      { maxChoices: 1, notes: new Notes(), sealer: { seal: (text) => text, open: () => null } },
    );
    // Without a salt, vLLM shares the cache between all requests.
    const cacheScope = typeof body['cache_salt'] === 'string' ? body['cache_salt'] : 'shared';
    const stop = new AbortController();
    response.on('close', () => stop.abort());
    const chunks = parsed.stream(randomUUID());
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    try {
      for await (const event of engine.generate({ ...parsed.generation, cacheScope }, stop.signal))
        if (event.type !== 'prefill') response.write(chunks.format(event));
      response.end(chunks.end);
    } catch {
      response.destroy();
    }
  }

  const server = createServer((request, response) => {
    const { method, url } = request;
    if (method === 'POST' && url === '/v1/chat/completions') void generate(request, response);
    else if (method === 'POST' && url === '/v1/chat/completions/render') void render(request, response);
    else if (url === '/health') sendJson(response, 200, '{}');
    else if (url === '/counts') sendJson(response, 200, JSON.stringify(engine.health()));
    else if (url === '/v1/models') sendJson(response, 200, MODELS);
    else if (url === '/metrics') response.end(metrics(engine));
    else sendJson(request.resume() && response, 404, '{}');
  });
  server.keepAliveTimeout = 120_000;
  server.listen(port, '127.0.0.1');
}

/** Returns the tokens of the prompt, one per four characters. vllm-router needs them for its policy. */
async function render(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const { messages } = (await json(request)) as { messages: { content: string }[] };
  const prompt = Buffer.from(messages.map(({ content }) => content).join('\n'));
  const ids = Array.from({ length: prompt.length >> 2 }, (_, index) => prompt.readUInt32LE(4 * index) >>> 12);
  sendJson(response, 200, JSON.stringify({ request_id: 'render', token_ids: ids }));
}

const MODELS = JSON.stringify({
  object: 'list',
  data: [{ id: MODEL, object: 'model', max_model_len: CONTEXT_TOKENS }],
});

/** Returns the gauges of a vLLM server in the text format of Prometheus. */
function metrics(engine: ScriptedEngine): string {
  const { slotsInUse, queued } = engine.health();
  const gauges = {
    num_requests_running: slotsInUse,
    num_requests_waiting: queued,
    kv_cache_usage_perc: engine.cacheUsage,
  };
  return Object.entries(gauges)
    .map(
      ([name, value]) =>
        `# TYPE vllm:${name} gauge\nvllm:${name}{engine="0",model_name="${MODEL}"} ${value}\n`,
    )
    .join('');
}

for (const port of process.argv.slice(2)) startEngine(Number(port));
