import { curl, variableOf } from './curl.ts';
import { fieldsOf, literal, PYTHON, TYPESCRIPT } from './literal.ts';
import { CHAT, EMBEDDINGS, MESSAGE, printOf, RESPONSE, TEXT, type Printed, type Printings } from './print.ts';
import { translate, type Body, type ChatApi } from './translate.ts';

export interface Sample {
  language: 'curl' | 'Python' | 'TypeScript';
  text: string;
}

interface SampleInput {
  /** URL of the service without `/v1`: `public_url` of the session. */
  baseUrl: string;
  /** An API key, or `$NAME` of an environment variable. */
  key: string;
  /** Request body: a chat completion if it has `messages`, embeddings with `input`, a ranking with `documents`, else a text completion. */
  request: Body;
  /** The API for a chat. Default: chat completions. */
  api?: ChatApi;
}

/** The environment variable of the key, for snippets that do not contain one. */
export const KEY_VARIABLE = '$SLUICE_API_KEY';

/** Returns samples of this request for curl and the official Python and TypeScript clients of its API, if it has any. */
export function samplesOf({ api: chosen = 'chat', ...input }: SampleInput): Sample[] {
  const { request, baseUrl, key } = input;
  if (request['documents'] !== undefined)
    return [curlSample(`${baseUrl.replace(/\/+$/, '')}/v1/rerank`, key, request)];
  const name = apiOf(request, chosen);
  const body = name === 'responses' || name === 'messages' ? translate(request, name) : request;
  return samplesIn(APIS[name], { ...input, request: body });
}

/** Returns the same for a request in the format of the API at this path; null: the clients have no such API. */
export function samplesAt(path: string, input: Omit<SampleInput, 'api'>): Sample[] | null {
  const api = Object.values(APIS).find((one) => one.path === path);
  return api === undefined ? null : samplesIn(api, input);
}

function samplesIn(api: Api, { baseUrl, key, request: body }: Omit<SampleInput, 'api'>): Sample[] {
  const service = baseUrl.replace(/\/+$/, '');
  const call: ClientCall = {
    api,
    base: api.client === 'openai' ? `${service}/v1` : service,
    key,
    // Fields that the clients do not know are passed separately.
    named: fieldsOf(body).filter(([field]) => api.fields.has(field)),
    others: fieldsOf(body).filter(([field]) => !api.fields.has(field)),
    streams: body['stream'] === true,
    tools: Array.isArray(body['tools']) && body['tools'].length > 0,
  };
  return [
    curlSample(service + api.path, key, body, call.streams),
    { language: 'Python', text: python(call) },
    { language: 'TypeScript', text: typescript(call) },
  ];
}

function curlSample(url: string, key: string, body: Body, streams = false): Sample {
  return { language: 'curl', text: curl({ method: 'POST', url, key, body, streams }) };
}

function apiOf(request: Body, chat: ChatApi): keyof typeof APIS {
  if (request['messages'] !== undefined) return chat;
  return request['input'] === undefined ? 'text' : 'embeddings';
}

type Fields = readonly (readonly [string, unknown])[];

/** How the official client of an API is used. */
interface Api {
  path: string;
  client: keyof typeof CLIENTS;
  method: string;
  whole: string;
  /** The fields that both clients know, including older versions. */
  fields: ReadonlySet<string>;
  printings: Printings;
}

interface ClientCall extends Printed {
  api: Api;
  base: string;
  key: string;
  named: Fields;
  others: Fields;
}

const CLIENTS = {
  openai: { python: ['openai', 'OpenAI'], typescript: ['openai', 'OpenAI'] },
  anthropic: { python: ['anthropic', 'Anthropic'], typescript: ['@anthropic-ai/sdk', 'Anthropic'] },
} as const;

const words = (text: string): string[] => text.split(/\s+/);

const COMPLETION = words(
  'model stream stream_options max_tokens temperature top_p seed presence_penalty frequency_penalty logit_bias stop n logprobs user',
);

