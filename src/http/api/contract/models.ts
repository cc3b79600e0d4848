import { z } from 'zod';
import { modelId } from '../../../config/plan.ts';
import { DIALECTS } from '../../../core/generation.ts';
import { operations } from './operation.ts';
import { component, deleted, filterText, line } from './schemas.ts';
import { servedModel } from './service.ts';

const count = z.int();
const model = filterText.describe('ID of the model.');
const url = z
  .string()
  .max(2048)
  .regex(
    new RegExp(String.raw`^https?://[^\u0000-\u0020\u007f-\u009f]+$`, 'u'),
    'expected an http:// or https:// URL',
  );

const price = z
  .string()
  .regex(/^\d{1,9}(\.\d{1,6})?$/, 'expected a decimal string with at most 6 decimals, such as "0.15"')
  .optional()
  .describe('USD per million tokens, a decimal string.');

const pricing = z
  .strictObject({
    prompt: price,
    completion: price,
    input_cache_read: price
      .nullable()
      .describe('USD per million cached prompt tokens, at most `prompt`. Null: the same as `prompt`.'),
  })
  .optional();

const contextTokens = z
  .int()
  .min(128)
  .max(1_048_576)
  .describe('Context length of a request, in tokens: prompt and completion together.');

const keep = z
  .boolean()
  .optional()
  .describe(
    'Whether the model stays in memory: it is unloaded neither for other models nor because it is not used. Only for models with a `source`.',
  );

const newReplica = z.strictObject({
  url: url.describe('Base URL of an OpenAI-compatible server, with or without `/v1`.'),
  dialect: z.enum(DIALECTS).describe('Server software; `openai` for any other server or provider.'),
  model: line(200).optional().describe('Model name on the server. Default: the ID of the model.'),
  api_key_env: z
    .string()
    .regex(
      /^SLUICE_REPLICA_[A-Z0-9_]{1,64}$/,
      'expected the name of a variable that starts with SLUICE_REPLICA_',
    )
    .optional()
    .describe(
      'Name of the environment variable with the API key for this server. It must start with `SLUICE_REPLICA_`, so that no other secret of the service can be sent. Default: no key is sent.',
    ),
  max_in_flight: z
    .int()
    .min(1)
    .max(100_000)
    .optional()
    .describe('Maximum number of choices that an instance requests from the server at a time.'),
});

const catalogModel = component(
  'CatalogModel',
  z.object({
    id: z.string(),
    summary: z.string(),
    license: z.string(),
    quantization: z.string(),
    context_length: count.describe('Context length that the model was trained with, in tokens.'),
    size_bytes: count.describe('Size of the download.'),
    memory_bytes: count.describe('Memory that it needs with the default slots and context.'),
    fits: z.boolean().describe('Whether that much memory is available for it.'),
    downloaded: z.boolean().describe('Whether its file is on this machine.'),
    tools: z.boolean().describe('Whether the model calls tools.'),
    reasoning: z.boolean().describe('Whether the model can reason before it answers.'),
    modality: z
      .string()
      .describe(
        '`text->embedding` if the model returns embeddings, `text->rerank` if it ranks documents, otherwise `text->text`.',
      ),
  }),
);

const onlyModel = component('ModelReference', z.strictObject({ model }));

