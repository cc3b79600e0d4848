import type { ModelConfig } from '../config/schema.ts';
import type { EngineDescription } from '../engine/engine.ts';
import type { ModelCard } from '../generation.ts';

/**
 * The entry of a model in `GET /v1/models`: what its replicas say, and the configuration above it. Where
 * replicas differ, the smallest context is promised, since any of them may get the request. Null while neither
 * says how long the context is: a model of which that is unknown is not listed.
 *
 * `created` is in Unix seconds.
 */
function cardOf(
  config: ModelConfig,
  descriptions: readonly EngineDescription[],
  created: number,
): ModelCard | null {
  const contextTokens = smallest([config.contextTokens, ...descriptions.map((each) => each.contextTokens)]);
  if (contextTokens === null) return null;
  const completionTokens = smallest([
    config.maxCompletionTokens,
    contextTokens,
    ...descriptions.map((each) => each.maxCompletionTokens),
  ]);
  const first = <Key extends keyof EngineDescription>(key: Key) =>
    descriptions.find((each) => each[key] !== null)?.[key] ?? null;
  return {
    id: config.id,
    architecture: {
      instruct_type: config.instructType !== undefined ? config.instructType : first('instructType'),
      modality: config.modality,
      tokenizer: config.tokenizer ?? first('tokenizer') ?? 'unknown',
    },
    context_length: contextTokens,
    max_completion_tokens: completionTokens ?? contextTokens,
    pricing: { prompt: config.pricing.prompt, completion: config.pricing.completion },
    quantization: config.quantization ?? first('quantization') ?? 'unknown',
    created,
    owned_by: config.ownedBy ?? config.id.split('/', 1)[0] ?? config.id,
  };
}

/** Something that may say what it serves, once it knows. */
interface Described {
  readonly description: EngineDescription | null;
}

/** The card of what is known whenever it is asked for: every request asks, so it is made anew only on news. */
export function cardSource(
  config: ModelConfig,
  replicas: readonly Described[],
  created: () => number,
): () => ModelCard | null {
  let known: (EngineDescription | null)[] | null = null;
  let card: ModelCard | null = null;
  return () => {
    if (known === null || replicas.some(({ description }, index) => description !== known?.[index])) {
      known = replicas.map(({ description }) => description);
      card = cardOf(
        config,
        known.filter((description) => description !== null),
        created(),
      );
    }
    return card;
  };
}

function smallest(values: readonly (number | null | undefined)[]): number | null {
  const known = values.filter((value) => typeof value === 'number');
  return known.length > 0 ? Math.min(...known) : null;
}
