import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import Anthropic from '@anthropic-ai/sdk';
import OpenAI, { BadRequestError } from 'openai';
import { HttpReplica, respondHello } from '../replicas/replicas.ts';
import { ManualClock, MODEL, post, requestLog, startService, until } from '../harness.ts';
import { Management } from '../management.ts';
import { dataUri, jpeg, PIXEL, png } from './samples.ts';

const VISION = 'acme/vision';
const WEB = 'acme/web';
const VLLM_MODELS = { data: [VISION, WEB].map((id) => ({ id, max_model_len: 8192 })) };

/**
 * A scripted vLLM that takes images. It closes the connection of the next `lost` requests: before the response if the
 * connection was idle, or after `lostAfter` chunks.
 */
let lost = 0;
let lostAfter = 0;
const used = new WeakSet<object>();
const vllm = await HttpReplica.listen((response, request, body): unknown => {
  if (request.url === '/v1/models') return response.end(JSON.stringify(VLLM_MODELS));
  if (request.method !== 'POST') return response.end('{}');
  const isReused = used.has(request.socket);
  used.add(request.socket);
  if (lost === 0 || (lostAfter === 0 && !isReused)) return respondHello(response, request, body);
  lost--;
  if (lostAfter === 0) return response.destroy();
  response.writeHead(200);
  const chunk = 'data: {"choices":[{"index":0,"delta":{"content":"hé"}}]}\n\n';
  return response.write(chunk, () => response.destroy());
});
after(() => vllm[Symbol.asyncDispose]());

/** A llama-server whose model takes images. */
const llama = await HttpReplica.listen((response, request, body): unknown => {
  if (request.url === '/props') {
    const settings = {
      default_generation_settings: { n_ctx: 4096 },
      modalities: { vision: true, audio: false },
    };
    return response.end(JSON.stringify(settings));
  }
  return request.method === 'POST' ? respondHello(response, request, body) : response.end('{}');
});
after(() => llama[Symbol.asyncDispose]());

const REPORTED = 'acme/reported';
const models = [
  { id: MODEL, engine: { file: 'scripted:{}' } },
  {
    id: VISION,
    replicas: [{ url: vllm.url, dialect: 'vllm' }],
    images: { tokens: 1000, max: 4, bytes: 100_000 },
  },
  { id: WEB, replicas: [{ url: vllm.url, dialect: 'vllm' }], images: { urls: true } },
  { id: REPORTED, replicas: [{ url: llama.url, dialect: 'llama-server' }] },
];
const plans = { open: {}, small: { tokensPerDay: 3000 } };
const yaml = JSON.stringify({
  models,
  plans,
  defaultPlan: 'open',
  recovery: { maxAttempts: 2 },
  limits: { bodyBytes: 30_000_000 },
});
const it = await startService(yaml, {}, { clock: new ManualClock() });
after(() => it[Symbol.asyncDispose]());
const manager = await Management.of(it);
const states = () =>
  it.service.router.overview().flatMap(({ replicas }) => replicas.map(({ state }) => state.state));
await until(() => states().every((state) => state === 'ready'));

const [, DATA = ''] = PIXEL.split(',');
const openai = new OpenAI({ baseURL: `${it.url}/v1`, apiKey: it.key, maxRetries: 0 });
const anthropic = new Anthropic({ baseURL: it.url, apiKey: it.key, maxRetries: 0 });

const part = (url: string) => ({ type: 'image_url' as const, image_url: { url } });
const TEXT = { type: 'text' as const, text: 'What is this?' };
const chat = (model: string, ...urls: string[]) => ({
  model,
  messages: [{ role: 'user' as const, content: [TEXT, ...urls.map(part)] }],
});

/** Returns the messages that the server got last. */
const received = () => vllm.bodies.at(-1)?.['messages'];
const SENT = [{ role: 'user', content: [{ type: 'text', text: 'What is this?' }, part(PIXEL)] }];

test('the official clients send an image in each language, and the server gets the same', async () => {
  const completion = await openai.chat.completions.create(chat(VISION, PIXEL));
  assert.equal(completion.choices[0]?.message.content, 'hé 東京');
  assert.deepEqual(received(), SENT);
  const response = await openai.responses.create({
    model: VISION,
    input: [
      {
        role: 'user',
        content: [
          { type: 'input_text', text: 'What is this?' },
          { type: 'input_image', image_url: PIXEL, detail: 'auto' },
        ],
      },
    ],
  });
  assert.equal(response.output_text, 'hé 東京');
  const detailed = { type: 'image_url', image_url: { url: PIXEL, detail: 'auto' } };
  assert.deepEqual(received(), [{ role: 'user', content: [SENT[0]?.content[0], detailed] }]);
  const message = await anthropic.messages.create({
    model: VISION,
    max_tokens: 10,
    messages: [
      {
        role: 'user',
        content: [TEXT, { type: 'image', source: { type: 'base64', media_type: 'image/png', data: DATA } }],
      },
    ],
  });
  assert.ok(message.content[0]?.type === 'text' && message.content[0].text === 'hé 東京');
  assert.deepEqual(received(), SENT);
});

