/**
 * Compares Sluice end to end with `llama-server`: the same model, threads, slots and prompts, in alternating order, as
 * medians of several rounds. Prints ratios, because absolute times mean little on a shared machine.
 *
 *   npm run bench:engine -- --llama-server /path/to/llama-server --model model.gguf
 *
 * Prompts of `--depths` and `--agents` also have the CPU time, which other load changes less. Only they are measured with:
 *
 *   --streams '' --queue-slots '' --prefix-slots '' --conversations '' --copying ''
 */
import { readFileSync } from 'node:fs';
import { mkdtempDisposable } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import {
  AGENT_NAMES,
  agentPrompt,
  isAgent,
  busyLoops,
  comparePrefill,
  PREFILL_HEADER,
  textPrompt,
} from './engine-prefill.ts';
import { readGguf } from '../src/models/gguf.ts';
import { startPair, startPeer, startSluice, type Server } from '../test/support/measured-servers.ts';
import { median, quantile } from './statistics.ts';
import { timeStream, type StreamTimes } from '../test/support/stream-client.ts';

const { values: options } = parseArgs({
  options: {
    'llama-server': { type: 'string', default: 'llama-server' },
    model: { type: 'string', default: process.env.SLUICE_TEST_MODEL },
    threads: { type: 'string', default: '2' },
    rounds: { type: 'string', default: '3' },
    streams: { type: 'string', default: '1,8,16,32' },
    tokens: { type: 'string', default: '64' },
    /** Numbers of slots, each measured with twice as many callers as slots. */
    'queue-slots': { type: 'string', default: '8' },
    'prefix-slots': { type: 'string', default: '8,16' },
    /** Numbers of conversations that take turns on four slots. */
    conversations: { type: 'string', default: '12' },
    /** Numbers of callers whose responses repeat their prompts. */
    copying: { type: 'string', default: '1,2,4' },
    /** Lengths of prompts, in thousands of tokens. */
    depths: { type: 'string', default: '2,8,16' },
    /** Agents whose first requests are imitated. */
    agents: { type: 'string', default: AGENT_NAMES.join(',') },
    /** Number of cores that other programs use while `depths` and `agents` are measured. */
    busy: { type: 'string', default: '0' },
  },
});
if (options.model === undefined) throw new Error('--model is required: the path of a GGUF file.');
const modelFile = resolve(options.model);

const MODEL_ID = 'bench/model';
/** More than the first request of any agent has. */
const AGENT_TOKENS = 20_480;
const threads = Number(options.threads);
const rounds = Number(options.rounds);
const tokens = Number(options.tokens);
const numbers = (list: string) =>
  list
    .split(',')
    .filter((text) => text !== '')
    .map(Number);

/** Forbids the end tokens of the default model, so that every completion has exactly `tokens` tokens. */
const NO_END = { '0': -100, '2': -100 };

interface RoundResult {
  wallMs: number;
  tokensPerSecond: number;
  /** Tokens per second since the first one. */
  generatedPerSecond: number;
  ttft: number[];
  itl: number[];
}

const startBoth = (slots: number, contextTokens: number) =>
  startPair({
    llamaServer: options['llama-server'],
    modelId: MODEL_ID,
    modelFile,
    slots,
    contextTokens,
    threads,
  });

/** `raw`: completes the prompts as they are, instead of answering them in a chat, whose first chunk has no text. */
async function runRound(
  server: Server,
  prompts: readonly string[],
  maxTokens: number,
  raw: boolean,
): Promise<RoundResult> {
  const startedAt = performance.now();
  const streams = await Promise.all(
    prompts.map((content) =>
      timeStream(`${server.url}/v1/${raw ? 'completions' : 'chat/completions'}`, server.key, {
        model: MODEL_ID,
        ...(raw ? { prompt: content } : { messages: [{ role: 'user', content }] }),
        max_tokens: maxTokens,
        temperature: 0,
        logit_bias: NO_END,
        stream_options: { include_usage: true },
      }),
    ),
  );
  const wallMs = Math.max(...streams.map((stream) => stream.endedAt)) - startedAt;
  const total = streams.reduce((sum, stream) => sum + stream.tokens, 0);
  const firstAt = Math.min(...streams.map(({ chunksAt, endedAt }) => chunksAt[raw ? 0 : 1] ?? endedAt));
  const generatedMs = wallMs - (firstAt - startedAt);
  return {
    wallMs,
    tokensPerSecond: (total * 1000) / wallMs,
    generatedPerSecond: (total * 1000) / generatedMs,
    ttft: streams.map((stream) => (stream.chunksAt[1] ?? stream.endedAt) - stream.sentAt),
    itl: streams.flatMap(gaps),
  };
}

