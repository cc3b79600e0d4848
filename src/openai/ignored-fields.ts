import { hint, refused, type Field } from './field.ts';

/** Fields without effect and fields that are refused. Part of the table in `fields.ts`. */

const CHAT = ['chat'] as const;
const hintInChat = (path: string, description: string): Field => hint(path, { kinds: CHAT, description });

/** Fields that client libraries and agents send. */
export const HINTS: readonly Field[] = [
  hint('stream_options.include_obfuscation', { description: 'Chunks are never padded.' }),
  hintInChat('messages[].name', 'Chat templates ignore it.'),
  hintInChat('messages[].annotations', 'Not sent to the model.'),
  hintInChat('messages[].reasoning_details', 'Not sent to the model. Use `reasoning_content`.'),
  hintInChat('messages[].provider_specific_fields', 'Added by LiteLLM to responses. Not sent to the model.'),
  hintInChat('messages[].parsed', "Added by OpenAI's libraries to structured output. Not sent to the model."),
  hintInChat('messages[].cache_control', 'Cached prefixes are found without it.'),
  hintInChat('cache_control', 'Cached prefixes are found without it.'),
  hint('metadata', { description: 'Not stored.' }),
  hint('store', { description: 'Responses are never stored.' }),
  hint('service_tier', { description: 'There is only one tier.' }),
  hint('safety_identifier', { description: 'Not stored.' }),
  hint('prompt_cache_key', { description: 'Cached prefixes are found without it.' }),
  hintInChat('promptCacheKey', "opencode's name for `prompt_cache_key`."),
  hintInChat('prompt_cache_options', 'Cached prefixes are found without it.'),
  hint('prompt_cache_retention', { description: 'The engine decides how long a prefix is cached.' }),
];

const refusedInChat = (path: string, description: string, ...neutral: unknown[]): Field =>
  refused(path, { kinds: CHAT, neutral, description });

export const REFUSALS: readonly Field[] = [
  refusedInChat('messages[].refusal', 'Responses never have a refusal.'),
  refused('messages[].function_call', {
    kinds: CHAT,
    instead: 'tool_calls',
    description: 'Older name for `tool_calls`.',
  }),
  refusedInChat('messages[].audio', 'Only text is supported.'),
  refused('functions', {
    kinds: CHAT,
    neutral: [[]],
    instead: 'tools',
    description: 'Older name for `tools`.',
  }),
  refused('function_call', {
    kinds: CHAT,
    neutral: ['none', 'auto'],
    instead: 'tool_choice',
    description: 'Older name for `tool_choice`.',
  }),
  refusedInChat('modalities', 'Only text is supported.', ['text']),
  refusedInChat('audio', 'Only text is supported.'),
  refusedInChat('prediction', 'Predicted outputs are not supported.'),
  refusedInChat('include_reasoning', 'Reasoning is always returned.', true),
  ...['reasoning', 'thinking'].map((path) =>
    refused(path, {
      kinds: CHAT,
      instead: 'reasoning_effort',
      description: "Other providers' name for `reasoning_effort`.",
    }),
  ),
  refused('enable_thinking', {
    kinds: CHAT,
    instead: 'chat_template_kwargs',
    description: 'A variable of some chat templates.',
  }),
  refusedInChat('verbosity', 'Not supported by any engine.', 'medium'),
  refusedInChat('web_search_options', 'Web search is not supported.'),
  refused('suffix', {
    kinds: ['text'],
    neutral: [''],
    description: 'Text insertion (fill in the middle) is not supported.',
  }),
  refused('best_of', {
    kinds: ['text'],
    neutral: [1],
    description: 'Accepted only if it is 1 or equals `n`; it has no effect.',
  }),
];
