import { ServiceError } from '../../../core/errors.ts';
import type { Sampling } from '../../../core/sampling.ts';
import type { SamplerConfig } from '../native/addon.ts';

/** The tokens that precede those to be sampled. */
export interface SampledAfter {
  /** The prompt, followed by the tokens of the generation that is continued. */
  prompt: Uint32Array;
  /** Number of tokens at the end of `prompt` that an earlier engine has generated; 0 for a new generation. */
  continued: number;
}

/**
 * Converts the sampling settings of a choice to the addon's.
 *
 * Presence and frequency penalties only count generated tokens, as with OpenAI; the repetition penalty also counts the
 * prompt. The addon has one history for all three penalties, so the prompt is included only if the first two are off.
 */
export function samplerConfig(
  sampling: Sampling,
  seed: number,
  { prompt, continued }: SampledAfter,
  slotTokens: number,
): SamplerConfig {
  const config: SamplerConfig = {
    temperature: sampling.temperature,
    // llama.cpp interprets the largest seed as "random".
    seed: Math.min(seed, 0xffff_fffe),
  };
  if (sampling.temperature > 0) {
    const topK = sampling.topK ?? (sampling.topP < 1 ? DEFAULT_TOP_K : 0);
    if (topK > 0) config.topK = topK;
    if (sampling.topP < 1) config.topP = sampling.topP;
    if (sampling.minP > 0) config.minP = sampling.minP;
  }
  const { presencePenalty, frequencyPenalty, repetitionPenalty } = sampling;
  const hasCountPenalty = presencePenalty !== 0 || frequencyPenalty !== 0;
  if (hasCountPenalty || repetitionPenalty !== 1) {
    config.repeatPenalty = repetitionPenalty;
    config.repeatPenaltyPresencePenalty = presencePenalty;
    config.repeatPenaltyFrequencyPenalty = frequencyPenalty;
    config.repeatPenaltyMaxTokens = slotTokens;
    config.repeatPenaltyTokens = hasCountPenalty ? prompt.subarray(prompt.length - continued) : prompt;
  }
  if (sampling.logitBias.size > 0) {
    config.tokenBiasKeys = Uint32Array.from(sampling.logitBias.keys());
    config.tokenBiasValues = Float32Array.from(sampling.logitBias.values());
  }
  return config;
}

/** Throws 400 `invalid_value` at `logit_bias.<id>` for unknown tokens. */
export function checkLogitBias(bias: Sampling['logitBias'], vocabularySize: number): void {
  for (const token of bias.keys()) {
    if (token < vocabularySize) continue;
    throw new ServiceError(
      'invalid_value',
      `\`logit_bias.${token}\` is not a token of this model; its token IDs are 0 to ${vocabularySize - 1}.`,
      { param: `logit_bias.${token}` },
    );
  }
}

/**
 * Default `top_k` if `top_p` is set. `top_p` sorts its candidates, and sorting the whole vocabulary takes ten times as
 * long as the rest of sampling. Except in very flat distributions, `top_p` only selects tokens among the 1000 most
 * likely ones. With `top_k: 0`, it considers all tokens.
 */
const DEFAULT_TOP_K = 1000;
