/**
 * Tokenizer families by the pre-tokenizer in `tokenizer.ggml.pre`, which distinguishes even families with the same
 * encoder. The names follow public model lists.
 */
const BY_PRE: readonly (readonly [pre: RegExp, family: string])[] = [
  [/^(llama-bpe|llama-v3|llama3|falcon3)$/, 'Llama3'],
  [/^llama4$/, 'Llama4'],
  [/^(qwen35|qwen3)/, 'Qwen3'],
  [/^(qwen2|deepseek-r1-qwen)$/, 'Qwen'],
  [/^deepseek/, 'DeepSeek'],
  [/^(tekken|mistral)/, 'Mistral'],
  [/^(gpt-4o|o200k)/, 'GPT'],
  [/^(gpt-2|gpt2)$/, 'GPT2'],
  [/^smollm/, 'SmolLM'],
  [/^(command-r|tiny_aya|cohere)/, 'Cohere'],
  [/^(glm4|chatglm)/, 'GLM'],
  [/^falcon$/, 'Falcon'],
  [/^(gemma4|gemma)/, 'Gemma'],
];

/** Tokenizer families by architecture prefix, for files whose pre-tokenizer does not identify the family. */
const BY_ARCHITECTURE: readonly (readonly [architecture: string, family: string])[] = [
  ['gemma', 'Gemma'],
  ['qwen3', 'Qwen3'],
  ['qwen', 'Qwen'],
  ['mistral', 'Mistral'],
  ['phi3', 'Llama2'],
  ['rwkv', 'RWKV'],
];

const BY_MODEL: ReadonlyMap<string, string> = new Map([
  ['llama', 'Llama2'],
  ['gpt2', 'GPT2'],
  ['bert', 'BERT'],
  ['t5', 'T5'],
  ['rwkv', 'RWKV'],
  ['gemma4', 'Gemma'],
]);

/**
 * Returns the tokenizer family for `GET /v1/models`, from `tokenizer.ggml.model`, `tokenizer.ggml.pre` and the
 * architecture. For an unknown family, returns `pre`, or else `model`.
 */
export function tokenizerFamily(model: string | null, pre: string | null, architecture: string): string {
  const byPre = pre === null ? undefined : BY_PRE.find(([pattern]) => pattern.test(pre))?.[1];
  // Qwen3 has the pre-tokenizer of Qwen2.
  if (byPre === 'Qwen' && architecture.startsWith('qwen3')) return 'Qwen3';
  if (byPre !== undefined) return byPre;
  const byArchitecture = BY_ARCHITECTURE.find(([prefix]) => architecture.startsWith(prefix))?.[1];
  if (byArchitecture !== undefined) return byArchitecture;
  if (pre !== null && pre !== '' && pre !== 'default') return pre;
  return (model === null ? undefined : BY_MODEL.get(model)) ?? model ?? 'unknown';
}
