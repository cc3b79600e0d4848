import assert from 'node:assert/strict';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { createKeyText } from '../src/accounts/key-format.ts';
import { ENGINE_PROTOCOL } from '../src/engine/engine-protocol.ts';
import { scripted, type Directive } from './support/scripted-engine/directive.ts';
import { NO_END } from './support/default-model.ts';
import { runCli, spawnService, temporaryFolder, until } from './harness.ts';
import { requestText, Wire } from './http/wire.ts';

/**
 * Sends marked texts through every path of the service, in prompts, keys and all other fields. Then searches everything
 * that the service has written: its log at debug level, its database, every file of its data directory and temporary
 * directory, and its error responses.
 */
const MARK = 'c4n4ry';
/** A secret of the operator, sent to replicas and to the Hub. */
const REPLICA_KEY = 's3cr3t-of-the-operator';
const FILE = process.env.SLUICE_TEST_MODEL;

/** Responses of a replica that returns the request body in different ways. The request contains the name of the way. */
const ECHOES: Record<string, (response: ServerResponse, body: string) => void> = {
  'status 400': (response, body) => response.writeHead(400).end(JSON.stringify({ message: body })),
  'status 404': (response, body) => response.writeHead(404).end(JSON.stringify({ error: { message: body } })),
  'status 500': (response, body) => response.writeHead(500).end(body),
  'status 503': (response, body) => response.writeHead(503).end(JSON.stringify({ detail: body })),
  'a redirect': (response) => response.writeHead(302, { location: `http://127.0.0.1:9/${MARK}` }).end(),
  'HTML instead of JSON': (response, body) => response.end(`<html>${body}</html>`),
  'unknown JSON': (response, body) => response.end(JSON.stringify({ [MARK]: body })),
  'incomplete JSON': (response, body) => response.end(`{"choices":[{"message":{"content":"${body}`),
  'a chunk with invalid JSON': (response, body) => response.end(`data: ${body}x\n\n`),
  'a chunk with unknown JSON': (response) => response.end(`data: {"choices":"${MARK}"}\n\n`),
  'an unknown event': (response) => response.end(`${MARK}: ${MARK}\n\nevent: ${MARK}\ndata: ${MARK}\n\n`),
  'an error frame': (response) => response.end(`data: {"error":{"message":"${MARK}","code":500}}\n\n`),
  'an error event': (response) => response.end(`event: error\ndata: ${MARK}\n\n`),
  'an invalid header': (response) => response.socket?.end(`HTTP/1.1 200 OK\r\n${MARK}\r\n\r\n`),
  'a closed connection': (response) => {
    response.write(`data: {"choices":[{"index":0,"delta":{"content":"${MARK}"}}]}\n\n`, () =>
      response.destroy(),
    );
  },
};

async function listen(handle: (request: IncomingMessage, response: ServerResponse) => void): Promise<Server> {
  const server = createServer(handle);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  after(() => {
    server.closeAllConnections();
    server.close();
  });
  return server;
}

const replica = await listen((request, response) => {
  if (request.method === 'GET') {
    const engine = { protocol: ENGINE_PROTOCOL, contextTokens: 1000 };
    response.end(JSON.stringify({ data: [{ id: MARK, max_model_len: 1000 }], ...engine }));
    return;
  }
  let body = '';
  request.setEncoding('utf8').on('data', (part: string) => (body += part));
  request.on('end', () => {
    const way = Object.keys(ECHOES).find((name) => body.includes(`<${name}>`));
    ECHOES[way ?? '']?.(response, body);
  });
});
const { port } = replica.address() as AddressInfo; // Listens on TCP.

/** A model for each way in which an engine can crash or hang. */
const CRASHING = [
  { model: 'test/dies', directive: { dieAfter: 1 }, stream: true },
  { model: 'test/dies-whole', directive: { dieAfter: 1 }, stream: false },
  { model: 'test/hangs', directive: { hangAfter: 1 }, stream: true },
  { model: 'test/freezes', directive: { freezeAfter: 1 }, stream: false },
] as const;
const DIALECTS = ['vllm', 'sglang', 'llama-server', 'tgi', 'sluice', 'openai'] as const;
const yaml = `logLevel: debug
limits: {bodyMs: 500}
engine: {stallMs: 15000}
models:
  - {id: test/scripted, engine: {file: 'scripted:', slots: 2}}
${CRASHING.map(({ model }) => `  - {id: ${model}, engine: {file: 'scripted:'}}\n`).join('')}${FILE === undefined ? '' : `  - {id: test/real, engine: {file: '${FILE}', slots: 2, contextTokens: 512, threads: 1}}\n`}${DIALECTS.map(
  (dialect) =>
    `  - {id: test/${dialect}, replicas: [{url: 'http://127.0.0.1:${port}', dialect: ${dialect}, apiKeyEnv: REPLICA_KEY}]}\n`,
).join('')}`;

