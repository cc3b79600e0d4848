/**
 * Sluice end to end (HTTP, key, wire) against `llama-server`: the same model, threads, slots and prompts, arms in
 * turn, medians of several rounds. Prints ratios: on a shared machine times alone mean nothing.
 *
 *   npm run bench:engine -- --llama-server /path/to/llama-server --model model.gguf
 */
import { resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { startPeer, startSluice, type Server } from './servers.ts';
import { median, quantile } from './statistics.ts';
import { timeStream, type StreamTimes } from './stream-client.ts';

const { values: options } = parseArgs({
  options: {
    'llama-server': { type: 'string', default: 'llama-server' },
    model: { type: 'string', default: process.env.SLUICE_TEST_MODEL },
    threads: { type: 'string', default: '2' },
    rounds: { type: 'string', default: '3' },
    streams: { type: 'string', default: '1,8,16,32' },
    tokens: { type: 'string', default: '64' },
    'prefix-slots': { type: 'string', default: '8,16' },
  },
});
if (options.model === undefined) throw new Error('--model: the path of a GGUF file is needed');
const modelFile = resolve(options.model);

const MODEL_ID = 'bench/model';
const threads = Number(options.threads);
const rounds = Number(options.rounds);
const tokens = Number(options.tokens);
const numbers = (list: string) =>
  list
    .split(',')
    .filter((text) => text !== '')
    .map(Number);

/** End of text and end of turn of the default model: kept from being sampled, so that every answer has `tokens`. */
const NO_END = { '0': -100, '2': -100 };

interface Round {
  wallMs: number;
  tokensPerSecond: number;
  ttft: number[];
  itl: number[];
}

async function startBoth(
  slots: number,
  contextTokens: number,
): Promise<{ sluice: Server; peer: Server } & AsyncDisposable> {
  const engine = `{file: ${JSON.stringify(modelFile)}, slots: ${slots}, contextTokens: ${contextTokens}, threads: ${threads}}`;
  const sluice = await startSluice(`logLevel: info\nmodels:\n  - id: ${MODEL_ID}\n    engine: ${engine}\n`);
  const peer = await startPeer(
    options['llama-server'],
    (port) =>
      ['-m', modelFile, '--host', '127.0.0.1', '--port', String(port), '-np', String(slots)].concat([
        '-c',
        String(slots * contextTokens),
        '-t',
        String(threads),
        '-tb',
        String(threads),
        '--no-webui',
      ]),
    '/health',
  );
  return {
    sluice,
    peer,
    async [Symbol.asyncDispose]() {
      await sluice[Symbol.asyncDispose]();
      await peer[Symbol.asyncDispose]();
    },
  };
}

async function round(server: Server, prompts: readonly string[], maxTokens: number): Promise<Round> {
  const began = performance.now();
  const all = await Promise.all(
    prompts.map((content) =>
      timeStream(`${server.url}/v1/chat/completions`, server.key, {
        model: MODEL_ID,
        messages: [{ role: 'user', content }],
        max_tokens: maxTokens,
        temperature: 0,
        logit_bias: NO_END,
        stream_options: { include_usage: true },
      }),
    ),
  );
  const wallMs = Math.max(...all.map((each) => each.endedAt)) - began;
  const total = all.reduce((sum, each) => sum + each.tokens, 0);
  return {
    wallMs,
    tokensPerSecond: (total * 1000) / wallMs,
    ttft: all.map((each) => (each.chunksAt[1] ?? each.endedAt) - each.sentAt),
    itl: all.flatMap(gaps),
  };
}

/** Time between chunks with text: without the first, which has the role, and the last two, which have the end. */
function gaps({ chunksAt }: StreamTimes): number[] {
  const text = chunksAt.slice(1, -2);
  return text.slice(1).map((at, index) => at - (text[index] ?? at));
}

async function alternate(
  both: { sluice: Server; peer: Server },
  prompts: (round: number, arm: string) => string[],
  maxTokens: number,
): Promise<{ sluice: Round[]; peer: Round[] }> {
  const out: { sluice: Round[]; peer: Round[] } = { sluice: [], peer: [] };
  for (let index = 0; index < rounds; index++) {
    const order = index % 2 === 0 ? (['sluice', 'peer'] as const) : (['peer', 'sluice'] as const);
    for (const arm of order) out[arm].push(await round(both[arm], prompts(index, arm), maxTokens));
  }
  return out;
}

const SUBJECTS = [
  'a lighthouse',
  'the sea',
  'bread',
  'a railway',
  'winter',
  'a garden',
  'the moon',
  'a clock',
];

function distinct(streams: number, index: number): string[] {
  return Array.from({ length: streams }, (_, stream) => {
    const subject = SUBJECTS[stream % SUBJECTS.length] ?? 'rain';
    return `Number ${index * 1000 + stream}: write a long story about ${subject} and the number ${stream * 7 + index}.`;
  });
}

/** Some 800 tokens that every caller sends before a question of its own; another one each round. */
function withPrefix(callers: number, index: number): string[] {
  const rules = Array.from(
    { length: 48 },
    (_, line) => `Rule ${index}.${line}: answer in plain words, name your sources, and keep to the point.`,
  );
  return Array.from(
    { length: callers },
    (_, caller) => `${rules.join('\n')}\nQuestion ${caller}: what is ${caller} plus ${index}?`,
  );
}

/** The median of the rounds' ratios: whatever else the machine did in a round, it did to both. */
function ratio(result: { sluice: Round[]; peer: Round[] }, pick: (each: Round) => number): string {
  const ratios = result.sluice.map((each, index) => pick(each) / pick(result.peer[index] ?? each));
  return median(ratios).toFixed(2).padStart(6);
}

const fixed = (value: number) => value.toFixed(1).padStart(8);

const counts = numbers(options.streams);
if (counts.length > 0) {
  await using both = await startBoth(Math.max(...counts), 512);
  console.log('distinct prompts: tokens/s and its ratio; TTFT and ITL in ms as sluice / llama-server');
  console.log('streams  tokens/s  llama-server  ratio | ttft p50           | itl p50            | itl p99');
  // V8 compiles what has run a while, and a service runs for days.
  await alternate(both, (index) => distinct(Math.min(8, Math.max(...counts)), index), 64);
  for (const streams of counts) {
    // Prompts that no other count of streams had, or they would lie in the cache.
    const result = await alternate(both, (index) => distinct(streams, streams * 100 + index), tokens);
    const middle = (arm: Round[], pick: (each: Round) => number) => median(arm.map(pick));
    const cells = [
      (each: Round) => quantile(each.ttft, 0.5),
      (each: Round) => quantile(each.itl, 0.5),
      (each: Round) => quantile(each.itl, 0.99),
    ].map((pick) => `${fixed(middle(result.sluice, pick))} /${fixed(middle(result.peer, pick))}`);
    const ours = middle(result.sluice, (each) => each.tokensPerSecond);
    const theirs = middle(result.peer, (each) => each.tokensPerSecond);
    const paired = ratio(result, (each) => each.tokensPerSecond);
    console.log(
      `${String(streams).padStart(7)} ${fixed(ours)}  ${fixed(theirs)}     ${paired} | ${cells.join(' | ')}`,
    );
  }
}

for (const slots of numbers(options['prefix-slots'])) {
  await using both = await startBoth(slots, 2048);
  await alternate(both, () => ['Say hello.'], 4);
  const result = await alternate(both, (index) => withPrefix(16, index), 32);
  const ours = median(result.sluice.map((each) => each.wallMs));
  const theirs = median(result.peer.map((each) => each.wallMs));
  console.log(
    `shared prefix, 16 callers, ${slots} slots: ${(ours / 1000).toFixed(1)} s / ${(theirs / 1000).toFixed(1)} s = ${ratio(result, (each) => each.wallMs)}`,
  );
}
