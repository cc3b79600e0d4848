import {
  DEEPSEEK_V32,
  DEEPSEEK_V4,
  GLM,
  MINIMAX,
  QWEN_XML,
} from '../../../../src/engine/llama/tool-calls/tag-formats.ts';
import { COHERE, NEMOTRON } from '../../../../src/engine/llama/tool-calls/json-call.ts';
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
} from '../../../../src/engine/llama/tool-calls/json-formats.ts';
import { GEMMA, LFM2, LLAMA4 } from '../../../../src/engine/llama/tool-calls/literal-formats.ts';

/** Every format of calls. */
export const FORMATS = [
  HERMES,
  GENERIC,
  QWEN_XML,
  GLM,
  MISTRAL,
  MISTRAL_NEMO,
  LLAMA3,
  DEEPSEEK,
  DEEPSEEK_R1,
  HARMONY,
  GEMMA,
  LFM2,
  LLAMA4,
  PHI,
  MINIMAX,
  DEEPSEEK_V32,
  DEEPSEEK_V4,
  KIMI,
  NEMOTRON,
  COHERE,
];
