import { curl, variableOf } from './curl.ts';
import { fieldsOf, literal, PYTHON, TYPESCRIPT } from './literal.ts';
import { pythonPrint, typescriptPrint, type Printed } from './print.ts';

/** A code sample in one language. */
export interface Sample {
  language: 'curl' | 'Python' | 'TypeScript';
  text: string;
}

interface SampleInput {
  /** URL of the service without `/v1`: `public_url` of the session. */
  baseUrl: string;
  /** An API key, or `$NAME` of an environment variable. */
  key: string;
  /** Request body: a chat completion if it has `messages`, else a text completion. */
  request: Readonly<Record<string, unknown>>;
}

/** The environment variable of the key, for snippets that do not contain one. */
export const KEY_VARIABLE = '$SLUICE_API_KEY';

/** Returns samples of this request for curl and OpenAI's Python and TypeScript clients. */
export function samplesOf({ baseUrl, key, request }: SampleInput): Sample[] {
  const chat = request['messages'] !== undefined;
  const base = `${baseUrl.replace(/\/+$/, '')}/v1`;
  const call: ClientCall = {
    base,
    key,
    method: chat ? 'chat.completions.create' : 'completions.create',
    // Fields that the clients do not know are passed separately.
    named: fieldsOf(request).filter(([name]) => (chat ? CHAT_FIELDS : TEXT_FIELDS).has(name)),
    others: fieldsOf(request).filter(([name]) => !(chat ? CHAT_FIELDS : TEXT_FIELDS).has(name)),
    chat,
    streams: request['stream'] === true,
    many:
      (typeof request['n'] === 'number' && request['n'] > 1) ||
      (Array.isArray(request['prompt']) && request['prompt'].length > 1),
    tools: Array.isArray(request['tools']) && request['tools'].length > 0,
    usageApart: readField(request['stream_options'], 'include_usage') === true,
  };
  const url = `${base}/${chat ? 'chat/completions' : 'completions'}`;
  return [
    {
      language: 'curl',
      text: curl({ method: 'POST', url, key, body: request, streams: call.streams }),
    },
    { language: 'Python', text: python(call) },
    { language: 'TypeScript', text: typescript(call) },
  ];
}

type Fields = readonly (readonly [string, unknown])[];

interface ClientCall extends Printed {
  base: string;
  key: string;
  method: string;
  named: Fields;
  others: Fields;
}

/** Fields that both clients know, including older versions. */
const BOTH = [
  'model',
  'stream',
  'stream_options',
  'max_tokens',
  'temperature',
  'top_p',
  'seed',
  'presence_penalty',
  'frequency_penalty',
  'logit_bias',
  'stop',
  'n',
  'logprobs',
  'user',
];
const CHAT_FIELDS = new Set([
  ...BOTH,
  'messages',
  'max_completion_tokens',
  'top_logprobs',
  'response_format',
  'metadata',
  'store',
  'service_tier',
  'tools',
  'tool_choice',
  'parallel_tool_calls',
  'reasoning_effort',
]);
const TEXT_FIELDS = new Set([...BOTH, 'prompt', 'echo', 'best_of', 'suffix']);

function python(call: ClientCall): string {
  const variable = variableOf(call.key);
  const key = variable === null ? PYTHON.string(call.key) : `os.environ[${PYTHON.string(variable)}]`;
  const fields = call.named.map(([name, value]) => argument(`${name}=`, value));
  if (call.others.length > 0) fields.push(argument('extra_body=', Object.fromEntries(call.others)));
  const result = call.streams ? 'stream' : 'completion';
  return [
    ...(variable === null ? [] : ['import os']),
    'from openai import OpenAI',
    '',
    `client = OpenAI(base_url=${PYTHON.string(call.base)}, api_key=${key})`,
    '',
    `${result} = client.${call.method}(`,
    ...fields,
    ')',
    ...pythonPrint(call),
  ].join('\n');
}

function argument(start: string, value: unknown): string {
  return `    ${start}${literal(value, PYTHON, 1, 5 + start.length)},`;
}

function typescript(call: ClientCall): string {
  const variable = variableOf(call.key);
  const key = variable === null ? TYPESCRIPT.string(call.key) : `process.env.${variable}`;
  const fields = call.named.map(([name, value]) => {
    const start = TYPESCRIPT.key(name);
    return `  ${start}${literal(value, TYPESCRIPT, 1, 3 + start.length)}${assertionOf(name, value)},`;
  });
  if (call.others.length > 0) {
    // The client's types reject unknown fields in an object literal, but not in a spread.
    fields.push(
      "  // Not in the client's types:",
      `  ...${literal(Object.fromEntries(call.others), TYPESCRIPT, 1, 6)},`,
    );
  }
  const result = call.streams ? 'stream' : 'completion';
  return [
    "import OpenAI from 'openai';",
    '',
    'const client = new OpenAI({',
    `  baseURL: ${TYPESCRIPT.string(call.base)},`,
    `  apiKey: ${key},`,
    '});',
    '',
    `const ${result} = await client.${call.method}({`,
    ...fields,
    '});',
    ...typescriptPrint(call),
  ].join('\n');
}

/** Returns a type assertion for messages with reasoning, which the client's types reject in an object literal. */
function assertionOf(name: string, value: unknown): string {
  const messages = name === 'messages' && Array.isArray(value) ? value : [];
  const hasReasoning = messages.some((message) => readField(message, 'reasoning_content') !== undefined);
  return hasReasoning ? ' as OpenAI.ChatCompletionMessageParam[]' : '';
}

function readField(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null ? Reflect.get(value, name) : undefined;
}
