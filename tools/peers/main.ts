/**
 * Compares the service with real servers: sends the same requests directly and through the service, continues responses,
 * and checks that the servers enforce the schemas in `schemas.ts` that the service accepts. `SLUICE_TEST_VLLM` and
 * `SLUICE_TEST_LLAMA_SERVER` are the URLs of the servers. Not part of `npm test`.
 */
import { HttpReplicaClient } from '../../src/replicas/replica-client.ts';
import { satisfies } from '../../test/engine/llama/json-schema.ts';
import { REPLICA } from '../../test/replicas/replicas.ts';
import { startService, type TestService } from '../../test/harness.ts';
import { compare } from './compare.ts';
import { compareContinuations } from './continuation.ts';
import { generate } from './generation.ts';
import { comparePromptCounts } from './prompt-count.ts';
import {
  directBody,
  PEER_CASES,
  REFUSED_CASES,
  serviceBody,
  type PeerCase,
  type Server,
} from './requests.ts';
import { SCHEMA_CASES } from '../../test/protocols/openai/schema-cases.ts';

const ADDRESSES: Readonly<Record<Server, string | undefined>> = {
  vllm: process.env.SLUICE_TEST_VLLM,
  'llama-server': process.env.SLUICE_TEST_LLAMA_SERVER,
};

const MODEL = 'test/peer';

const PATHS = { chat: '/v1/chat/completions', text: '/v1/completions' } as const;

/** Tokens per sample and samples per schema, enough for an unconstrained model to violate it. */
const SAMPLE_TOKENS = 48;
const SAMPLES = 4;

/** A server and a service in front of it. */
interface Peer {
  server: Server;
  url: string;
  /** Name of the model on the server. */
  model: string;
  contextTokens: number;
  service: TestService;
}

const total = { comparisons: 0, fields: 0, differences: 0 };

const servers = (['vllm', 'llama-server'] as const).filter((server) => ADDRESSES[server]);
if (servers.length === 0) {
  console.error('Neither SLUICE_TEST_VLLM nor SLUICE_TEST_LLAMA_SERVER is set.');
  process.exit(1);
}
for (const server of servers) await compareWith(server);
console.log(
  `\n${total.comparisons} comparisons; ${total.fields} fields agreed, ${total.differences} comparisons differed.`,
);
process.exitCode = total.differences > 0 ? 1 : 0;

async function compareWith(server: Server): Promise<void> {
  const url = (ADDRESSES[server] ?? '').replace(/\/(?:v1\/?)?$/, '');
  const model = await modelOf(url);
  await using replica = new HttpReplicaClient({ ...REPLICA, dialect: server, url, model });
  const { contextTokens } = await replica.describe(new AbortController().signal);
  if (contextTokens === null) throw new Error(`${server} at ${url} does not report its context length`);
  const replicas = [{ url, dialect: server, model }];
  await using service = await startService(JSON.stringify({ models: [{ id: MODEL, replicas }] }));
  const peer = { server, url, model, contextTokens, service };
  console.log(`\n${server} at ${url}, ${contextTokens} tokens of context`);
  for (const each of PEER_CASES) {
    if (each.servers?.includes(server) === false) continue;
    await report(`${each.kind}: ${each.name}`, () => comparison(peer, each));
  }
  for (const each of REFUSED_CASES)
    await report(each.name, () => refusal(peer, each.kind, each.body, each.code));
  await report('a prompt that fills the context', async () =>
    refusal(peer, 'text', { prompt: await promptOfContextLength(peer) }, 'context_length_exceeded'),
  );
  await report('continuations', () => compareContinuations(replica));
  await report('numbers of prompt tokens', () => comparePromptCounts(replica));
  for (const { name, schema, [server]: keyword } of SCHEMA_CASES) {
    await report(`schema: ${name}`, () => enforcement(peer, schema, keyword));
  }
}

/** Runs a comparison and prints the differences. */
async function report(
  name: string,
  run: () => Promise<{ agreed: number; differences: string[] }>,
): Promise<void> {
  const { agreed, differences } = await run();
  total.comparisons++;
  total.fields += agreed;
  if (differences.length === 0) return;
  total.differences++;
  console.log(`  ${name}`);
  for (const difference of differences) console.log(`    ${difference}`);
}

