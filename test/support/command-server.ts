/** A model server for `models[].command` that does what such programs do wrong. Its argument has `CommandServerOptions`. */
import { spawn } from 'node:child_process';
import { existsSync, writeFileSync } from 'node:fs';
import { createServer, type ServerResponse } from 'node:http';
import { join } from 'node:path';

export interface CommandServerOptions {
  /** A port, or the path of a Unix socket. */
  listen: string;
  /** Each process writes a file with its ID as name here. */
  folder: string;
  /** Where it pretends that another process took the port: its first start fails if this file does not exist. */
  taken?: string;
  /** It is loading until this file exists. Default: it is ready. */
  gate?: string;
  /** What `GET /health` returns while it is loading. */
  loadingStatus?: number;
  /** Characters of output, once without newlines and once as lines, before it listens. */
  flood?: number;
  /** Whether it starts a child that ignores SIGTERM, and whether it ignores SIGTERM itself. */
  forks?: boolean;
  ignoresTerm?: boolean;
  /** Lines of output before it exits with code 3. */
  exit?: string[];
  /** Whether it knows neither `GET /v1/models` nor `GET /props`. */
  models404?: boolean;
}

const text = process.argv[2] ?? '';
if (text === 'child') {
  // A child, whose second argument is the folder.
  writeFileSync(join(process.argv[3] ?? '', `${process.pid}`), '');
  process.on('SIGTERM', () => {});
  setInterval(() => {}, 60_000);
} else {
  serve(JSON.parse(text) as CommandServerOptions);
}

function serve(options: CommandServerOptions): void {
  const { listen, folder, taken, gate, loadingStatus = 503, flood = 0, exit } = options;
  writeFileSync(join(folder, `${process.pid}`), '');
  const canaries = Object.keys(process.env).filter((name) => name.endsWith('CANARY'));
  console.log(`environment: ${canaries.join() || 'none'}`);
  if (options.ignoresTerm) process.on('SIGTERM', () => {});
  if (exit) {
    for (const line of exit) console.error(line);
    process.exit(3);
  }
  if (options.forks) {
    spawn(process.execPath, [import.meta.filename, 'child', folder], { stdio: 'inherit' });
  }
  if (taken !== undefined && !existsSync(taken)) {
    writeFileSync(taken, listen);
    console.error('bind: address already in use');
    process.exit(1);
  }
  if (flood > 0) {
    process.stdout.write('x'.repeat(flood));
    process.stdout.write('line\n'.repeat(flood / 5));
  }
  const isLoading = () => gate !== undefined && !existsSync(gate);
  const server = createServer((request, response) => {
    let body = '';
    request.setEncoding('utf8').on('data', (part: string) => (body += part));
    request.on('end', () => {
      if (isLoading()) console.log(`loading: ${request.url}`);
      switch (request.url) {
        case '/health':
          return respond(response, isLoading() ? loadingStatus : 200, {});
        case '/v1/models':
          if (options.models404) return respond(response, 404, {});
          return respond(response, isLoading() ? 503 : 200, { data: [{ id: 'm', max_model_len: 2048 }] });
        case '/v1/completions':
          return count(response, JSON.parse(body) as { prompt: string; stream: boolean });
        default:
          return respond(response, 404, {});
      }
    });
  });
  server.listen(Number(listen) || listen);
}

function respond(response: ServerResponse, status: number, body: object): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
}

/** Counts on from the last number of the prompt to 30; slowly, if streamed. */
function count(response: ServerResponse, { prompt, stream }: { prompt: string; stream: boolean }): void {
  let next = Number(/\d+$/.exec(prompt.trimEnd())?.[0] ?? 0);
  const usage = { prompt_tokens: 1, completion_tokens: 30 - next, total_tokens: 31 - next };
  if (!stream) {
    const words = Array.from({ length: 30 - next }, (_, index) => ` ${next + index + 1}`).join('');
    return respond(response, 200, { choices: [{ index: 0, text: words, finish_reason: 'stop' }], usage });
  }
  const send = (data: object) => response.write(`data: ${JSON.stringify(data)}\n\n`);
  const timer = setInterval(() => {
    next++;
    const isLast = next >= 30;
    send({ choices: [{ index: 0, text: ` ${next}`, finish_reason: isLast ? 'stop' : null }] });
    if (!isLast) return;
    clearInterval(timer);
    send({ choices: [], usage });
    response.end('data: [DONE]\n\n');
  }, 20);
  response.on('close', () => clearInterval(timer));
}