const APIS: Readonly<Record<ChatApi | 'text' | 'embeddings', Api>> = {
  chat: {
    path: '/v1/chat/completions',
    client: 'openai',
    method: 'chat.completions.create',
    whole: 'completion',
    fields: new Set([
      ...COMPLETION,
      ...words(`messages max_completion_tokens top_logprobs response_format metadata store service_tier
        tools tool_choice parallel_tool_calls reasoning_effort`),
    ]),
    printings: CHAT,
  },
  text: {
    path: '/v1/completions',
    client: 'openai',
    method: 'completions.create',
    whole: 'completion',
    fields: new Set([...COMPLETION, 'prompt', 'echo', 'best_of', 'suffix']),
    printings: TEXT,
  },
  responses: {
    path: '/v1/responses',
    client: 'openai',
    method: 'responses.create',
    whole: 'response',
    fields: new Set(
      words(`model instructions input stream max_output_tokens temperature top_p tools tool_choice
        parallel_tool_calls reasoning text include top_logprobs metadata user`),
    ),
    printings: RESPONSE,
  },
  messages: {
    path: '/v1/messages',
    client: 'anthropic',
    method: 'messages.create',
    whole: 'message',
    fields: new Set(
      words(
        'model max_tokens system messages stream stop_sequences tools tool_choice output_config metadata',
      ),
    ),
    printings: MESSAGE,
  },
  embeddings: {
    path: '/v1/embeddings',
    client: 'openai',
    method: 'embeddings.create',
    whole: 'response',
    fields: new Set(['model', 'input', 'dimensions', 'user']),
    printings: EMBEDDINGS,
  },
};

function python(call: ClientCall): string {
  const { api, base, key, named, others, streams } = call;
  const [library, client] = CLIENTS[api.client].python;
  const variable = variableOf(key);
  const fields = named.map(([name, value]) => argument(`${name}=`, value));
  if (others.length > 0) fields.push(argument('extra_body=', Object.fromEntries(others)));
  return `${variable === null ? '' : 'import os\n'}from ${library} import ${client}

client = ${client}(base_url=${PYTHON.string(base)}, api_key=${variable === null ? PYTHON.string(key) : `os.environ[${PYTHON.string(variable)}]`})

${streams ? 'stream' : api.whole} = client.${api.method}(
${fields.join('\n')}
)
${printOf(api.printings.python, call)}`;
}

function argument(start: string, value: unknown): string {
  return `    ${start}${literal(value, PYTHON, 1, 5 + start.length)},`;
}

function typescript(call: ClientCall): string {
  const { api, base, key, named, others, streams } = call;
  const [library, client] = CLIENTS[api.client].typescript;
  const variable = variableOf(key);
  const fields = named.map(([name, value]) => {
    const start = TYPESCRIPT.key(name);
    return `  ${start}${literal(value, TYPESCRIPT, 1, 3 + start.length)}${assertionOf(name, value)},`;
  });
  if (others.length > 0) {
    // The client's types reject unknown fields in an object literal, but not in a spread.
    fields.push("  // Not in the client's types:");
    fields.push(`  ...${literal(Object.fromEntries(others), TYPESCRIPT, 1, 6)},`);
  }
  return `import ${client} from '${library}';

const client = new ${client}({
  baseURL: ${TYPESCRIPT.string(base)},
  apiKey: ${variable === null ? TYPESCRIPT.string(key) : `process.env.${variable}`},
});

const ${streams ? 'stream' : api.whole} = await client.${api.method}({
${fields.join('\n')}
});
${printOf(api.printings.typescript, call)}`;
}

/** Returns a type assertion for reasoning, which the client's types reject in an object literal. */
function assertionOf(name: string, value: unknown): string {
  const list = Array.isArray(value) ? value : [];
  if (name === 'messages' && list.some((message) => readField(message, 'reasoning_content') !== undefined))
    return ' as OpenAI.ChatCompletionMessageParam[]';
  if (name === 'input' && list.some((item) => readField(item, 'type') === 'reasoning'))
    return ' as OpenAI.Responses.ResponseInput';
  return '';
}

function readField(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null ? Reflect.get(value, name) : undefined;
}