/** Returns the times between chunks with text, without the first chunk (role) and the last two (finish and usage). */
function gaps({ chunksAt }: StreamTimes): number[] {
  const text = chunksAt.slice(1, -2);
  return text.slice(1).map((at, index) => at - (text[index] ?? at));
}

async function alternate(
  servers: { sluice: Server; peer: Server },
  prompts: (round: number) => string[],
  maxTokens: number,
  raw = false,
): Promise<Comparison> {
  const results: Comparison = { sluice: [], peer: [] };
  for (let index = 0; index < rounds; index++) {
    const order = index % 2 === 0 ? (['sluice', 'peer'] as const) : (['peer', 'sluice'] as const);
    for (const name of order)
      results[name].push(await runRound(servers[name], prompts(index), maxTokens, raw));
  }
  return results;
}

interface Comparison {
  sluice: RoundResult[];
  peer: RoundResult[];
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

function distinctPrompts(streams: number, index: number): string[] {
  return Array.from({ length: streams }, (_, stream) => {
    const subject = SUBJECTS[stream % SUBJECTS.length] ?? 'rain';
    return `Number ${index * 1000 + stream}: write a long story about ${subject} and the number ${stream * 7 + index}.`;
  });
}

/** Returns prompts that share a prefix of about 800 tokens, which differs in each round. */
function promptsWithPrefix(callers: number, index: number): string[] {
  const rules = Array.from(
    { length: 48 },
    (_, line) => `Rule ${index}.${line}: answer in plain words, name your sources, and keep to the point.`,
  );
  return Array.from(
    { length: callers },
    (_, caller) => `${rules.join('\n')}\nQuestion ${caller}: what is ${caller} plus ${index}?`,
  );
}

/** Characters of a text that is copied. */
const COPIED = 900;

/** Returns prompts that end with the start of a third copy of a text, a part of this file that differs in each round. */
function copyingPrompts(callers: number, index: number): string[] {
  const source = readFileSync(import.meta.filename, 'utf8');
  return Array.from({ length: callers }, (_, caller) => {
    const from = ((index * callers + caller) * 617) % (source.length - COPIED);
    const text = source.slice(from, from + COPIED);
    return `${text}\n\n${text}\n\n${text.slice(0, 60)}`;
  });
}

/** Returns the median of the ratios per round, because other load on the machine slows both servers in a round. */
function ratio({ sluice, peer }: Comparison, pick: (result: RoundResult) => number): string {
  const ratios = sluice.map((result, index) => pick(result) / pick(peer[index] ?? result));
  return median(ratios).toFixed(2).padStart(6);
}

const fixed = (value: number) => value.toFixed(1).padStart(8);

/** Measures distinct prompts and prints a line of the table. */
async function compareDistinct(
  servers: { sluice: Server; peer: Server },
  slots: number,
  callers: number,
): Promise<void> {
  // Unique prompts for each number of callers, so that none is in the prefix cache.
  const result = await alternate(
    servers,
    (index) => distinctPrompts(callers, slots * 10_000 + callers * 100 + index),
    tokens,
  );
  const medianOf = (results: RoundResult[], pick: (result: RoundResult) => number) =>
    median(results.map(pick));
  const cells = [
    ({ ttft }: RoundResult) => quantile(ttft, 0.5),
    ({ itl }: RoundResult) => quantile(itl, 0.5),
    ({ itl }: RoundResult) => quantile(itl, 0.99),
  ].map(
    (pick) =>
      `${fixed(medianOf(result.sluice, pick))} /${fixed(medianOf(result.peer, pick))} ${ratio(result, pick)}`,
  );
  const ours = medianOf(result.sluice, ({ tokensPerSecond }) => tokensPerSecond);
  const theirs = medianOf(result.peer, ({ tokensPerSecond }) => tokensPerSecond);
  const paired = ratio(result, ({ tokensPerSecond }) => tokensPerSecond);
  const counts = `${String(callers).padStart(7)} ${String(slots).padStart(5)}`;
  console.log(`${counts} ${fixed(ours)} /${fixed(theirs)} ${paired} | ${cells.join(' | ')}`);
}

/** Warms up: V8 optimizes code only after it has run for a while. */
async function warmUp(servers: { sluice: Server; peer: Server }, slots: number): Promise<void> {
  await alternate(servers, (index) => distinctPrompts(Math.min(8, slots), index), 64);
}

const counts = numbers(options.streams);
const queueSlots = numbers(options['queue-slots']);
if (counts.length + queueSlots.length > 0) {
  console.log('distinct prompts: Sluice / llama-server and the ratio; times in ms');
  console.log(
    'callers slots tokens/s                  | TTFT p50                  | ITL p50                   | ITL p99',
  );
}
if (counts.length > 0) {
  const slots = Math.max(...counts);
  await using servers = await startBoth(slots, 512);
  await warmUp(servers, slots);
  for (const callers of counts) await compareDistinct(servers, slots, callers);
}
for (const slots of queueSlots) {
  await using servers = await startBoth(slots, 512);
  await warmUp(servers, slots);
  await compareDistinct(servers, slots, 2 * slots);
}

for (const slots of numbers(options['prefix-slots'])) {
  await using servers = await startBoth(slots, 2048);
  await alternate(servers, () => ['Say hello.'], 4);
  const result = await alternate(servers, (index) => promptsWithPrefix(16, index), 32);
  const ours = median(result.sluice.map(({ wallMs }) => wallMs));
  const theirs = median(result.peer.map(({ wallMs }) => wallMs));
  console.log(
    `shared prefix, 16 callers, ${slots} slots: ${(ours / 1000).toFixed(1)} s / ${(theirs / 1000).toFixed(1)} s = ${ratio(result, ({ wallMs }) => wallMs)}`,
  );
}

/** Slots, for more conversations than these. */
const TURN_SLOTS = 4;

/** Returns the messages of a turn of a conversation of about 1,000 tokens. */
function turnOf(conversation: number, turn: number): object[] {
  const notes = Array.from(
    { length: 45 },
    (_, line) => `Note ${conversation}.${line}: ${SUBJECTS[line % SUBJECTS.length]} was seen again today.`,
  );
  const messages = [{ role: 'user', content: `${notes.join('\n')}\nIs this clear?` }];
  for (let earlier = 0; earlier < turn; earlier++)
    messages.push(
      { role: 'assistant', content: 'Yes, it is.' },
      { role: 'user', content: `And what about note ${earlier}?` },
    );
  return messages;
}

/** Time between two turns, in milliseconds: callers read a response before they send the next message. */
const READING_MS = 200;

/** Returns the time to the first token of a turn of a conversation, in milliseconds. */
async function timeTurn(server: Server, conversation: number, turn: number): Promise<number> {
  await setTimeout(READING_MS);
  const stream = await timeStream(`${server.url}/v1/chat/completions`, server.key, {
    model: MODEL_ID,
    messages: turnOf(conversation, turn),
    max_tokens: 4,
    temperature: 0,
    logit_bias: NO_END,
    stream_options: { include_usage: true },
  });
  return (stream.chunksAt[1] ?? stream.endedAt) - stream.sentAt;
}

async function compareReturning(conversations: number): Promise<void> {
  const engine = `{file: ${JSON.stringify(modelFile)}, slots: ${TURN_SLOTS}, contextTokens: 2048, threads: ${threads}}`;
  await using kept = await mkdtempDisposable(join(tmpdir(), 'sluice-bench-kept-'));
  const settings = `engine: {conversationCache: {directory: ${kept.path}, keepAfterRestart: true}}`;
  await using sluice = await startSluice(
    `${settings}\nmodels:\n  - id: ${MODEL_ID}\n    engine: ${engine}\n`,
  );
  const sizes = ['-np', String(TURN_SLOTS), '-c', String(TURN_SLOTS * 2048), '-t', String(threads)];
  await using peer = await startPeer(
    options['llama-server'],
    (port) => ['-m', modelFile, '--host', '127.0.0.1', '--port', String(port), '--no-webui', ...sizes],
    '/health',
  );
  const computed: Record<'sluice' | 'peer', number[]> = { sluice: [], peer: [] };
  const returned: Record<'sluice' | 'peer', number[]> = { sluice: [], peer: [] };
  for (let turn = 0; turn <= rounds; turn++)
    for (let conversation = 0; conversation < conversations; conversation++)
      for (const [name, server] of [
        ['sluice', sluice],
        ['peer', peer],
      ] as const)
        (turn === 0 ? computed : returned)[name].push(await timeTurn(server, conversation, turn));
  await sluice.restart();
  const restarted: number[] = [];
  for (let conversation = 0; conversation < conversations; conversation++)
    restarted.push(await timeTurn(sluice, conversation, rounds + 1));
  const line = (name: string, later: number[], first: number[]) => {
    const shares = later.map((ms, index) => ms / (first[index % conversations] ?? ms));
    console.log(
      `${name.padEnd(28)} ${fixed(median(later))} ms /${fixed(median(first))} ms = ${median(shares).toFixed(3)}`,
    );
  };
  console.log(
    `${conversations} conversations on ${TURN_SLOTS} slots: TTFT when they return / when they begin`,
  );
  line('Sluice', returned.sluice, computed.sluice);
  line('Sluice, after a restart', restarted, computed.sluice);
  line('llama-server', returned.peer, computed.peer);
}

for (const conversations of numbers(options.conversations)) await compareReturning(conversations);

for (const callers of numbers(options.copying)) {
  await using servers = await startBoth(callers, 2048);
  await warmUp(servers, callers);
  const result = await alternate(servers, (index) => copyingPrompts(callers, index), 160, true);
  const [ours, theirs] = [result.sluice, result.peer].map((results) =>
    median(results.map(({ generatedPerSecond }) => generatedPerSecond)),
  );
  console.log(
    `copying, ${callers} callers: ${ours?.toFixed(1)} / ${theirs?.toFixed(1)} tokens/s = ${ratio(result, ({ generatedPerSecond }) => generatedPerSecond)}`,
  );
}

const { contextTokens: trainedTokens } = await readGguf(modelFile);
/** Whether the model can read so many tokens. Says so if it cannot. */
function isWithinContext(count: number): boolean {
  const isWithin = count <= trainedTokens;
  if (!isWithin) console.log(`left out: prompts of ${count} tokens, because the model has ${trainedTokens}`);
  return isWithin;
}
const depths = numbers(options.depths).filter((depth) => isWithinContext(depth * 1000));
const agents = options.agents
  .split(',')
  .filter(isAgent)
  .filter(() => isWithinContext(AGENT_TOKENS));
if (depths.length + agents.length > 0) {
  const longest = Math.max(agents.length > 0 ? AGENT_TOKENS : 0, ...depths.map((depth) => depth * 1280));
  await using servers = await startBoth(1, longest);
  using _ = busyLoops(Number(options.busy));
  console.log(`first token of new prompts, ${options.busy} busy loops: Sluice / llama-server and the ratio`);
  console.log(PREFILL_HEADER);
  for (const depth of depths)
    await comparePrefill(servers, `${depth},000`, rounds, (round) =>
      textPrompt(MODEL_ID, depth * 1000, depth * 100 + round),
    );
  for (const agent of agents)
    await comparePrefill(servers, agent, rounds, (round) => agentPrompt(MODEL_ID, agent, 10_000 + round));
}
