/**
 * Compares the embeddings of Sluice end to end with `llama-server --embeddings`: the same model, threads and texts, in
 * alternating order, as medians of several rounds.
 *
 *   npm run bench:embeddings -- --llama-server /path/to/llama-server --model model.gguf
 */
import { resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { startPeer, startSluice, type Server } from '../test/support/measured-servers.ts';
import { compared, inTurn } from './rounds.ts';

const { values: options } = parseArgs({
  options: {
    'llama-server': { type: 'string', default: 'llama-server' },
    model: { type: 'string', default: process.env.SLUICE_TEST_EMBEDDING_MODEL },
    threads: { type: 'string', default: '2' },
    rounds: { type: 'string', default: '5' },
    /** Slots of `llama-server`, which computes the inputs of several slots in one batch. */
    'peer-slots': { type: 'string', default: '8' },
    'context-tokens': { type: 'string', default: '512' },
    /** Tokens of a request, in all its texts together. */
    tokens: { type: 'string', default: '2048' },
    words: { type: 'string', default: '8,16,32,64,128,256' },
  },
});
if (options.model === undefined) throw new Error('--model is required: the path of a GGUF file.');
const modelFile = resolve(options.model);

const MODEL_ID = 'bench/model';
const { threads, 'context-tokens': contextTokens } = options;
const rounds = Number(options.rounds);
const peerSlots = Number(options['peer-slots']);

const WORDS = ['the', 'river', 'runs', 'past', 'an', 'old', 'stone', 'house', 'where', 'bread', 'is', 'made'];

/** Returns texts of `words` words, most of which are one token. They differ in each round. */
function textsOf(count: number, words: number, round: number): string[] {
  return Array.from({ length: count }, (_, text) =>
    Array.from({ length: words }, (_, word) => WORDS[(word * (text + 1) + round + text) % WORDS.length]).join(
      ' ',
    ),
  );
}

/** Returns the tokens per second of a request for each of `callers`, sent at the same time. */
async function measure(server: Server, callers: number, texts: readonly string[]): Promise<number> {
  const startedAt = performance.now();
  const counts = await Promise.all(
    Array.from({ length: callers }, async () => {
      const response = await fetch(`${server.url}/v1/embeddings`, {
        method: 'POST',
        headers: {
          'Content-Type': 'application/json',
          ...(server.key !== null && { Authorization: `Bearer ${server.key}` }),
        },
        body: JSON.stringify({ model: MODEL_ID, input: texts, encoding_format: 'base64' }),
      });
      if (!response.ok)
        throw new Error(`${server.url} returned ${response.status}: ${await response.text()}`);
      const body = (await response.json()) as { data: unknown[]; usage: { prompt_tokens: number } };
      if (body.data.length !== texts.length) throw new Error(`${body.data.length} embeddings`);
      return body.usage.prompt_tokens;
    }),
  );
  return (counts.reduce((sum, count) => sum + count, 0) * 1000) / (performance.now() - startedAt);
}

async function compare(name: string, callers: number, texts: (round: number) => string[]): Promise<void> {
  for (const server of [sluice, peer]) await measure(server, callers, texts(-1));
  const [ours = [], theirs = []] = await inTurn([sluice, peer], rounds, (server, round) =>
    measure(server, callers, texts(round)),
  );
  console.log(`${name.padEnd(40)} ${compared(ours, theirs, 0)}`);
}

const engine = `{file: ${JSON.stringify(modelFile)}, contextTokens: ${contextTokens}, threads: ${threads}}`;
await using sluice = await startSluice(`models:\n  - id: ${MODEL_ID}\n    engine: ${engine}\n`);
const sizes = ['-np', String(peerSlots), '-c', String(peerSlots * Number(contextTokens))];
const speed = ['-b', contextTokens, '-ub', contextTokens, '-t', threads, '-tb', threads];
await using peer = await startPeer(
  options['llama-server'],
  (port) =>
    ['-m', modelFile, '--embeddings', '--host', '127.0.0.1', '--port', String(port)].concat(sizes, speed),
  '/health',
);

console.log('tokens per second: Sluice / llama-server and the ratio');
for (const words of options.words.split(',').map(Number)) {
  const count = Math.max(1, Math.round(Number(options.tokens) / words));
  await compare(`${count} texts of ${words} words`, 1, (round) => textsOf(count, words, round));
  await compare(`1 text of ${words} words`, 1, (round) => textsOf(1, words, round));
  await compare(`1 text of ${words} words, 16 callers`, 16, (round) => textsOf(1, words, round));
}