const temporary = await temporaryFolder();
after(() => temporary[Symbol.asyncDispose]());
const service = await spawnService(yaml, {
  TMPDIR: temporary.path,
  REPLICA_KEY,
  HF_TOKEN: REPLICA_KEY,
});
after(() => service[Symbol.asyncDispose]());
const created = await runCli(['keys', 'create', '--name', 'canary', '--kind', 'admin'], service.env);
const key = created.stdout.trim();
/** The part of the key that is never shown again. */
const hidden = key.slice(14, -4);

const authorization = { Authorization: `Bearer ${key}` };
await until(async () => {
  const { models } = (await (await fetch(`${service.url}/readyz`, { headers: authorization })).json()) as {
    models: { replicas: { state: { state: string } }[] }[];
  };
  return models.every((model) => model.replicas.every(({ state }) => state.state === 'ready'));
});

/** Sends bytes and returns everything that the service sends until the connection ends. */
async function send(request: string | Uint8Array): Promise<string> {
  using wire = await Wire.open(service.url);
  wire.send(request);
  return await wire.rest();
}

let sent = 0;

/** Sends a POST request with a client request ID that identifies its log line. */
function post(path: string, body: object | string, headers: Record<string, string> = {}): Promise<string> {
  sent++;
  return send(
    requestText(
      `POST ${path}`,
      {
        ...authorization,
        Connection: 'close',
        'X-Client-Request-Id': `request-${sent}-`,
        Cookie: MARK,
        ...headers,
      },
      body,
    ),
  );
}