test('an image that is wrong, too large, too many or behind a URL gets a 400 and never reaches a server', async () => {
  const before = vllm.bodies.length;
  const cases: [string[], string, RegExp][] = [
    [[dataUri(Buffer.from('no image'))], '1', /these bytes are none/],
    [[PIXEL, dataUri(png(1, 1, [100_000, 100_000]))], '2', /at most 67108864 pixels/],
    [[dataUri(png(1, 1, [1, 1], 100_000))], '1', /at most 100000 bytes/],
    [Array.from({ length: 50 }, () => PIXEL), '5', /at most 4 images of a request; got 50/],
    [['data:image/tiff;base64,AAAA'], '1', /PNG, JPEG, GIF or WebP/],
    [['http://10.0.0.1/a.png'], '1', /`https` URL/],
    [['https://10.0.0.1/a.png'], '1', /public host/],
    [['https://example.com/a.png'], '1', /must be a data URI/],
  ];
  for (const [urls, index, message] of cases) {
    await assert.rejects(openai.chat.completions.create(chat(VISION, ...urls)), (error) => {
      assert.ok(error instanceof BadRequestError);
      assert.equal(error.param, `messages[0].content[${index}].image_url.url`);
      assert.match(error.message, message);
      return true;
    });
  }
  for (const url of ['https://169.254.169.254/latest/meta-data', 'https://localhost/a.png'])
    await assert.rejects(openai.chat.completions.create(chat(WEB, url)), /public host/);
  assert.equal(vllm.bodies.length, before);
});

test('a URL is sent to the server of a model that takes URLs, and the service does not fetch it', async () => {
  const url = 'https://127.0.0.1.example.com/a.png';
  await openai.chat.completions.create(chat(WEB, url));
  assert.deepEqual(received(), [{ role: 'user', content: [TEXT, part(url)] }]);
});

test('a model on the embedded engine refuses images, and says which models take them', async () => {
  await assert.rejects(openai.chat.completions.create(chat(MODEL, PIXEL)), (error) => {
    assert.ok(error instanceof BadRequestError);
    assert.equal(error.code, 'unsupported_parameter');
    assert.match(error.message, /takes only text; use a model whose `architecture.modality`/);
    return true;
  });
  const count = { model: MODEL, messages: [{ role: 'user' as const, content: [IMAGE_BLOCK] }] };
  await assert.rejects(anthropic.messages.countTokens(count), /takes only text/);
});

test('a model that takes only text responds to a history with images, with a note in the header and the receipt', async () => {
  const { response } = await openai.chat.completions
    .create({
      model: MODEL,
      messages: [
        ...chat(MODEL, PIXEL).messages,
        { role: 'assistant', content: 'A pixel.' },
        { role: 'user', content: 'Which color?' },
      ],
    })
    .withResponse();
  const path = 'messages[0].content[1].image_url.url';
  const what = 'left out (this model takes only text)';
  assert.equal(response.headers.get('x-sluice-notes'), `${path} ${what}`);
  const receipt = await fetch(`${it.url}/api/receipts/${response.headers.get('x-request-id')}`, {
    headers: { authorization: `Bearer ${it.key}` },
  });
  const { model_input: input } = (await receipt.json()) as { model_input: object };
  assert.deepEqual({ ...input, notes: [{ path, what }], images: [] }, input);
});

const IMAGE_BLOCK = {
  type: 'image' as const,
  source: { type: 'base64' as const, media_type: 'image/png' as const, data: DATA },
};

test('the list of models says which ones take images, also if only the server reports it', async () => {
  const listed = (await (await fetch(`${it.url}/v1/models`)).json()) as {
    data: { id: string; architecture: { modality: string } }[];
  };
  assert.deepEqual(
    listed.data.map(({ id, architecture }) => [id, architecture.modality]),
    [
      [MODEL, 'text->text'],
      [VISION, 'text+image->text'],
      [WEB, 'text+image->text'],
      [REPORTED, 'text+image->text'],
    ],
  );
  await openai.chat.completions.create(chat(REPORTED, PIXEL));
  assert.deepEqual(llama.bodies.at(-1)?.['messages'], SENT);
});

