import {
  DEEPSEEK,
  DEEPSEEK_R1,
  GENERIC,
  HARMONY,
  HERMES,
  KIMI,
  LLAMA3,
  MISTRAL,
  MISTRAL_NEMO,
  PHI,
} from './json-formats.ts';
import { GEMMA, LFM2, LLAMA4 } from './literal-formats.ts';
import { DEEPSEEK_V32, DEEPSEEK_V4, GLM, MINIMAX, QWEN_XML } from './tag-formats.ts';
import { COHERE, NEMOTRON } from './json-call.ts';
import type { ToolFormat } from './tool-format.ts';

/** A template uses the first format whose `signs` it contains. */
const FORMATS: readonly { format: ToolFormat; signs: readonly string[] }[] = [
  { format: HARMONY, signs: ['<|channel|>', '<|message|>', '<|call|>'] },
  { format: GEMMA, signs: ['<|tool_call>call:'] },
  { format: GLM, signs: ['<arg_key>'] },
  { format: QWEN_XML, signs: ['<tool_call>', '<function=', '<parameter='] },
  { format: DEEPSEEK_R1, signs: ['<｜tool▁calls▁begin｜>', '```json'] },
  { format: DEEPSEEK, signs: ['<｜tool▁calls▁begin｜>'] },
  { format: MISTRAL, signs: ['[TOOL_CALLS]', '[ARGS]'] },
  { format: MISTRAL_NEMO, signs: ['[TOOL_CALLS]'] },
  { format: PHI, signs: ['functools'] },
  { format: LFM2, signs: ['<|tool_call_start|>'] },
  { format: HERMES, signs: ['<tool_call>', '"arguments"'] },
  { format: HERMES, signs: ['<tool_call>', String.raw`\"arguments\"`] },
  { format: LLAMA3, signs: ['"parameters": ', 'ipython'] },
  { format: MINIMAX, signs: ['minimax:tool_call', '<invoke name='] },
  { format: DEEPSEEK_V32, signs: ['｜DSML｜', 'function_calls'] },
  { format: DEEPSEEK_V4, signs: ['｜DSML｜', 'tool_calls'] },
  { format: KIMI, signs: ['<|tool_calls_section_begin|>'] },
  { format: NEMOTRON, signs: ['<TOOLCALL>'] },
  { format: COHERE, signs: ['<|START_ACTION|>', '"tool_name"'] },
  { format: LLAMA4, signs: ['<|header_start|>'] },
];

/** Returns the format in which a model writes calls, detected from its chat template. */
export function detectFormat(templateSource: string): ToolFormat {
  return FORMATS.find(({ signs }) => signs.every((sign) => templateSource.includes(sign)))?.format ?? GENERIC;
}
