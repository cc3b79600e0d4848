/** How a family of models marks the reasoning before an answer. */
export interface ReasoningFormat {
  /** Begins the reasoning, at the start of the output. */
  readonly open: string;
  /** Ends the reasoning. */
  readonly close: string;
  /** GBNF expression for what precedes the text of an answer. Absent: nothing. */
  readonly answer?: string;
  /** Begins the text of an answer, where the model may reason again instead. Absent: it cannot. */
  readonly opensAnswer?: string;
}

/** gpt-oss writes messages in channels; the channel `analysis` contains the reasoning. */
export const HARMONY_CHANNELS: ReasoningFormat = {
  open: '<|channel|>analysis<|message|>',
  close: '<|end|>',
  answer: '"<|start|>assistant"? "<|channel|>final" (" "? "<|constrain|>" [a-zA-Z]{1,12})? "<|message|>"',
  opensAnswer: '<|start|>assistant<|channel|>final<|message|>',
};

const REASONING_FORMATS: readonly { format: ReasoningFormat; signs: readonly string[] }[] = [
  { format: HARMONY_CHANNELS, signs: ['<|channel|>analysis', '<|message|>'] },
  // Gemma 4
  { format: { open: '<|channel>thought', close: '<channel|>' }, signs: ['<|channel>thought'] },
  // Magistral, Ministral 3
  { format: { open: '[THINK]', close: '[/THINK]' }, signs: ['[THINK]'] },
  // Command A
  {
    format: { open: '<|START_THINKING|>', close: '<|END_THINKING|>' },
    signs: ['<|START_THINKING|>'],
  },
  // Seed-OSS
  { format: { open: '<seed:think>', close: '</seed:think>' }, signs: ['seed:think'] },
  // Hy3, whose template builds its tags with `format`
  {
    format: { open: '<think:opensource>', close: '</think:opensource>' },
    signs: ['</think{}>', ':opensource'],
  },
  // MiniMax M3
  { format: { open: '<mm:think>', close: '</mm:think>' }, signs: ['mm:think>'] },
  // Apertus
  { format: { open: '<|inner_prefix|>', close: '<|inner_suffix|>' }, signs: ['<|inner_prefix|>'] },
  // Qwen 3, DeepSeek, GLM, Nemotron and most others. The opening is not required, because some templates only remove
  // the block from earlier turns.
  { format: { open: '<think>', close: '</think>' }, signs: ['</think>'] },
];

/** Returns a model's reasoning format, detected from its chat template, or null if the model does not reason. */
export function detectReasoning(templateSource: string): ReasoningFormat | null {
  const found = REASONING_FORMATS.find(({ signs }) => signs.every((sign) => templateSource.includes(sign)));
  return found?.format ?? null;
}

/** How a prompt ends: inside the reasoning, after it, or with neither, so that the model decides whether to reason. */
export type PromptReasoning = 'open' | 'closed' | 'none';

/** Returns how the prompt ends. Templates that turn reasoning off add an empty block. */
export function reasoningOf({ open, close }: ReasoningFormat, prompt: string): PromptReasoning {
  const end = prompt.trimEnd();
  if (end.endsWith(open)) return 'open';
  return end.endsWith(close) ? 'closed' : 'none';
}
