import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { after, before, describe, test } from 'node:test';
import { curl } from '../../console/src/snippets/curl.ts';
import { literal, JSON_SYNTAX, PYTHON, TYPESCRIPT } from '../../console/src/snippets/literal.ts';
import { KEY_VARIABLE, samplesAt, samplesOf, type Sample } from '../../console/src/snippets/samples.ts';
import { translate, type Body } from '../../console/src/snippets/translate.ts';
import { MESSAGES } from '../../src/protocols/anthropic/protocol.ts';
import { Notes } from '../../src/core/notes.ts';
import { CHAT } from '../../src/protocols/openai/protocols.ts';
import type { Protocol } from '../../src/core/protocol.ts';
import { RESPONSES } from '../../src/protocols/responses/protocol.ts';
import { sealing } from '../protocols/responses/samples.ts';
import { python, runPython, WITH_PYTHON } from './clients/python.ts';
import { ROOT } from '../docs/markdown.ts';
import { scripted } from '../support/scripted-engine/directive.ts';
import { MODEL, run, startService, type ProcessResult, type TestService } from '../harness.ts';

const WITH_CURL = { skip: spawnSync('curl', ['--version']).status !== 0 && 'no curl' };

/** Texts with special characters of the languages, of shells and of templates. */
const AWKWARD = [
  `it's`,
  `"quoted"`,
  `both ' and "`,
  `$HOME \${HOME} $(id) \`id\``,
  `back\\slash \\n \\' \\"`,
  'line\nbreak\r\ttab',
  'null \0 bell \u0007 delete \u007f next \u0085',
  'separators \u2028 \u2029',
  'Zürich 東京 😀 \u202e',
  '#{x} {{x}} %s %(x)s !x !!',
  '@file',
  '-flag',
  '',
];

const EMBEDDER = 'test/embedder';

const CHAT_APIS = ['chat', 'responses', 'messages'] as const;

const NESTED = {
  strings: AWKWARD,
  ...Object.fromEntries(AWKWARD.map((name) => [name, true])),
  ['__proto__']: { a: 1 },
  numbers: [0, -1, 0.5, 1e21, 1e-7, 9007199254740991],
  constants: [true, false, null],
  empty: [{}, [], ''],
  deep: { a: [{ b: [{ c: ['x'.repeat(80), 'y'.repeat(80)] }] }] },
};

describe('literals', () => {
  test('formatted JSON has the same value', () => {
    assert.deepEqual(JSON.parse(literal(NESTED, JSON_SYNTAX)), JSON.parse(JSON.stringify(NESTED)));
  });

  test('a TypeScript literal has the same value as its JSON', async () => {
    const program = `process.stdout.write(JSON.stringify(${literal(NESTED, TYPESCRIPT)}));`;
    const { code, stdout, stderr } = await runInput([process.execPath, '--input-type=module', '-'], program);
    assert.equal(code, 0, stderr);
    assert.equal(stdout, JSON.stringify(NESTED));
  });

  test('a Python literal has the same value as its JSON', WITH_PYTHON, async () => {
    const program = `import json\nprint(json.dumps(${literal(NESTED, PYTHON)}))`;
    const { code, stdout, stderr } = await runInput([python, '-'], program);
    assert.equal(code, 0, stderr);
    assert.deepEqual(JSON.parse(stdout), JSON.parse(JSON.stringify(NESTED)));
  });

  test('the shell passes the same body to curl', WITH_CURL, async () => {
    const command = curl({ method: 'POST', url: 'http://x/v1', key: null, body: NESTED });
    const program = `curl() { printf '%s' "\${@: -1}"; }\n${command}`;
    const { code, stdout, stderr } = await runInput(['bash', '-eu', '-s'], program);
    assert.equal(code, 0, stderr);
    assert.deepEqual(JSON.parse(stdout), JSON.parse(JSON.stringify(NESTED)));
  });

  test('long values are broken into lines', () => {
    assert.equal(literal({ role: 'user', content: 'Hi' }, TYPESCRIPT), `{ role: 'user', content: 'Hi' }`);
    assert.equal(literal({ a: 'x'.repeat(90) }, PYTHON), `{\n    "a": "${'x'.repeat(90)}",\n}`);
    assert.equal(literal({ a: undefined, b: 1 }, JSON_SYNTAX), '{"b": 1}');
  });
});

