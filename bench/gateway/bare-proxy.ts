/**
 * The least that a proxy in Node can be: `node:http` in front, undici behind, bytes passed on as they come. It
 * checks no key, reads no body, counts nothing. Arguments: port, upstream's address.
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
    const gone = new AbortController();
    response.once('close', () => gone.abort());
    pool
      .request({
        method: 'POST',
        path: request.url ?? '/',
        headers: { 'content-type': 'application/json' },
        body: Buffer.concat(chunks),
        signal: gone.signal,
      })
      .then((answer) => {
        response.writeHead(answer.statusCode, { 'content-type': String(answer.headers['content-type']) });
        answer.body.on('error', () => response.destroy());
        answer.body.pipe(response);
      })
      .catch(() => response.destroy());
  });
}).listen(Number(process.argv[2]), '127.0.0.1');