test('limits reserve the tokens of images until the server reports the usage', async () => {
  const { key } = await manager.caller('small');
  const asLimited = new OpenAI({ baseURL: `${it.url}/v1`, apiKey: key, maxRetries: 0 });
  const request = (images: number) => ({
    ...chat(VISION, ...Array.from({ length: images }, () => PIXEL)),
    max_tokens: 5,
  });
  await asLimited.chat.completions.create(request(0));
  await assert.rejects(asLimited.chat.completions.create(request(1)), { status: 429 });
});

test('a count of tokens includes the estimate for images, and says so', async () => {
  const counted = await post(
    it,
    '/v1/messages/count_tokens',
    { model: VISION, messages: [{ role: 'user', content: [IMAGE_BLOCK, IMAGE_BLOCK] }] },
    { 'anthropic-version': '2023-06-01' },
  );
  const { input_tokens: tokens } = (await counted.json()) as { input_tokens: number };
  assert.ok(tokens >= 2000, `${tokens} tokens`);
  assert.match(counted.headers.get('x-sluice-notes') ?? '', /^input_tokens estimated/);
});

test('the receipt has the sizes of the images, and neither it nor the log has their content', async () => {
  const { response } = await openai.chat.completions
    .create(chat(VISION, dataUri(png(40, 30)), dataUri(jpeg(), 'image/jpeg')))
    .withResponse();
  const receipt = await fetch(`${it.url}/api/receipts/${response.headers.get('x-request-id')}`, {
    headers: { authorization: `Bearer ${it.key}` },
  });
  const text = await receipt.text();
  const { model_input: input } = JSON.parse(text) as { model_input: { images: unknown } };
  const sizes = { width: 40, height: 30, bytes: png(40, 30).length };
  assert.deepEqual(input.images, [
    { format: 'png', ...sizes },
    { format: 'jpeg', width: 3, height: 2, bytes: jpeg().length },
  ]);
  const { response: withUrl } = await openai.chat.completions
    .create(chat(WEB, 'https://example.com/secret.png'))
    .withResponse();
  const second = await manager.receipt(withUrl.headers.get('x-request-id') ?? '');
  assert.ok(!JSON.stringify(second).includes('secret.png'));
  await until(() => requestLog(it).length > 0);
  for (const content of ['base64', DATA.slice(0, 40), 'secret.png'])
    assert.ok(!text.includes(content) && !it.log().includes(content), content);
});

test('a request with an image is sent again before its first event, and not continued after it', async () => {
  let sentBefore = vllm.bodies.length;
  let requests = 0;
  [lost, lostAfter] = [1, 0];
  // An idle connection may have ended before the request.
  await until(async () => {
    requests++;
    const completion = await openai.chat.completions.create(chat(VISION, PIXEL));
    assert.equal(completion.choices[0]?.message.content, 'hé 東京');
    return lost === 0;
  });
  assert.equal(vllm.bodies.length, sentBefore + requests + 1);
  sentBefore = vllm.bodies.length;
  [lost, lostAfter] = [1, 1];
  const stream = await openai.chat.completions.create({ ...chat(VISION, PIXEL), stream: true });
  await assert.rejects(Array.fromAsync(stream), /failed/);
  assert.equal(vllm.bodies.length, sentBefore + 1);
});

test('an image of megabytes arrives as it was sent', async () => {
  const large = dataUri(png(1, 1, [1, 1], 10_000_000));
  await openai.chat.completions.create(chat(WEB, large));
  assert.deepEqual(received(), [{ role: 'user', content: [TEXT, part(large)] }]);
});

test('an idempotent request with another image is another request', async () => {
  const headers = { 'idempotency-key': 'image-1' };
  const send = (url: string) => post(it, '/v1/chat/completions', chat(VISION, url), headers);
  const first = await send(PIXEL);
  const before = vllm.bodies.length;
  assert.equal(await (await send(PIXEL)).text(), await first.text());
  assert.equal(vllm.bodies.length, before);
  const other = await send(dataUri(png(2, 1)));
  assert.equal(other.status, 422);
});

test('a text to a model that takes images is sent as text', async () => {
  await openai.chat.completions.create({ ...chat(VISION), messages: [{ role: 'user', content: 'Hi' }] });
  assert.deepEqual(received(), [{ role: 'user', content: 'Hi' }]);
});