describe('samples', () => {
  const baseUrl = 'https://sluice.example/';
  const request = { model: MODEL, messages: [{ role: 'user', content: 'Hi' }], top_k: 40, temperature: 0 };

  test('samples contain a given key, or read the key from an environment variable if only its name is given', () => {
    for (const { text } of samplesOf({ baseUrl, key: 'sk-sluice-abc', request })) {
      assert.match(text, /sk-sluice-abc/);
      assert.doesNotMatch(text, /environ|process\.env|\$/);
    }
    const [command, py, ts] = samplesOf({ baseUrl, key: KEY_VARIABLE, request });
    assert.match(command?.text ?? '', /-H "Authorization: Bearer \$SLUICE_API_KEY"/);
    assert.match(py?.text ?? '', /^import os\n[^]*api_key=os\.environ\["SLUICE_API_KEY"\]/);
    assert.match(ts?.text ?? '', /apiKey: process\.env\.SLUICE_API_KEY,/);
  });

  test('fields unknown to the clients are passed separately', () => {
    const [command, py, ts] = samplesOf({ baseUrl, key: KEY_VARIABLE, request });
    assert.match(command?.text ?? '', /"top_k": 40, "temperature": 0|"top_k": 40,\n/);
    assert.match(py?.text ?? '', /\n {4}temperature=0,\n {4}extra_body=\{"top_k": 40\},\n\)/);
    assert.match(ts?.text ?? '', /\n {2}temperature: 0,\n.*\n {2}\.\.\.\{ top_k: 40 \},\n\}\);/);
  });

  test('a request in the format of an API is not translated', () => {
    const input = { baseUrl, key: KEY_VARIABLE };
    const [command, py, ts] =
      samplesAt('/v1/responses', { ...input, request: { model: MODEL, input: 'Hi' } }) ?? [];
    assert.match(command?.text ?? '', /\/v1\/responses[^]*"input": "Hi"/);
    assert.match(py?.text ?? '', /client\.responses\.create\([^]*\n {4}input="Hi",\n\)/);
    assert.match(ts?.text ?? '', /client\.responses\.create\(\{[^]*\n {2}input: 'Hi',\n\}\);/);
    assert.equal(samplesAt('/v1/messages/count_tokens', { ...input, request }), null);
  });

  test('the base URL has one /v1', () => {
    for (const { text } of samplesOf({ baseUrl, key: KEY_VARIABLE, request })) {
      assert.match(text, /https:\/\/sluice\.example\/v1["'/]/);
    }
  });
});

const TOOLS = [
  {
    type: 'function',
    function: {
      name: 'get_weather',
      description: `It's "the" weather of \${city}`,
      parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
    },
  },
];
const CALL = { name: 'get_weather', arguments: { city: "Val-d'Or" } };

/** A call with its result. */
const WITH_RESULT = [
  {
    role: 'assistant',
    content: null,
    reasoning_content: "Let's see.",
    tool_calls: [
      {
        id: 'call_1',
        type: 'function',
        function: { name: CALL.name, arguments: JSON.stringify(CALL.arguments) },
      },
    ],
  },
  {
    role: 'tool',
    tool_call_id: 'call_1',
    content: '{"temperature": 21}',
  },
];

