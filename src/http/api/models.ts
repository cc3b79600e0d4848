import { modalityOf } from '../../core/features.ts';
import type { HttpContext } from '../context.ts';
import { modelOperations } from './contract/models.ts';
import { endpoints } from './endpoint.ts';
import { modelJson } from './service.ts';

export const modelEndpoints = endpoints(modelOperations, {
  listCatalog: async ({ context }) => {
    const { models, availableBytes } = await context.registry.catalog();
    return {
      available_memory_bytes: availableBytes,
      data: models.map(({ model, memoryBytes, fits, downloaded }) => ({
        id: model.id,
        summary: model.summary,
        license: model.license,
        quantization: model.quantization,
        context_length: model.contextTokens,
        size_bytes: Math.round(model.sizeBytes ?? model.sizeGb * 1e9),
        memory_bytes: Math.round(memoryBytes),
        fits,
        downloaded,
        tools: model.tools,
        reasoning: model.reasoning,
        modality: modalityOf(model.embedding),
      })),
    };
  },
  addModel: async ({ context, actor, body }) => {
    const { replicas, context_tokens: contextTokens, ...same } = body;
    const added = { ...same, replicas: replicas?.map(replicaOf), contextTokens };
    return served(context, await context.registry.add(added, actor));
  },
  updateModel: async ({ context, actor, body }) => {
    const { model, pricing, context_tokens: contextTokens, keep } = body;
    await context.registry.update(model, { pricing, contextTokens, keep }, actor);
    return served(context, model);
  },
  setDefaultModel: async ({ context, actor, body: { model } }) => {
    await context.registry.setDefault(model, actor);
    return served(context, model);
  },
  loadModel: async ({ context, actor, body: { model } }) => {
    await context.registry.load(model, actor);
    return served(context, model);
  },
  unloadModel: async ({ context, actor, body: { model } }) => {
    await context.registry.unload(model, actor);
    return served(context, model);
  },
  removeModel: async ({ context, actor, body }) => {
    await context.registry.remove(body.model, body.keep_file === true, actor);
    return { id: body.model, deleted: true as const };
  },
  addReplica: async ({ context, actor, body: { model, replica } }) => {
    await context.registry.addReplica(model, replicaOf(replica), actor);
    return served(context, model);
  },
  removeReplica: async ({ context, actor, body: { model, name } }) => {
    await context.registry.removeReplica(model, name, actor);
    return served(context, model);
  },
});

interface ReplicaBody {
  url: string;
  dialect: string;
  model?: string | undefined;
  api_key_env?: string | undefined;
  max_in_flight?: number | undefined;
}

function replicaOf({ url, dialect, model, api_key_env: apiKeyEnv, max_in_flight: maxInFlight }: ReplicaBody) {
  return { url, dialect, model, apiKeyEnv, maxInFlight };
}

async function served(context: HttpContext, id: string) {
  return await modelJson(context, context.router.model(id).overview(), true);
}
