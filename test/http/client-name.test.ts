import assert from 'node:assert/strict';
import { test } from 'node:test';
import Anthropic from '@anthropic-ai/sdk';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { ChatOpenAI } from '@langchain/openai';
import { generateText } from 'ai';
import * as fc from '../support/fast-check.ts';
import OpenAI, { AzureOpenAI } from 'openai';
import { clientName, CLIENTS } from '../../src/http/client-name.ts';

const NAMES = [...CLIENTS.map(({ name }) => name), 'Unrecognized'];

/** Headers of released programs. */
const SENT: Readonly<Record<string, readonly string[]>> = {
  'Claude Code': ['claude-cli/2.1.220 (external, cli)', 'claude-cli/2.0.14 (external, sdk-ts)'],
  Codex: [
    'codex_cli_rs/0.144.6 (Ubuntu 24.4.0; x86_64) xterm-256color',
    'codex_exec/0.144.6 (Ubuntu 24.4.0; x86_64) unknown (codex_exec; 0.144.6)',
    'codex_vscode/0.98.0 (Mac OS 15.5.0; arm64) vscode/1.104.0',
    'codex-tui/0.118.0 (Mac OS 26.0.1; arm64) ghostty/1.2.0',
  ],
  OpenCode: [
    'opencode/1.0.85',
    'opencode/1.1.4 ai-sdk/provider-utils/3.0.20 runtime/bun/1.3.5',
    'opencode/1.0.85 (linux 6.8.0; x64)',
  ],
  'Open WebUI': ['Open WebUI (https://github.com/open-webui/open-webui) External Web Loader'],
  Sluice: ['sluice/0.2.0'],
  'AI SDK': [
    'ai/5.0.60 ai-sdk/openai-compatible/1.0.20 ai-sdk/provider-utils/3.0.10 runtime/node.js/22',
    'ai-sdk-provider-utils/5.0.1 node.js/v26.1.0',
    // In browsers.
    'ai-sdk/provider-utils/3.0.10 runtime/browser',
  ],
  LangChain: ['langchainjs-azure-openai/1.2.1 (node)'],
  LiteLLM: ['litellm/1.80.0'],
  'OpenAI Agents': ['Agents/Python 0.6.1', 'Agents/JavaScript 0.3.0'],
  'Pydantic AI': ['pydantic-ai/1.30.0'],
  'OpenAI Python': ['OpenAI/Python 2.8.0', 'AsyncOpenAI/Python 3.54.0', 'AsyncAzureOpenAI/Python 1.99.1'],
  'OpenAI JavaScript': ['OpenAI/JS 6.9.0', 'AzureOpenAI/JS 5.2.0'],
  'OpenAI Go': ['OpenAI/Go 3.8.1'],
  'Anthropic Python': ['Anthropic/Python 0.75.0', 'AsyncAnthropic/Python 2.14.0'],
  'Anthropic JavaScript': ['Anthropic/JS 0.71.0'],
  'Anthropic Go': ['Anthropic/Go 1.18.0'],
  'Ollama Python': ['ollama-python/0.6.1 (x86_64 linux) Python/3.12.3'],
  'Ollama JavaScript': ['ollama-js/0.6.3 (x64 linux Node.js/v22.11.0)'],
  HTTPX: ['python-httpx/0.28.1', 'python-httpx2/2.16.2'],
  Requests: ['python-requests/2.34.2'],
  aiohttp: ['Python/3.11 aiohttp/3.13.2'],
  urllib: ['Python-urllib/3.13'],
  Axios: ['axios/1.13.2'],
  'Node.js': ['node', 'undici', 'node-fetch/1.0 (+https://github.com/bitinn/node-fetch)', 'Node.js/22'],
  Bun: ['Bun/1.3.5'],
  Deno: ['Deno/2.5.6'],
  Go: ['Go-http-client/1.1', 'Go-http-client/2.0'],
  Java: ['Java-http-client/21.0.5', 'okhttp/4.12.0'],
  curl: ['curl/8.14.1', 'CURL/8.14.1'],
  Postman: ['PostmanRuntime/7.49.1'],
  Browser: [
    'Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/26.0 Safari/605.1.15',
  ],
  Unrecognized: ['', 'my-app/1.0', 'Wget2', 'my-curl/1.0', 'an openai client', `${'x'.repeat(64)} curl/8`],
};

test('a client is recognized by the header that it sends, and each known client has one here', () => {
  for (const [name, headers] of Object.entries(SENT))
    for (const header of headers) assert.equal(clientName(header), name, header);
  assert.equal(clientName(undefined), 'Unrecognized');
  assert.deepEqual(Object.keys(SENT), NAMES);
});

test('the installed client libraries are recognized', async () => {
  const found: string[] = [];
  const body = {
    id: 'a',
    object: 'chat.completion',
    created: 1,
    model: 'a',
    usage: {},
    choices: [{ index: 0, message: { role: 'assistant', content: 'a' }, finish_reason: 'stop' }],
  };
  const seeing: typeof fetch = (input, init) => {
    const request = new Request(input, init);
    found.push(clientName(request.headers.get('user-agent') ?? undefined));
    return Promise.resolve(Response.json(body));
  };
  const options = { apiKey: 'a', baseURL: 'http://127.0.0.1/v1', fetch: seeing };
  const messages = [{ role: 'user' as const, content: 'a' }];
  await new OpenAI(options).chat.completions.create({ model: 'a', messages });
  await new AzureOpenAI({ ...options, apiVersion: 'a' }).chat.completions.create({ model: 'a', messages });
  await new Anthropic(options).messages.create({ model: 'a', max_tokens: 1, messages });
  const model = createOpenAICompatible({ ...options, name: 'a' })('a');
  await generateText({ model, prompt: 'a', maxRetries: 0 });
  await new ChatOpenAI({ apiKey: 'a', model: 'a', configuration: options }).invoke('a');
  assert.deepEqual(found, [
    'OpenAI JavaScript',
    'OpenAI JavaScript',
    'Anthropic JavaScript',
    'AI SDK',
    'LangChain',
  ]);
});

test('any header has one of the known names', () => {
  const header = fc.oneof(
    fc.string({ unit: 'binary', maxLength: 500 }),
    fc
      .array(fc.constantFrom(' ', '/', 'openai', 'curl', 'İ', 'node'), { maxLength: 200 })
      .map((parts) => parts.join('')),
  );
  fc.assert(fc.property(header, (text) => NAMES.includes(clientName(text))));
});
