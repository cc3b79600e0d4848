/**
 * A scripted OpenAI-compatible upstream that costs as little as it can: every byte is made beforehand.
 * Arguments: port. A request's `max_tokens` is the number of chunks, `seed` the milliseconds between them;
 * a seed of 0 holds the stream open after its first chunk until the caller goes.
 */
import { createServer, type ServerResponse } from 'node:http';

const head =
  '{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"bench/model","choices":[{"index":0,';
const role = `data: ${head}"delta":{"role":"assistant","content":""},"finish_reason":null}]}\n\n`;
const chunk = `data: ${head}"delta":{"content":" word"},"finish_reason":null}]}\n\n`;
const usage = '"usage":{"prompt_tokens":20,"completion_tokens":16,"total_tokens":36}';
const finish = `data: ${head}"delta":{},"finish_reason":"stop"}],${usage}}\n\ndata: [DONE]\n\n`;
const words = ' word'.repeat(16);
const whole = Buffer.from(
  `{"id":"chatcmpl-1","object":"chat.completion","created":1,"model":"bench/model","choices":[{"index":0,"message":{"role":"assistant","content":"${words}"},"finish_reason":"stop"}],${usage}}`,
);

interface Running {
  response: ServerResponse;
  left: number;
}

/** Streams by the milliseconds between their chunks: one timer for all that share a pace. */
const paces = new Map<number, Set<Running>>();

function run(everyMs: number, running: Running): void {
  let set = paces.get(everyMs);
  if (!set) {
    const members = new Set<Running>();
    set = members;
    paces.set(everyMs, members);
    setInterval(() => {
      for (const each of members) {
        if (each.left-- > 0) each.response.write(chunk);
        else {
          members.delete(each);
          each.response.end(finish);
        }
      }
    }, everyMs);
  }
  const members = set;
  members.add(running);
  running.response.once('close', () => members.delete(running));
}

const server = createServer((request, response) => {
  if (request.method === 'GET') {
    response.writeHead(200, { 'content-type': 'application/json' });
    response.end('{"object":"list","data":[{"id":"bench/model","object":"model","max_model_len":4096}]}');
    return;
  }
  let body = '';
  request.setEncoding('latin1');
  request.on('data', (text: string) => (body += text));
  request.on('end', () => {
    if (!body.includes('"stream":true')) {
      response.writeHead(200, { 'content-type': 'application/json', 'content-length': whole.length });
      response.end(whole);
      return;
    }
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.write(role);
    const everyMs = Number(/"seed":(\d+)/.exec(body)?.[1] ?? 5);
    if (everyMs > 0) run(everyMs, { response, left: Number(/"max_tokens":(\d+)/.exec(body)?.[1] ?? 16) });
    else response.write(chunk);
  });
});
server.keepAliveTimeout = 120_000;
server.listen(Number(process.argv[2]), '127.0.0.1');
