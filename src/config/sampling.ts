import { z } from 'zod';

/** The parameters of the API in camel case. `topP` and `repetitionPenalty` start at 0.01, because the API excludes 0. */
export const recommendedSampling = z
  .strictObject({
    temperature: z.number().min(0).max(2).optional().describe('`temperature`.'),
    topP: z.number().min(0.01).max(1).optional().describe('`top_p`.'),
    topK: z.int().min(0).max(2_147_483_647).optional().describe('`top_k`.'),
    minP: z.number().min(0).max(1).optional().describe('`min_p`.'),
    repetitionPenalty: z.number().min(0.01).max(2).optional().describe('`repetition_penalty`.'),
  })
  .optional()
  .describe(
    'Sampling parameters that the console and its code samples send for this model. Requests without these fields keep the defaults of the API. Default: what the catalog or the GGUF file recommends.',
  );