/** Asserts that a response is an error, as a status or in a stream, and does not contain what was sent. */
function assertCleanError(response: string, name: string): void {
  assert.match(response, /"error":\{"message":/, `${name}: ${response}`);
  const streamed = response.startsWith('HTTP/1.1 200');
  assertClean(
    streamed ? response.slice(response.indexOf('data: {"error"')) : response,
    `the error of: ${name}`,
  );
}

function assertClean(text: string | Buffer, source: string): void {
  for (const secret of [MARK, REPLICA_KEY, hidden]) {
    const at = text.indexOf(secret);
    assert.equal(at, -1, `${source}: ${String(text).slice(Math.max(0, at - 200), at + 200)}`);
  }
}

const chat = (content: string, fields: object = {}) => ({
  model: 'test/scripted',
  messages: [
    { role: 'system', content: MARK },
    { role: 'user', content },
  ],
  user: MARK,
  metadata: { [MARK]: MARK },
  ...fields,
});
const marked = (directive: Directive) => `${MARK} ${scripted(directive)}`;

test('successful requests of every kind complete', async () => {
  for (const stream of [true, false]) {
    const fields = { stream, stop: [`${MARK}!`], logprobs: true, top_logprobs: 2, n: 2 };
    assert.match(
      await post('/v1/chat/completions', chat(marked({ text: `I say ${MARK}` }), fields)),
      / 200 OK/,
    );
    const text = { model: 'test/scripted', prompt: [MARK, marked({})], echo: true, stream };
    assert.match(await post('/v1/completions', text), new RegExp(`200 OK[^]*${MARK}`));
    const schema = { type: 'object', properties: { [MARK]: { enum: [MARK] } }, required: [MARK] };
    const format = { type: 'json_schema', json_schema: { name: MARK, schema } };
    const response = await post('/v1/chat/completions', chat(MARK, { stream, response_format: format }));
    assert.match(response, new RegExp(`200 OK[^]*${MARK}`));
  }
});

test('requests with invalid bodies get errors that do not repeat the body', async () => {
  const bodies: Record<string, object | string> = {
    'incomplete JSON': `{"model":"test/scripted","messages":[{"role":"user","content":"${MARK}"`,
    'a string': JSON.stringify(MARK),
    'a bare word': MARK,
    'text after a number': `1${MARK}`,
    'deep JSON': `${`{"${MARK}":`.repeat(500)}"${MARK}"${'}'.repeat(500)}`,
    'a wrong type': chat(MARK, { temperature: MARK }),
    'a wrong type of a message': { model: 'test/scripted', messages: [MARK] },
    'a wrong role': { model: 'test/scripted', messages: [{ role: MARK, content: MARK }] },
    'a wrong part': {
      model: 'test/scripted',
      messages: [{ role: 'user', content: [{ type: MARK, text: MARK }] }],
    },
    'a wrong value': chat(MARK, { response_format: { type: MARK } }),
    'a wrong stop': chat(MARK, { stop: [MARK, '', MARK] }),
    tools: chat(MARK, { tools: [{ type: 'function', function: { name: MARK } }], tool_choice: MARK }),
    'a prompt that is too long': chat(MARK.repeat(5000)),
    'an invalid schema': chat(MARK, {
      response_format: {
        type: 'json_schema',
        json_schema: { name: 'a', strict: true, schema: { type: MARK } },
      },
    }),
  };
  for (const [name, body] of Object.entries(bodies)) {
    assertCleanError(await post('/v1/chat/completions', body), name);
  }
  const invalid = Buffer.concat([
    Buffer.from(`{"model":"${MARK}`),
    Buffer.from([0xff, 0xfe]),
    Buffer.from('"}'),
  ]);
  const head = requestText('POST /v1/completions', {
    ...authorization,
    Connection: 'close',
    'Content-Length': String(invalid.length),
  });
  assertCleanError(await send(Buffer.concat([Buffer.from(head), invalid])), 'invalid UTF-8');
});

test('requests that are refused before their body is read get errors that repeat no part of them', async () => {
  const body = chat(MARK);
  const unknownKey = createKeyText().reveal();
  for (const value of [
    `Bearer ${MARK}`,
    `Bearer sk-sluice-${MARK}`,
    `Bearer ${unknownKey}`,
    `Bearer ${key}${MARK}`,
    `Basic ${MARK}`,
    MARK,
  ]) {
    for (const path of ['/v1/chat/completions', '/v1/completions?api_key=' + MARK]) {
      assertCleanError(await post(path, body, { Authorization: value, 'X-Api-Key': MARK }), value);
    }
    const list = requestText('GET /v1/models', { Authorization: value, Connection: 'close' });
    assertCleanError(await send(list), 'models');
    await send(requestText('GET /readyz', { Authorization: value, Connection: 'close' }));
  }
  const raw: Record<string, string> = {
    'invalid HTTP': `${MARK} ${MARK}\r\n\r\n`,
    'a bad header': `POST /v1/completions HTTP/1.1\r\nHost: a\r\n${MARK} ${MARK}: ${MARK}\r\n\r\n`,
    'too many headers': requestText('POST /v1/completions', {
      ...authorization,
      'X-Long': MARK.repeat(5000),
    }),
    'a bad length': `POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Length: ${MARK}\r\n\r\n`,
    'a bad path': requestText(`GET /v1/models/%${MARK}`, { Connection: 'close' }),
    'half a body': requestText('POST /v1/completions', { ...authorization, 'Content-Length': '1000' }) + MARK,
    'a wrong method': requestText(
      'PUT /v1/completions?q=' + MARK,
      { ...authorization, Connection: 'close' },
      body,
    ),
    'a body that is too large':
      requestText('POST /v1/completions', { ...authorization, 'Content-Length': '11000000' }) + MARK,
  };
  for (const [name, request] of Object.entries(raw)) assertCleanError(await send(request), name);
});

test('generations that fail get errors that do not repeat the request', async () => {
  for (const stream of [true, false]) {
    for (const directive of [
      { error: 'internal_error' },
      { error: 'invalid_value' },
      { errorAfter: 1 },
      { cutAfter: 2 },
      { garbageAfter: 1 },
      { endAfter: 1 },
      { status: 500, body: MARK },
    ] as const) {
      assertCleanError(
        await post('/v1/chat/completions', chat(marked({ tokens: 3, ...directive }), { stream })),
        JSON.stringify(directive),
      );
    }
    assertCleanError(
      await post('/v1/chat/completions', chat(`${MARK} scripted:{${MARK}`, { stream })),
      'an invalid script',
    );
    for (const directive of [{ startMs: 600_000 }, { prefillMs: 600_000 }, { tokenMs: 600_000 }]) {
      using wire = await Wire.open(service.url);
      const body = chat(marked(directive), { stream });
      wire.send(requestText('POST /v1/chat/completions', authorization, body));
      if (stream && !('startMs' in directive)) await wire.head();
      wire.socket.resetAndDestroy();
      await wire.rest();
    }
  }
});

test('engines that crash or hang cause errors that do not repeat the request', async () => {
  await Promise.all(
    CRASHING.map(async ({ model, directive, stream }) => {
      const complete = (content: string) => post('/v1/chat/completions', chat(content, { model, stream }));
      assertCleanError(await complete(marked({ tokens: 3, ...directive })), model);
      await until(async () => (await complete(MARK)).startsWith('HTTP/1.1 200'));
    }),
  );
});

test('replicas that return the request cause errors that do not repeat it', async () => {
  for (const dialect of DIALECTS) {
    for (const way of Object.keys(ECHOES)) {
      for (const stream of [true, false]) {
        const body = chat(`${MARK} <${way}>`, { model: `test/${dialect}`, stream });
        // Not every server supports these fields.
        const response = await post('/v1/chat/completions', {
          ...body,
          user: undefined,
          metadata: undefined,
        });
        // The message of a 400 is passed on, because the caller can fix its request.
        if (way !== 'status 400') assertCleanError(response, `${dialect}: ${way}`);
      }
    }
  }
});

const withModel = { skip: FILE === undefined && 'SLUICE_TEST_MODEL is not set' };

test('errors about requests to a real model do not repeat the request', withModel, async () => {
  const model = 'test/real';
  const format = (schema: object) => ({
    response_format: { type: 'json_schema', json_schema: { name: MARK, strict: true, schema } },
    max_tokens: 8,
  });
  for (const stream of [true, false]) {
    const bodies: object[] = [
      chat(MARK, { model, stream, max_tokens: 4, stop: [MARK], logprobs: true }),
      chat(MARK, { model, stream, ...format({ type: 'object', properties: { [MARK]: { const: MARK } } }) }),
      chat(MARK, { model, stream, ...format({ type: 'string', pattern: `^${MARK}[a-z]{2,3}$` }) }),
    ];
    for (const body of bodies) assert.match(await post('/v1/chat/completions', body), / 200 OK/);
    const invalid = format({ type: 'string', pattern: `(${MARK}` });
    assertCleanError(
      await post('/v1/chat/completions', chat(MARK, { model, stream, ...invalid })),
      'an invalid pattern',
    );
    assertCleanError(
      await post('/v1/chat/completions', chat(`${MARK} `.repeat(500), { model, stream })),
      'too long',
    );
    assertCleanError(
      await post('/v1/chat/completions', {
        model,
        stream,
        messages: [{ role: 'assistant', content: MARK }],
        tools: [MARK],
      }),
      'tools',
    );
  }
  using wire = await Wire.open(service.url);
  // Long enough that it is still running when its engine is killed.
  const running = chat(MARK, { model, stream: true, max_tokens: 64, logit_bias: NO_END });
  wire.send(requestText('POST /v1/chat/completions', authorization, running));
  await wire.head();
  const pid = /"engine":"test\/real","pid":(\d+)/.exec(service.stderr())?.[1];
  process.kill(Number(pid), 'SIGKILL');
  for (let text = ''; !text.includes('[DONE]');) text += (await wire.chunk()) ?? '';
  await until(() => /test\/real.*engine crashed/.test(service.stderr()));
});

test('the log, the database and all files contain no marked text', async () => {
  await runCli(['keys', 'list', '--json'], service.env);
  const files = await assertFilesClean();
  assert.ok(files.some((file) => file.endsWith('sluice.db-wal')));
  assert.ok(files.some((file) => file.endsWith('.sock')));
  service.child.kill('SIGTERM');
  assert.equal(await service.ended, 0);
  await assertFilesClean();
  const log = service.stdout() + service.stderr();
  assertClean(log, 'the log');
  // The requests and the key were recorded: the log has the client request IDs, the database the prefix of the key.
  const requests = [...log.matchAll(/"clientRequestId":"request-(\d+)-"/g)];
  assert.ok(requests.length > 100, String(requests.length));
  const database = await readFile(join(service.home, 'sluice.db'));
  assert.ok(database.includes(key.slice(0, 14)));
});

/** Searches every file of the data directory and the temporary directory. Returns their paths. */
async function assertFilesClean(): Promise<string[]> {
  const names: string[] = [];
  for (const folder of [service.home, temporary.path]) {
    for (const entry of await readdir(folder, { recursive: true, withFileTypes: true })) {
      const path = join(entry.parentPath, entry.name);
      names.push(path);
      assertClean(path, 'a file name');
      if (entry.isFile()) assertClean(await readFile(path), path);
    }
  }
  return names;
}
