/**
 * A scripted OpenAI-compatible upstream with precomputed responses, to use little CPU. Arguments: port. The `max_tokens`
 * of a request is the number of chunks, `seed` the milliseconds between them; with a seed of 0, the stream stays open
 * after its first chunk until the client disconnects.
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

interface UpstreamStream {
  response: ServerResponse;
  chunksLeft: number;
}

/** Streams by the milliseconds between their chunks. Those with the same interval share a timer. */
const streamsByInterval = new Map<number, Set<UpstreamStream>>();

function start(everyMs: number, stream: UpstreamStream): void {
  const streams = streamsByInterval.get(everyMs) ?? startTimer(everyMs);
  streams.add(stream);
  stream.response.once('close', () => streams.delete(stream));
}

function startTimer(everyMs: number): Set<UpstreamStream> {
  const streams = new Set<UpstreamStream>();
  streamsByInterval.set(everyMs, streams);
  setInterval(() => {
    for (const stream of streams) {
      if (stream.chunksLeft-- > 0) stream.response.write(chunk);
      else {
        streams.delete(stream);
        stream.response.end(finish);
      }
    }
  }, everyMs);
  return streams;
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
    const chunksLeft = Number(/"max_tokens":(\d+)/.exec(body)?.[1] ?? 16);
    if (everyMs > 0) start(everyMs, { response, chunksLeft });
    else response.write(chunk);
  });
});
server.keepAliveTimeout = 120_000;
server.listen(Number(process.argv[2]), '127.0.0.1');
