/**
 * A minimal proxy in Node: `node:http` and undici, without parsing or checking anything. Arguments: port, upstream URL.
 */
import { createServer } from 'node:http';
import { Pool } from 'undici';

const upstream = process.argv[3] ?? '';
const pool = new Pool(upstream, { pipelining: 1 });

createServer((request, response) => {
  if (request.method === 'GET') {
    response.end('{}');
    return;
  }
  const chunks: Buffer[] = [];
  request.on('data', (bytes: Buffer) => chunks.push(bytes));
  request.on('end', () => {
    const disconnected = new AbortController();
    response.once('close', () => disconnected.abort());
    pool
      .request({
        method: 'POST',
        path: request.url ?? '/',
        headers: { 'content-type': 'application/json' },
        body: Buffer.concat(chunks),
        signal: disconnected.signal,
      })
      .then(({ statusCode, headers, body }) => {
        response.writeHead(statusCode, { 'content-type': String(headers['content-type']) });
        body.on('error', () => response.destroy());
        body.pipe(response);
      })
      .catch(() => response.destroy());
  });
}).listen(Number(process.argv[2]), '127.0.0.1');
