import { ServiceError } from '../../errors.ts';
import type { Sampling } from '../../generation.ts';
import type { SamplerConfig } from './addon.ts';

/**
 * One choice's sampling in the addon's words. `seed` is the request's (drawn where the caller gave none);
 * choices of one request differ by it.
 *
 * Presence and frequency penalties count what the choice has generated, as OpenAI defines them. The addon
 * keeps one history for all three penalties, so the prompt belongs to the repetition penalty's (its
 * definition elsewhere) only where the other two are off.
 */
export function samplerConfig(
  sampling: Sampling,
  seed: number,
  prompt: Uint32Array,
  slotTokens: number,
): SamplerConfig {
  const config: SamplerConfig = { temperature: sampling.temperature, seed: usableSeed(seed) };
  if (sampling.temperature > 0) {
    const topK = sampling.topK ?? (sampling.topP < 1 ? WIDE_TOP_K : 0);
    if (topK > 0) config.topK = topK;
    if (sampling.topP < 1) config.topP = sampling.topP;
    if (sampling.minP > 0) config.minP = sampling.minP;
  }
  const { presencePenalty, frequencyPenalty, repetitionPenalty } = sampling;
  const counted = presencePenalty !== 0 || frequencyPenalty !== 0;
  if (counted || repetitionPenalty !== 1) {
    config.repeatPenalty = repetitionPenalty;
    config.repeatPenaltyPresencePenalty = presencePenalty;
    config.repeatPenaltyFrequencyPenalty = frequencyPenalty;
    config.repeatPenaltyMaxTokens = slotTokens;
    config.repeatPenaltyTokens = counted ? new Uint32Array(0) : prompt;
  }
  if (sampling.logitBias.size > 0) {
    config.tokenBiasKeys = Uint32Array.from(sampling.logitBias.keys());
    config.tokenBiasValues = Float32Array.from(sampling.logitBias.values());
  }
  return config;
}

/** Refuses a bias on a token that the model does not have: 400 `invalid_value` at `logit_bias.<id>`. */
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
 * `top_p` sorts its candidates, which over a whole vocabulary costs ten times as much as the rest of the step's
 * sampling. The likeliest thousand hold the nucleus in all but the flattest distributions; a caller who wants it
 * exact there says `top_k: 0`.
 */
const WIDE_TOP_K = 1000;

/** llama.cpp takes the largest seed for "draw one". */
function usableSeed(seed: number): number {
  return seed >= 0xffff_ffff ? 0xffff_fffe : seed;
}
