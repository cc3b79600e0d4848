import { imagesSchema } from '../config/model.ts';
import type { ModelConfig } from '../config/schema.ts';
import type { ModelDescription } from '../engine/engine.ts';
import { IMAGE_MODALITY, outputOf } from '../core/features.ts';
import type { ImageLimits, ModelCard } from '../core/generation.ts';

/**
 * Returns the entry of a model in `GET /v1/models`, from the configuration and the descriptions of its replicas. If
 * replicas differ, the entry has the smallest context, because any of them may get the request. Returns null while
 * the context is unknown; the model is then not listed.
 *
 * `created` is in Unix seconds.
 */
function cardOf(
  config: ModelConfig,
  descriptions: readonly ModelDescription[],
  created: number,
): ModelCard | null {
  const contextTokens = smallest([config.contextTokens, ...descriptions.map((each) => each.contextTokens)]);
  if (contextTokens === null) return null;
  const modality = modalityOf(config, descriptions);
  const completionTokens = smallest([
    outputOf(modality) === 'text' ? config.maxCompletionTokens : 0,
    contextTokens,
    ...descriptions.map((each) => each.maxCompletionTokens),
  ]);
  const first = <Key extends keyof ModelDescription>(key: Key) =>
    descriptions.find((each) => each[key] !== null)?.[key] ?? null;
  const recommendedSampling =
    config.recommendedSampling ??
    descriptions.find((each) => each.recommendedSampling)?.recommendedSampling ??
    {};
  return {
    id: config.id,
    architecture: {
      instruct_type: config.instructType !== undefined ? config.instructType : first('instructType'),
      modality,
      tokenizer: config.tokenizer ?? first('tokenizer') ?? 'unknown',
    },
    context_length: contextTokens,
    max_completion_tokens: completionTokens ?? contextTokens,
    pricing: config.pricing,
    quantization: config.quantization ?? first('quantization') ?? 'unknown',
    created,
    owned_by: config.ownedBy ?? config.id.split('/', 1)[0] ?? config.id,
    recommendedSampling,
    defaultSampling: config.samplingDefaults === 'recommended' ? recommendedSampling : {},
    toolFormat: descriptions.find((each) => each.toolFormat)?.toolFormat ?? null,
    tools: config.tools ?? null,
    reasoning: config.reasoning ?? null,
  };
}

function modalityOf({ modality, images }: ModelConfig, descriptions: readonly ModelDescription[]): string {
  if (modality !== undefined) return modality;
  if (images !== undefined) return IMAGE_MODALITY;
  const reported = descriptions.find((each) => each.modality)?.modality ?? 'text->text';
  // Any of the replicas may get the request.
  const allTake = reported !== IMAGE_MODALITY || descriptions.every((each) => each.modality === reported);
  return allTake ? reported : 'text->text';
}

const DEFAULT_IMAGES: ImageLimits = imagesSchema.parse({});

/** Returns the bounds of images. Null: neither the configuration nor a server says that the model takes images. */
export function imageLimits(
  config: ModelConfig,
  replicas: readonly { readonly description: ModelDescription | null }[],
): ImageLimits | null {
  if (config.images !== undefined) return config.images;
  const descriptions = replicas.flatMap(({ description }) => description ?? []);
  return modalityOf(config, descriptions) === IMAGE_MODALITY ? DEFAULT_IMAGES : null;
}

/** Returns a function that returns the current card. Cached, because every request reads it. */
export function cardSource(
  config: ModelConfig,
  replicas: readonly { readonly description: ModelDescription | null }[],
  created: () => number,
): () => ModelCard | null {
  let known: (ModelDescription | null)[] | null = null;
  let card: ModelCard | null = null;
  return () => {
    if (
      known?.length !== replicas.length ||
      replicas.some(({ description }, index) => description !== known?.[index])
    ) {
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
