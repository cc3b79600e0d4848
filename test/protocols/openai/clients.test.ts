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

/** An assistant message with a call, and what each client adds to it. */
const calling = (more: object = {}, call: object = {}) => ({
  role: 'assistant',
  content: null,
  tool_calls: [{ id: 'call_1', type: 'function', function: CALLED, ...call }],
  ...more,
});
const SYSTEM = { role: 'system', content: 'Be brief.' };
const USER = { role: 'user', content: 'Read a.txt' };
const RESULT = { role: 'tool', tool_call_id: 'call_1', content: 'hello' };
const THOUGHT = 'I need the file.';
const TOOLS = [{ type: 'function', function: READ }];
const STREAM = { stream: true, stream_options: { include_usage: true } };
const SAMPLING = { temperature: 0.5, top_p: 0.9, frequency_penalty: 0, presence_penalty: 0, seed: 1 };

const CLIENTS: Readonly<Record<string, object>> = {
  // vercel/ai: packages/openai-compatible/src/chat/openai-compatible-chat-language-model.ts,
  // convert-to-openai-compatible-chat-messages.ts and openai-compatible-prepare-tools.ts
  'AI SDK': {
    ...STREAM,
    ...SAMPLING,
    user: 'u',
    max_tokens: 1000,
    response_format: { type: 'json_object' },
    stop: ['END'],
    reasoning_effort: 'medium',
    messages: [
      SYSTEM,
      {
        role: 'user',
        content: [
          { type: 'text', text: 'Read' },
          { type: 'text', text: ' a.txt' },
        ],
      },
      calling({ reasoning_content: THOUGHT }, { extra_content: { google: { thought_signature: 'x' } } }),
      RESULT,
    ],
    tools: [{ type: 'function', function: { ...READ, strict: false } }],
    tool_choice: 'auto',
  },

  // anomalyco/opencode: packages/opencode/src/provider/transform.ts (options, applyCaching and normalizeMessages), through
  // @ai-sdk/openai-compatible, which sends options of the provider and of messages as fields
  opencode: {
    ...STREAM,
    max_tokens: 32_000,
    temperature: 0.55,
    top_p: 1,
    promptCacheKey: 'ses_1',
    reasoning_effort: 'high',
    messages: [
      { ...SYSTEM, cache_control: EPHEMERAL },
      USER,
      calling({ content: 'Reading.', reasoning_content: THOUGHT }, { cache_control: EPHEMERAL }),
      { ...RESULT, cache_control: EPHEMERAL },
      { role: 'user', content: [{ type: 'text', text: 'Thanks', cache_control: EPHEMERAL }] },
    ],
    tools: TOOLS,
    tool_choice: 'auto',
  },

  // cline/cline: sdk/packages/llms/src/providers/ai-sdk.ts, vendors/openai-compatible.ts, routing/generic-compatible.ts and
  // routing/anthropic-compatible.ts, through @ai-sdk/openai-compatible
  Cline: {
    ...STREAM,
    max_tokens: 8192,
    temperature: 0,
    cache_control: EPHEMERAL,
    reasoning_effort: 'medium',
    messages: [
      SYSTEM,
      {
        role: 'user',
        content: [
          { type: 'text', text: 'Read a.txt', cache_control: EPHEMERAL },
          { type: 'text', text: ' ' },
        ],
      },
      calling({ content: 'Reading.', reasoning_content: THOUGHT }),
      { ...RESULT, content: '[{"type":"text","text":"hello"}]' },
    ],
    tools: TOOLS,
  },

  // continuedev/continue: core/llm/openaiTypeConverters.ts (toChatBody) and packages/openai-adapters/src/apis/OpenAI.ts
  Continue: {
    ...STREAM,
    messages: [
      SYSTEM,
      USER,
      calling({
        content: ' ',
        reasoning_content: THOUGHT,
        reasoning: THOUGHT,
        reasoning_details: [{ signature: 'x' }],
      }),
      RESULT,
      { role: 'assistant', content: [{ type: 'text', text: 'It says hello.' }], reasoning_content: '' },
      { role: 'user', content: 'Thanks' },
    ],
    max_tokens: 4096,
    temperature: 0.5,
    tool_choice: { type: 'function', function: { name: 'read_file' } },
    tools: TOOLS,
  },

  // open-webui/open-webui: backend/open_webui/utils/middleware.py and utils/misc.py (native function calling),
  // utils/payload.py and routers/openai.py
  'Open WebUI': {
    ...STREAM,
    ...SAMPLING,
    messages: [
      SYSTEM,
      USER,
      calling({ content: '', reasoning_content: THOUGHT, reasoning_details: [] }, { index: 0 }),
      RESULT,
    ],
    tools: TOOLS,
    min_p: 0.05,
    max_tokens: 500,
    reasoning_effort: 'low',
    stop: ['END'],
    logit_bias: {},
    response_format: { type: 'text' },
  },

  // langchain-ai/langchain: libs/partners/openai/langchain_openai/chat_models/base.py
  LangChain: {
    ...STREAM,
    ...SAMPLING,
    messages: [SYSTEM, { ...USER, name: 'alice' }, calling({ name: 'agent' }), RESULT],
    n: 1,
    logprobs: false,
    logit_bias: { 5: 1 },
    max_completion_tokens: 500,
    reasoning_effort: 'minimal',
    stop: ['END'],
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
      SYSTEM,
      { role: 'developer', content: 'Ask before you write.' },
      USER,
      calling({ reasoning: THOUGHT }),
      { ...RESULT, content: [{ type: 'text', text: 'hello' }] },
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