/** Changes to the served models, without a restart. */
export const modelOperations = operations({
  listCatalog: {
    route: 'GET /api/catalog',
    summary: 'List the models that can be added by ID, the memory that each needs, and the available memory.',
    access: 'operator',
    response: component(
      'Catalog',
      z.object({
        available_memory_bytes: count.describe(
          'Memory that is available for another model on the machine of this instance, after all models that may be unloaded for it.',
        ),
        data: z.array(catalogModel),
      }),
    ),
  },
  addModel: {
    route: 'POST /api/models',
    summary:
      'Add a model. The service downloads and loads it; `listServedModels` shows the progress. With several instances, a model with `source` runs on this instance only, and one with `replicas` is served by all.',
    access: 'operator',
    status: 201,
    body: component(
      'NewModel',
      z
        .strictObject({
          id: modelId
            .optional()
            .describe(
              'Model ID that callers send. Default: derived from `source`. Required with `replicas`.',
            ),
          source: line(2048)
            .optional()
            .describe(
              'A model of the catalog, `hf:owner/repo/file.gguf[@revision]`, an `https://` URL, or an absolute path on the machine of the service. Either this or `replicas` is required.',
            ),
          replicas: z.array(newReplica).min(1).max(100).optional().describe('Servers that run this model.'),
          modality: z
            .enum(['text->text', 'text+image->text', 'text->embedding', 'text->rerank'])
            .optional()
            .describe(
              'What the servers take and return: text, text and images, text to an embedding, or texts to their rank. Only with `replicas`. Default: `text+image->text` if all servers report it, as llama-server does; otherwise `text->text`.',
            ),
          pricing,
          context_tokens: contextTokens.optional(),
          slots: z
            .int()
            .min(1)
            .max(64)
            .optional()
            .describe('Number of requests that generate at the same time. Default: depends on the memory.'),
          keep,
        })
        // `defineModel` enforces the same rules, with messages of its own.
        .meta({
          oneOf: [
            {
              required: ['source'],
              not: { anyOf: [{ required: ['replicas'] }, { required: ['modality'] }] },
            },
            {
              required: ['id', 'replicas'],
              not: { anyOf: [{ required: ['source'] }, { required: ['slots'] }, { required: ['keep'] }] },
            },
          ],
        }),
    ),
    response: servedModel,
    errors: ['conflict', 'not_enough_memory'],
  },
  updateModel: {
    route: 'POST /api/models/update',
    summary:
      'Change the price, the context length or `keep` of an added model. A changed context length restarts its engine.',
    access: 'operator',
    body: component(
      'ModelUpdate',
      z.strictObject({
        model,
        pricing,
        context_tokens: contextTokens
          .nullable()
          .optional()
          .describe('Context length of a request, in tokens; null: the default.'),
        keep,
      }),
    ),
    response: servedModel,
    errors: ['model_not_found', 'conflict'],
  },
  setDefaultModel: {
    route: 'POST /api/models/default',
    summary:
      'Make a model the default: `GET /v1/models` lists it first, and the console preselects it. Requests must still name a model.',
    access: 'operator',
    body: onlyModel,
    response: servedModel,
    errors: ['model_not_found'],
  },
  loadModel: {
    route: 'POST /api/models/load',
    summary:
      'Load a model, or resume its download. If memory is short, models that are not used are unloaded for it.',
    access: 'operator',
    body: onlyModel,
    response: servedModel,
    errors: ['model_not_found', 'conflict', 'not_enough_memory'],
  },
  unloadModel: {
    route: 'POST /api/models/unload',
    summary:
      'Unload a model, or cancel its download. Running requests have 10 seconds to finish. Models of the configuration file are loaded again when the service starts.',
    access: 'operator',
    body: onlyModel,
    response: servedModel,
    errors: ['model_not_found', 'conflict'],
  },
  removeModel: {
    route: 'POST /api/models/remove',
    summary: 'Remove an added model and delete its downloaded file.',
    access: 'operator',
    body: component(
      'ModelRemoval',
      z.strictObject({
        model,
        keep_file: z.boolean().optional().describe('Keep the downloaded file. Default: false.'),
      }),
    ),
    response: deleted,
    errors: ['model_not_found', 'conflict'],
  },
  addReplica: {
    route: 'POST /api/replicas',
    summary: 'Add a server to a model that was added with `replicas`.',
    access: 'operator',
    body: component('ReplicaAddition', z.strictObject({ model, replica: newReplica })),
    response: servedModel,
    errors: ['model_not_found', 'conflict'],
  },
  removeReplica: {
    route: 'POST /api/replicas/remove',
    summary:
      'Remove a server from a model that was added with `replicas`. Its running requests have `drainMs` to finish.',
    access: 'operator',
    body: component(
      'ReplicaRemoval',
      z.strictObject({ model, name: filterText.describe('Name of the replica, as in the list of engines.') }),
    ),
    response: servedModel,
    errors: ['model_not_found', 'not_found', 'conflict'],
  },
});