async function comparison(
  { server, url, model, contextTokens, service }: Peer,
  each: PeerCase,
): Promise<{ agreed: number; differences: string[] }> {
  const body = { max_tokens: contextTokens, ...directBody(each, server, model) };
  if ('max_completion_tokens' in body) Reflect.deleteProperty(body, 'max_tokens');
  const direct = await generate(url + PATHS[each.kind], body);
  const viaService = await generate(service.url + PATHS[each.kind], serviceBody(each, MODEL), service.key);
  if (direct.status !== 200)
    return { agreed: 0, differences: [`the server refused it: ${direct.error?.message}`] };
  const { top_logprobs: ofChat, logprobs: ofText } = each.body;
  return compare(direct, viaService, Number(each.kind === 'chat' ? (ofChat ?? 0) : (ofText ?? 0)));
}

/** Expects that both refuse the request with a 400, and the service with this code. */
async function refusal(
  { url, model, service }: Peer,
  kind: 'chat' | 'text',
  body: object,
  code: string,
): Promise<{ agreed: number; differences: string[] }> {
  const direct = await generate(url + PATHS[kind], { model, ...body });
  const viaService = await generate(service.url + PATHS[kind], { model: MODEL, ...body }, service.key);
  const expected = [400, 400, code];
  const actual = [direct.status, viaService.status, viaService.error?.code];
  if (expected.join() === actual.join()) return { agreed: 2, differences: [] };
  return {
    agreed: 0,
    differences: [`expected ${expected.join()}, got ${actual.join()}: ${viaService.error?.message}`],
  };
}

/** Expects that the service refuses the keyword, or that all samples match the schema. Ignores truncated samples. */
async function enforcement(
  { service }: Peer,
  schema: Record<string, unknown>,
  keyword: string | null,
): Promise<{ agreed: number; differences: string[] }> {
  const differences: string[] = [];
  let agreed = 0;
  for (let seed = 1; seed <= SAMPLES; seed++) {
    const { status, error, choices } = await generate(
      service.url + PATHS.chat,
      {
        model: MODEL,
        messages: [{ role: 'user', content: `Write a JSON value, number ${seed}.` }],
        response_format: { type: 'json_schema', json_schema: { name: 'n', schema } },
        temperature: seed % 2 === 0 ? 1 : 1.6,
        seed,
        max_tokens: SAMPLE_TOKENS,
      },
      service.key,
    );
    if (keyword !== null) {
      const at = typeof error?.param === 'string' ? error.param.split('.').at(-1) : null;
      if (status === 400 && error?.code === 'unsupported_parameter' && at === keyword)
        return { agreed: 1, differences };
      return {
        agreed,
        differences: [`expected a refusal of ${keyword}, got ${status} ${String(error?.param)}`],
      };
    }
    const [choice] = choices;
    if (status !== 200) differences.push(`status ${status}: ${error?.message}`);
    else if (choice?.finish !== 'length') {
      if (choice && matches(choice.text, schema)) agreed++;
      else differences.push(`wrote ${JSON.stringify(choice?.text)}`);
    }
  }
  return { agreed, differences };
}

function matches(text: string, schema: Record<string, unknown>): boolean {
  try {
    // vLLM may generate control characters in strings with a maximum length (see docs/structured-outputs.md).
    const printable = /^"[^"]*"$/.test(text) ? text.replaceAll(/\p{Cc}/gu, '?') : text;
    return satisfies(JSON.parse(printable), schema, schema, false);
  } catch {
    return false;
  }
}

async function modelOf(url: string): Promise<string> {
  const response = await fetch(`${url}/v1/models`);
  const { data } = (await response.json()) as { data: { id: string }[] };
  return data[0]?.id ?? '';
}

/** Returns a prompt with exactly as many tokens as the context. */
async function promptOfContextLength({ url, model, contextTokens }: Peer): Promise<string> {
  const tokensOf = async (prompt: string): Promise<number> => {
    const body = JSON.stringify({ model, prompt, content: prompt });
    const response = await fetch(`${url}/tokenize`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body,
    });
    return ((await response.json()) as { tokens: unknown[] }).tokens.length;
  };
  const [one, two] = [await tokensOf(' x'), await tokensOf(' x x')];
  const prompt = ' x'.repeat(Math.floor((contextTokens - one) / (two - one)) + 1);
  const tokens = await tokensOf(prompt);
  if (tokens !== contextTokens)
    throw new Error(`the prompt has ${tokens} tokens instead of ${contextTokens}`);
  return prompt;
}