/** Requests to the scripted model, and the expected output. */
const REQUESTS: Readonly<Record<string, { request: Record<string, unknown>; prints: RegExp }>> = {
  'a chat completion with fields unknown to the clients': {
    request: {
      model: MODEL,
      messages: [
        { role: 'system', content: `You're "short".\n` },
        { role: 'user', content: AWKWARD.join(' ').replaceAll('\0', '') },
      ],
      temperature: 0.7,
      top_k: 40,
      repetition_penalty: 1.1,
      stop: ["'", '"'],
      logit_bias: { 17: -100 },
      user: 'user-1',
    },
    prints: /\w+ \w+/,
  },
  'a streamed chat completion': {
    request: {
      model: MODEL,
      messages: [{ role: 'user', content: 'Hi' }],
      stream: true,
      stream_options: { include_usage: true },
      max_completion_tokens: 8,
    },
    prints: /\w+/,
  },
  'several choices, streamed': {
    request: { model: MODEL, messages: [{ role: 'user', content: 'Hi' }], n: 2, stream: true, max_tokens: 4 },
    prints: /\w+/,
  },
  'a chat completion with tools': {
    request: {
      model: MODEL,
      messages: [{ role: 'user', content: scripted({ text: "I'll look.", calls: [CALL, CALL] }) }],
      tools: TOOLS,
      tool_choice: { type: 'function', function: { name: 'get_weather' } },
      parallel_tool_calls: true,
      reasoning_effort: 'low',
      chat_template_kwargs: { enable_thinking: true },
    },
    prints: /I'll look\.[^]*get_weather[^]*Val-d'Or[^]*Val-d'Or/,
  },
  'a streamed chat completion with tools': {
    request: {
      model: MODEL,
      messages: [{ role: 'user', content: scripted({ reasoning: 'Hm.', calls: [CALL, CALL] }) }],
      tools: TOOLS,
      tool_choice: 'required',
      stream: true,
      stream_options: { include_usage: true },
    },
    prints: /call_\w+[^]*get_weather[^]*call_\w+/,
  },
  'several choices with tools': {
    request: {
      model: MODEL,
      messages: [{ role: 'user', content: scripted({ calls: [CALL] }) }],
      tools: TOOLS,
      n: 2,
    },
    prints: /get_weather/,
  },
  'the results of calls': {
    request: {
      model: MODEL,
      messages: [{ role: 'user', content: scripted({ text: 'It is warm.' }) }, ...WITH_RESULT],
      tools: TOOLS,
    },
    prints: /It is warm\./,
  },
  'a text completion': {
    request: { model: MODEL, prompt: "It's", max_tokens: 4, min_p: 0.05 },
    prints: /\w+/,
  },
  'text completions of several prompts': {
    request: { model: MODEL, prompt: ['One', 'Two'], max_tokens: 4, stream: false },
    prints: /\w+/,
  },
  'embeddings of several texts': {
    request: { model: EMBEDDER, input: ["It's", "It's", '"quoted"'], user: 'user-1' },
    prints: /^0 \[[^]*^1 \[[^]*^2 \[|"embedding": ?\[/m,
  },
  'one embedding': {
    request: { model: EMBEDDER, input: 'Hi', dimensions: 3 },
    prints: /^0 \[|"embedding": ?\[/,
  },
};

/** The requests in each API that has them. */
const SAMPLED = Object.entries(REQUESTS).flatMap(([name, { request, prints }]) => {
  const apis = request['messages'] === undefined || 'n' in request ? (['chat'] as const) : CHAT_APIS;
  return apis.map((api) => ({ name: `${name}, with the API ${api}`, request, prints, api }));
});

test('a translated chat means the same, and all of it has an effect', () => {
  const format = {
    type: 'json_schema',
    json_schema: { name: 'a', schema: { type: 'object' }, strict: true },
  };
  const more = { response_format: format, parallel_tool_calls: false, logprobs: true, max_tokens: 9 };
  const chats = SAMPLED.filter(({ api }) => api === 'responses').flatMap(({ request }) => [
    { request, with: {} },
    { request, with: { ...more, tools: TOOLS, tool_choice: 'required' } },
  ]);
  for (const { request, with: fields } of chats) {
    const body = { ...request, ...fields };
    const chat = meaningOf(CHAT, body);
    assert.deepEqual(meaningOf(RESPONSES, translate(body, 'responses')), chat);
    assert.deepEqual(meaningOf(MESSAGES, translate(body, 'messages')), {
      ...chat,
      messages: chat.messages.map((message) =>
        'reasoning' in message ? { ...message, reasoning: null } : message,
      ),
      maxTokens: chat.maxTokens ?? 1024,
      logprobs: null,
    });
  }
});

/** What a model is asked by a request of which nothing is ignored. Formats have different names. */
function meaningOf(protocol: Protocol, body: Body) {
  const { generation } = protocol.parse(body, {
    maxChoices: 1,
    notes: new Notes(true),
    sealer: sealing.of('account'),
  });
  assert.ok(generation.kind === 'chat');
  const { includeUsage: _, responseFormat, ...meaning } = generation;
  return { ...meaning, schema: 'schema' in responseFormat ? responseFormat.schema : null };
}

describe('executed samples', () => {
  let service: TestService;
  before(async () => {
    service = await startService(`
models:
  - {id: ${MODEL}, required: true, engine: {file: 'scripted:'}}
  - {id: ${EMBEDDER}, required: true, engine: {file: 'scripted:{"dimensions": 4}'}}
`);
  });
  after(() => service[Symbol.asyncDispose]());

  for (const [language, needs] of [
    ['curl', WITH_CURL],
    ['Python', WITH_PYTHON],
    ['TypeScript', {}],
  ] as const) {
    test(`each request, in ${language}`, needs, async (t) => {
      const programs = SAMPLED.map(({ name, request, api }, index) => {
        const key = index % 2 === 0 ? service.key : KEY_VARIABLE;
        const samples = samplesOf({ baseUrl: service.url, key, request, api });
        return samples.find((sample) => sample.language === language)?.text ?? assert.fail(name);
      });
      const results = await runPrograms(language, programs, { SLUICE_API_KEY: service.key });
      for (const [i, { name, prints }] of SAMPLED.entries()) {
        await t.test(name, () => {
          const { code, stdout, stderr } = results[i] ?? assert.fail('no result');
          assert.equal(code, 0, `${programs[i]}\n${stdout}\n${stderr}`);
          assert.match(stdout, prints);
          assert.doesNotMatch(stdout, /"error": ?\{/);
        });
      }
    });
  }
});

async function runPrograms(
  language: Sample['language'],
  programs: readonly string[],
  env: NodeJS.ProcessEnv,
): Promise<ProcessResult[]> {
  if (language === 'Python') return await runPython(programs, { ...process.env, ...env });
  const interpreter =
    language === 'curl'
      ? ['bash', '-euo', 'pipefail', '-s']
      : [process.execPath, '--input-type=module-typescript', '-'];
  const results: ProcessResult[] = [];
  for (const program of programs) results.push(await runInput(interpreter, program, env));
  return results;
}

function runInput(
  [program = '', ...args]: readonly string[],
  input: string,
  env = {},
): Promise<ProcessResult> {
  // Bare imports are resolved from the working directory.
  return run(program, args, { ...process.env, ...env }, { cwd: ROOT, input });
}
