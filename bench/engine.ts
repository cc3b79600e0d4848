/**
 * Compares Sluice end to end with `llama-server`: the same model, threads, slots and prompts, in alternating order, as
 * medians of several rounds. Prints ratios with the middle half of the rounds, because absolute times mean little on a shared
 * machine.
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
import { compared, COMPARED_WIDTH, inTurn, spread } from './rounds.ts';
import { median, quantile } from './statistics.ts';
import { timeStream, type StreamTimes } from '../test/support/stream-client.ts';

const { values: options } = parseArgs({
  options: {
    'llama-server': { type: 'string', default: 'llama-server' },
    model: { type: 'string', default: process.env.SLUICE_TEST_MODEL },
    threads: { type: 'string', default: '2' },
    rounds: { type: 'string', default: '6' },
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
  const [sluice = [], peer = []] = await inTurn([servers.sluice, servers.peer], rounds, (server, round) =>
    runRound(server, prompts(round), maxTokens, raw),
  );
  return { sluice, peer };
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

const cell = ({ sluice, peer }: Comparison, pick: (result: RoundResult) => number): string =>
  compared(sluice.map(pick), peer.map(pick), 1);

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
  const cells = [
    ({ tokensPerSecond }: RoundResult) => tokensPerSecond,
    ({ ttft }: RoundResult) => quantile(ttft, 0.5),
    ({ itl }: RoundResult) => quantile(itl, 0.5),
    ({ itl }: RoundResult) => quantile(itl, 0.99),
  ].map((pick) => cell(result, pick));
  const counts = `${String(callers).padStart(7)} ${String(slots).padStart(5)}`;
  console.log(`${counts} ${cells.join(' | ')}`);
}

/** Warms up: V8 optimizes code only after it has run for a while. */
async function warmUp(servers: { sluice: Server; peer: Server }, slots: number): Promise<void> {
  await alternate(servers, (index) => distinctPrompts(Math.min(8, slots), index), 64);
}

const counts = numbers(options.streams);
const queueSlots = numbers(options['queue-slots']);
if (counts.length + queueSlots.length > 0) {
  console.log('distinct prompts: Sluice / llama-server and the ratio; times in ms');
  const titles = ['tokens/s', 'TTFT p50', 'ITL p50', 'ITL p99'].map((title) => title.padEnd(COMPARED_WIDTH));
  console.log(`callers slots ${titles.join(' | ')}`);
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
  console.log(
    `shared prefix, 16 callers, ${slots} slots, in seconds: ${cell(result, ({ wallMs }) => wallMs / 1000)}`,
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
  const [ours = [], theirs = []] = await inTurn(
    [sluice, peer],
    (rounds + 1) * conversations,
    (server, index) => timeTurn(server, index % conversations, Math.floor(index / conversations)),
  );
  await sluice.restart();
  const restarted: number[] = [];
  for (let conversation = 0; conversation < conversations; conversation++)
    restarted.push(await timeTurn(sluice, conversation, rounds + 1));
  /** `times` has the turns of all conversations, and at first their first turns. */
  const line = (name: string, times: readonly number[]) => {
    const [first, later] = [times.slice(0, conversations), times.slice(conversations)];
    const shares = later.map((ms, index) => ms / (first[index % conversations] ?? NaN));
    const [ms, firstMs] = [later, first].map((values) => median(values).toFixed(1).padStart(8));
    console.log(`${name.padEnd(28)} ${ms} ms /${firstMs} ms = ${spread(shares, 3)}`);
  };
  console.log(
    `${conversations} conversations on ${TURN_SLOTS} slots: TTFT when they return / when they begin`,
  );
  line('Sluice', ours);
  line('Sluice, after a restart', [...ours.slice(0, conversations), ...restarted]);
  line('llama-server', theirs);
}

for (const conversations of numbers(options.conversations)) await compareReturning(conversations);

for (const callers of numbers(options.copying)) {
  await using servers = await startBoth(callers, 2048);
  await warmUp(servers, callers);
  const result = await alternate(servers, (index) => copyingPrompts(callers, index), 160, true);
  console.log(
    `copying, ${callers} callers, in tokens/s: ${cell(result, ({ generatedPerSecond }) => generatedPerSecond)}`,
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
