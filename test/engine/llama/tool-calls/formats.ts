import { DEEPSEEK_V32, DEEPSEEK_V4, MINIMAX } from '../../../../src/engine/llama/tool-calls/invoke.ts';
import { COHERE, NEMOTRON } from '../../../../src/engine/llama/tool-calls/json-list.ts';
import { KIMI } from '../../../../src/engine/llama/tool-calls/kimi.ts';
import { DEEPSEEK, DEEPSEEK_R1 } from '../../../../src/engine/llama/tool-calls/deepseek.ts';
import { GEMMA } from '../../../../src/engine/llama/tool-calls/gemma.ts';
import { GENERIC } from '../../../../src/engine/llama/tool-calls/generic.ts';
import { GLM } from '../../../../src/engine/llama/tool-calls/glm.ts';
import { HARMONY } from '../../../../src/engine/llama/tool-calls/harmony.ts';
import { HERMES } from '../../../../src/engine/llama/tool-calls/hermes.ts';
import { LLAMA3 } from '../../../../src/engine/llama/tool-calls/llama3.ts';
import { MISTRAL, MISTRAL_NEMO } from '../../../../src/engine/llama/tool-calls/mistral.ts';
import { PHI } from '../../../../src/engine/llama/tool-calls/phi.ts';
import { LFM2, LLAMA4 } from '../../../../src/engine/llama/tool-calls/pythonic.ts';
import { QWEN_XML } from '../../../../src/engine/llama/tool-calls/qwen-xml.ts';

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
