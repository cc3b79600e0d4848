import { test } from 'node:test';
import { chat } from './samples.ts';

/**
 * Requests with the fields that agents and libraries send to an OpenAI-compatible server. Each is written from the named
 * source files. Fields that are undefined there are omitted.
 */

const PARAMETERS = {
  $schema: 'http://json-schema.org/draft-07/schema#',
  type: 'object',
  properties: { path: { type: 'string', description: 'The file to read.' } },
  required: ['path'],
  additionalProperties: false,
};
const READ = { name: 'read_file', description: 'Reads a file.', parameters: PARAMETERS };
const CALLED = { name: 'read_file', arguments: '{"path":"a.txt"}' };
const EPHEMERAL = { type: 'ephemeral' };

const CLIENTS: Readonly<Record<string, object>> = {
  // vercel/ai: packages/openai-compatible/src/chat/openai-compatible-chat-language-model.ts,
  // convert-to-openai-compatible-chat-messages.ts and openai-compatible-prepare-tools.ts
  'AI SDK': {
    user: 'u',
    max_tokens: 1000,
    temperature: 0,
    top_p: 1,
    frequency_penalty: 0,
    presence_penalty: 0,
    response_format: { type: 'json_object' },
    stop: ['END'],
    seed: 1,
    reasoning_effort: 'medium',
    messages: [
      { role: 'system', content: 'Be brief.' },
      {
        role: 'user',
        content: [
          { type: 'text', text: 'Read' },
          { type: 'text', text: ' a.txt' },
        ],
      },
      {
        role: 'assistant',
        content: null,
        reasoning_content: 'I need the file.',
        tool_calls: [
          {
            id: 'call_1',
            type: 'function',
            function: CALLED,
            extra_content: { google: { thought_signature: 'x' } },
          },
        ],
      },
      { role: 'tool', tool_call_id: 'call_1', content: '{"text":"hello"}' },
    ],
    tools: [{ type: 'function', function: { ...READ, strict: false } }],
    tool_choice: 'auto',
    stream: true,
    stream_options: { include_usage: true },
  },

  // anomalyco/opencode: packages/opencode/src/provider/transform.ts (options, applyCaching and normalizeMessages), through
  // @ai-sdk/openai-compatible, which sends options of the provider and of messages as fields
  opencode: {
    max_tokens: 32_000,
    temperature: 0.55,
    top_p: 1,
    promptCacheKey: 'ses_1',
    reasoning_effort: 'high',
    messages: [
      { role: 'system', content: 'You are opencode.', cache_control: EPHEMERAL },
      { role: 'user', content: 'Read a.txt' },
      {
        role: 'assistant',
        content: 'Reading.',
        tool_calls: [{ id: 'call_1', type: 'function', function: CALLED, cache_control: EPHEMERAL }],
        reasoning_content: 'I need the file.',
      },
      { role: 'tool', tool_call_id: 'call_1', content: 'hello', cache_control: EPHEMERAL },
      { role: 'user', content: [{ type: 'text', text: 'Thanks', cache_control: EPHEMERAL }] },
    ],
    tools: [{ type: 'function', function: READ }],
    tool_choice: 'auto',
    stream: true,
    stream_options: { include_usage: true },
  },

  // cline/cline: sdk/packages/llms/src/providers/ai-sdk.ts, vendors/openai-compatible.ts, routing/generic-compatible.ts and
  // routing/anthropic-compatible.ts, through @ai-sdk/openai-compatible
  Cline: {
    max_tokens: 8192,
    temperature: 0,
    cache_control: EPHEMERAL,
    reasoning_effort: 'medium',
    messages: [
      { role: 'system', content: 'You are Cline.' },
      {
        role: 'user',
        content: [
          { type: 'text', text: 'Read a.txt', cache_control: EPHEMERAL },
          { type: 'text', text: ' ' },
        ],
      },
      {
        role: 'assistant',
        content: 'Reading.',
        reasoning_content: 'I need the file.',
        tool_calls: [{ id: 'call_1', type: 'function', function: CALLED }],
      },
      { role: 'tool', tool_call_id: 'call_1', content: '[{"type":"text","text":"hello"}]' },
    ],
    tools: [{ type: 'function', function: READ }],
    stream: true,
    stream_options: { include_usage: true },
  },

  // continuedev/continue: core/llm/openaiTypeConverters.ts (toChatBody) and packages/openai-adapters/src/apis/OpenAI.ts
  Continue: {
    messages: [
      { role: 'system', content: 'You are an agent.' },
      { role: 'user', content: 'Read a.txt' },
      {
        role: 'assistant',
        content: ' ',
        tool_calls: [{ id: 'call_1', type: 'function', function: CALLED }],
        reasoning_content: 'I need the file.',
        reasoning: 'I need the file.',
        reasoning_details: [{ signature: 'x' }],
      },
      { role: 'tool', content: 'hello', tool_call_id: 'call_1' },
      { role: 'assistant', content: [{ type: 'text', text: 'It says hello.' }], reasoning_content: '' },
      { role: 'user', content: 'Thanks' },
    ],
    max_tokens: 4096,
    temperature: 0.5,
    stream: true,
    tool_choice: { type: 'function', function: { name: 'read_file' } },
    tools: [{ type: 'function', function: READ }],
    stream_options: { include_usage: true },
  },

  // open-webui/open-webui: backend/open_webui/utils/middleware.py and utils/misc.py (native function calling),
  // utils/payload.py and routers/openai.py
  'Open WebUI': {
    stream: true,
    messages: [
      { role: 'system', content: 'Be brief.' },
      { role: 'user', content: 'Read a.txt' },
      {
        role: 'assistant',
        content: '',
        tool_calls: [{ index: 0, id: 'call_1', type: 'function', function: CALLED }],
        reasoning_content: 'I need the file.',
        reasoning_details: [],
      },
      { role: 'tool', tool_call_id: 'call_1', content: 'hello' },
    ],
    tools: [{ type: 'function', function: READ }],
    temperature: 0.7,
    top_p: 0.9,
    min_p: 0.05,
    max_tokens: 500,
    frequency_penalty: 0,
    presence_penalty: 0,
    reasoning_effort: 'low',
    seed: 1,
    stop: ['END'],
    logit_bias: {},
    response_format: { type: 'text' },
    stream_options: { include_usage: true },
  },

  // langchain-ai/langchain: libs/partners/openai/langchain_openai/chat_models/base.py
  LangChain: {
    messages: [
      { content: 'Be brief.', role: 'system' },
      { content: 'Read a.txt', name: 'alice', role: 'user' },
      {
        content: null,
        role: 'assistant',
        name: 'agent',
        tool_calls: [{ type: 'function', id: 'call_1', function: CALLED }],
      },
      { content: 'hello', role: 'tool', tool_call_id: 'call_1' },
    ],
    stream: true,
    temperature: 0.5,
    top_p: 0.9,
    presence_penalty: 0,
    frequency_penalty: 0,
    seed: 1,
    n: 1,
    logprobs: false,
    logit_bias: { 5: 1 },
    max_completion_tokens: 500,
    reasoning_effort: 'minimal',
    stop: ['END'],
    stream_options: { include_usage: true },
    service_tier: 'auto',
    store: false,
    metadata: { a: 'b' },
    tools: [{ type: 'function', function: { ...READ, strict: null } }],
    tool_choice: 'required',
    parallel_tool_calls: false,
  },

  // openai/codex before 2026, which has only the Responses API now: codex-rs/codex-api/src/requests/chat.rs and
  // codex-rs/core/src/tools/spec.rs (create_tools_json_for_chat_completions_api)
  Codex: {
    messages: [
      { role: 'system', content: 'You are a coding agent.' },
      { role: 'developer', content: 'Ask before you write.' },
      { role: 'user', content: 'Read a.txt' },
      {
        role: 'assistant',
        content: null,
        tool_calls: [{ id: 'call_1', type: 'function', function: CALLED }],
        reasoning: 'I need the file.',
      },
      { role: 'tool', tool_call_id: 'call_1', content: [{ type: 'text', text: 'hello' }] },
    ],
    stream: true,
    tools: [{ type: 'function', name: 'read_file', function: { ...READ, strict: false } }],
  },
};

for (const [client, body] of Object.entries(CLIENTS)) {
  test(`the fields that ${client} sends are accepted`, () => {
    chat(body);
  });
}
