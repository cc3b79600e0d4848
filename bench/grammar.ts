/**
 * Measures the CPU time of a token with hostile JSON schemas, with the real addon and the vocabulary of a real model.
 * Each schema is compiled and a text is sampled with its grammar. A token that no grammar allows is made the most likely
 * one, so that every step checks the whole vocabulary. Exits with 1 if a step takes longer than a second.
 *
 *   npm run bench:grammar -- --model model.gguf
 */
import { resolve } from 'node:path';
import { parseArgs } from 'node:util';
import * as fc from '../test/support/fast-check.ts';
import { loadBackend } from '../src/engine/llama/native/backend.ts';
import { NativeModel } from '../src/engine/llama/native/model.ts';
import { TokenSample } from '../src/engine/llama/grammar/grammar-work.ts';
import { toGbnf } from '../src/engine/llama/output/response-grammar.ts';
import { ServiceError } from '../src/core/errors.ts';
import { SILENT } from '../src/support/log.ts';
import { checkJsonSchema } from '../src/json/json-schema.ts';
import { hostileSchemas, STALLING_SCHEMAS } from '../test/support/hostile-schemas.ts';
import { quantile } from './statistics.ts';

const { values: options } = parseArgs({
  options: {
    model: { type: 'string', default: process.env.SLUICE_TEST_MODEL },
    schemas: { type: 'string', default: '2000' },
    tokens: { type: 'string', default: '16' },
    seed: { type: 'string', default: String(Math.floor(Math.random() * 1e9)) },
  },
});
if (options.model === undefined) throw new Error('--model is required: the path of a GGUF file.');
const seed = Number(options.seed);

/** Maximum CPU time of a step, in milliseconds. */
const LONGEST_STEP_MS = 1000;

/** CPU times in milliseconds. */
interface GrammarTimes {
  /** Compiling the schema to a grammar. */
  compileMs: number;
  /** Parsing and copying the grammar in llama.cpp. */
  parseMs: number;
  /** Sampling each token. */
  stepMs: number[];
}

const backend = await loadBackend(SILENT);
const model = await NativeModel.load(backend, resolve(options.model), { gpuLayers: 0, onProgress() {} });
const context = await model.context({ slots: 1, slotTokens: 128, batchTokens: 64, threads: 1 });
const prompt = model.tokenize('Hello', false);
context.begin(prompt.length);
const logits = context.add(0, 0, prompt, 1);
await context.decode();
const first = model.sampler({ temperature: 0, seed: 0 });
const size = (await context.logits(logits, first)).length;
first.dispose();
const tokens = new TokenSample(size, (token) => model.detokenize(Uint32Array.of(token), false));
/** A token that no grammar allows. */
const forbidden = model.tokenize('\n\n', false);

function cpuMs(since: NodeJS.CpuUsage): number {
  const { user, system } = process.cpuUsage(since);
  return (user + system) / 1000;
}

/** Resolves with the times, or with the error if the schema is refused. */
async function measure(schema: unknown): Promise<GrammarTimes | { refusedMs: number; error: ServiceError }> {
  const started = process.cpuUsage();
  let gbnf: string;
  try {
    const checked = checkJsonSchema(schema, 'response_format.json_schema.schema');
    gbnf = toGbnf({ type: 'json_schema', name: 'bench', schema: checked, strict: null }, tokens);
  } catch (error) {
    if (error instanceof ServiceError) return { refusedMs: cpuMs(started), error };
    throw error;
  }
  const compileMs = cpuMs(started);
  const parsing = process.cpuUsage();
  const grammar = model.grammar(gbnf);
  if (grammar === null) throw new Error(`llama.cpp refused a grammar: ${JSON.stringify(schema)}`);
  const sampler = model.sampler(
    {
      temperature: 50,
      seed,
      tokenBiasKeys: forbidden,
      tokenBiasValues: new Float32Array(forbidden.length).fill(1e6),
    },
    model.copyGrammar(grammar),
  );
  const times: GrammarTimes = { compileMs, parseMs: cpuMs(parsing), stepMs: [] };
  for (let i = 0; i < Number(options.tokens); i++) {
    const stepping = process.cpuUsage();
    const token = await context.sample(logits, sampler);
    times.stepMs.push(cpuMs(stepping));
    if (model.token(token).ends) break;
  }
  sampler.dispose();
  return times;
}

const MAX_SCHEMA_LENGTH = 500;
const describe = (schema: unknown): string => JSON.stringify(schema).slice(0, MAX_SCHEMA_LENGTH);
const round = (ms: number): string => ms.toFixed(ms < 10 ? 1 : 0);

for (const [name, schema] of Object.entries(STALLING_SCHEMAS)) {
  const times = await measure(schema);
  if ('error' in times)
    console.log(`${name}: refused after ${round(times.refusedMs)} ms because of ${times.error.param}`);
  else
    console.log(
      `${name}: at most ${round(Math.max(...times.stepMs))} ms per token, ${round(times.compileMs)} ms to compile, ${round(times.parseMs)} ms to load`,
    );
}

console.log(`\n${options.schemas} schemas, seed ${seed}`);
const steps: number[] = [];
const slowest: Record<'step' | 'compile' | 'load' | 'refusal', { ms: number; schema: unknown }[]> = {
  step: [],
  compile: [],
  load: [],
  refusal: [],
};
/** Number of slowest schemas to print. */
const SLOWEST = 5;
const record = (kind: keyof typeof slowest, ms: number, schema: unknown): void => {
  slowest[kind].push({ ms, schema });
  slowest[kind].sort((a, b) => b.ms - a.ms).splice(SLOWEST);
};
let refused = 0;
const schemas = fc.sample(hostileSchemas, { numRuns: Number(options.schemas), seed });
for (const [index, schema] of schemas.entries()) {
  const times = await measure(schema);
  if ('error' in times) {
    refused++;
    record('refusal', times.refusedMs, schema);
  } else {
    steps.push(...times.stepMs);
    record('step', Math.max(...times.stepMs), schema);
    record('compile', times.compileMs, schema);
    record('load', times.parseMs, schema);
  }
  if ((index + 1) % 200 === 0)
    console.log(`${index + 1}: ${refused} refused, longest step ${round(slowest.step[0]?.ms ?? 0)} ms`);
}
console.log(
  `steps: median ${round(quantile(steps, 0.5))} ms, p99 ${round(quantile(steps, 0.99))} ms, ${refused} schemas refused`,
);
for (const [kind, list] of Object.entries(slowest)) {
  console.log(`slowest ${kind}:`);
  for (const { ms, schema } of list) console.log(`  ${round(ms)} ms  ${describe(schema)}`);
}
await context.dispose();
await model.dispose();
if ((slowest.step[0]?.ms ?? 0) > LONGEST_STEP_MS) process.exitCode = 1;
