/** The family of a chat template by the marks it puts around turns, or null where it is none of those known. */
export function instructTypeOf(source: string): string | null {
  const family = FAMILIES.find(({ marks }) => marks.every((mark) => source.includes(mark)));
  return family?.name ?? null;
}

/** In this order, because some families share marks with an older one. The names are those that model listings use. */
const FAMILIES: readonly { name: string; marks: readonly string[] }[] = [
  { name: 'gpt-oss', marks: ['<|start|>', '<|channel|>'] },
  { name: 'phi4', marks: ['<|im_start|>', '<|im_sep|>'] },
  { name: 'qwen3', marks: ['<|im_start|>', 'last_query_index'] },
  { name: 'chatml', marks: ['<|im_start|>'] },
  { name: 'llama4', marks: ['<|header_start|>'] },
  { name: 'llama3', marks: ['<|start_header_id|>'] },
  { name: 'llama2', marks: ['[INST]', '<<SYS>>'] },
  { name: 'mistral', marks: ['[INST]'] },
  { name: 'gemma', marks: ['<start_of_turn>'] },
  { name: 'deepseek-r1', marks: ['<｜User｜>', '</think>'] },
  { name: 'deepseek', marks: ['<｜User｜>'] },
  { name: 'command-r', marks: ['<|START_OF_TURN_TOKEN|>'] },
  { name: 'phi3', marks: ['<|user|>', '<|end|>'] },
  { name: 'phi3', marks: ["'<|' + message['role'] + '|>'", '<|end|>'] },
  { name: 'zephyr', marks: ['<|user|>', '<|assistant|>'] },
  { name: 'granite', marks: ['<|start_of_role|>'] },
  { name: 'openchat', marks: ['GPT4 Correct'] },
  { name: 'vicuna', marks: ['USER: ', 'ASSISTANT:'] },
  { name: 'alpaca', marks: ['### Instruction:'] },
];
