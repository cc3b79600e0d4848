import { z } from 'zod';
import { DIALECTS } from '../../../core/generation.ts';
import { perMillion } from './ledger.ts';
import { operations } from './operation.ts';
import { component, filterText, pageOf, prefillProgress, recommendedSampling, time } from './schemas.ts';

const count = z.int();
const nullableCount = z.int().nullable();

/**
 * State of a model or a replica. `unloaded` and `idle`: the model is not in memory. A request starts to load an `idle`
 * model, but not an `unloaded` one.
 */
const stateFields = {
  state: z.enum(['ready', 'loading', 'downloading', 'unloaded', 'idle', 'down']),
  fraction: z.number().nullable().describe('Progress of the download or of loading, 0 to 1; null: unknown.'),
  received_bytes: nullableCount.describe('Downloaded bytes.'),
  total_bytes: nullableCount.describe('Size of the download; null: unknown.'),
  reason: z
    .string()
    .nullable()
    .describe(
      'Why it is down or paused, or what it waits for before it is loaded; null otherwise. For operators only.',
    ),
  retry_in_ms: nullableCount.describe(
    'Time until the next attempt, in milliseconds; null: no attempt is planned.',
  ),
};

export const servedModel = component(
  'ServedModel',
  z.object({
    id: z.string(),
    ...stateFields,
    state: stateFields.state.describe('State of the replica that is closest to ready.'),
    required: z
      .boolean()
      .describe(
        'Whether the service counts as ready only when this model is ready. If no model is required, any ready model is enough.',
      ),
    waiting: count.describe('Requests that are waiting until a replica has room.'),
    in_flight: count.describe('Requests that are being processed by replicas.'),
    replicas: count,
    replicas_ready: count,
    pricing: z.object({
      prompt: perMillion,
      completion: perMillion,
      input_cache_read: perMillion
        .nullable()
        .describe('USD per million cached prompt tokens, a decimal string; null: `prompt`.'),
    }),
    context_length: nullableCount.describe(
      'In tokens. Until the metadata of the model is known, `context_length`, `max_completion_tokens`, `quantization` and `instruct_type` are null, `modality` is null unless the configuration or the catalog has it, and `recommended_sampling` is empty.',
    ),
    max_completion_tokens: nullableCount,
    quantization: z.string().nullable(),
    modality: z.string().nullable(),
    instruct_type: z.string().nullable(),
    recommended_sampling: recommendedSampling.describe(
      'Parameters that the publisher of the model recommends. They are not applied automatically; send them in each request.',
    ),
    is_default: z
      .boolean()
      .describe('Whether it is the default model: listed first, and preselected in the console.'),
    origin: z
      .enum(['file', 'added'])
      .describe('`file`: defined in the configuration file, and cannot be changed at run time.'),
    embedded: z
      .boolean()
      .describe(
        'Whether it runs on an engine of the service, or in a program that the service starts, so that it can be unloaded.',
      ),
    invalid: z
      .boolean()
      .describe(
        'Whether its definition cannot be used, so that it can only be removed. Its prices are unknown.',
      ),
    source: z
      .string()
      .nullable()
      .describe(
        'Its ID in the catalog, the source of its file, or the program that runs it; null: it runs on other servers. For operators only.',
      ),
    aliases: z
      .array(z.string())
      .describe('Other names of the model in the configuration. For operators only.'),
    context_tokens: nullableCount.describe(
      'Configured context length, in tokens; null: not configured. For operators only.',
    ),
    size_bytes: nullableCount.describe(
      'Size of its file; null: unknown, or it runs on other servers. For operators only.',
    ),
    keep: z
      .boolean()
      .nullable()
      .describe(
        'Whether it stays in memory: it is unloaded neither for other models nor because it is not used; null: it runs on other servers. For operators only.',
      ),
    downloaded: z
      .boolean()
      .nullable()
      .describe(
        'Whether its file is on this machine; null: it runs on other servers, or in a program. For operators only.',
      ),
    license: z
      .string()
      .nullable()
      .describe('From the catalog or its file; null: unknown. For operators only.'),
    memory_bytes: nullableCount.describe(
      'Memory of its engine; null: it is not loaded, or runs on other servers. For operators only.',
    ),
    deletes_file: z
      .boolean()
      .nullable()
      .describe(
        'Whether removing the model also deletes its file: true if the file is in the models folder and no other model uses it. For operators only.',
      ),
    tools: z.boolean().nullable().describe('Whether the model calls tools; null: unknown.'),
    reasoning: z
      .boolean()
      .nullable()
      .describe('Whether the model can reason before it answers; null: unknown.'),
  }),
);

const NOT_REPORTED = 'Null: not reported by the replica, or the replica is not ready.';

export const replica = component(
  'Replica',
  z.object({
    model: z.string(),
    name: z.string(),
    url: z.string().nullable().describe('Base URL of the server; null: an engine process of this instance.'),
    dialect: z.enum(DIALECTS),
    ...stateFields,
    state: z
      .enum([...stateFields.state.options, 'paused', 'drained'])
      .describe(
        '`paused`: ready, but requests failed, so it gets few or no requests for a while. `drained`: ready, but it gets no new requests until it is resumed.',
      ),
    drained: z
      .boolean()
      .describe(
        'Whether an operator has drained it, so that it gets no new requests, regardless of its state.',
      ),
    restartable: z
      .boolean()
      .describe('Whether it can be restarted, because it is an engine process of this instance.'),
    in_flight: count.describe('Requests of this instance that the replica is processing.'),
    slots: nullableCount.describe(
      `Number of requests that the replica can process at the same time. ${NOT_REPORTED}`,
    ),
    slots_in_use: nullableCount.describe(NOT_REPORTED),
    queued: nullableCount.describe(`Requests that are waiting for a slot in the replica. ${NOT_REPORTED}`),
    prefill: prefillProgress.describe(
      'Prompts of this instance that it has been processing for more than a second; null: none, or not reported.',
    ),
    cache_usage: z
      .number()
      .nullable()
      .describe(`Share of the KV cache that is in use, 0 to 1. ${NOT_REPORTED}`),
    tokens_per_second: z
      .number()
      .nullable()
      .describe(`Generated tokens per second, over the last few seconds. ${NOT_REPORTED}`),
    prompt_tokens: nullableCount.describe(`Total since it started. ${NOT_REPORTED}`),
    cached_tokens: nullableCount.describe(
      `Prompt tokens that were read from its prefix cache. ${NOT_REPORTED}`,
    ),
    completion_tokens: nullableCount.describe(`Total since it started. ${NOT_REPORTED}`),
    draft_tokens: nullableCount.describe(`Tokens that it has drafted from repetitions. ${NOT_REPORTED}`),
    accepted_draft_tokens: nullableCount.describe(
      `Drafted tokens that became completion tokens. ${NOT_REPORTED}`,
    ),
    memory_bytes: nullableCount.describe(`Resident memory of the process. ${NOT_REPORTED}`),
    conversations: z
      .object({
        entries: count,
        bytes: count.describe('Size of their files.'),
        saves: count.describe('Total since it started.'),
        loads: count.describe(
          'Total since it started: conversations that did not have to be computed again.',
        ),
        load_ms: count.describe('Total time of the loads, in milliseconds.'),
      })
      .nullable()
      .describe('Conversations that lost their slot and are kept in files; null: none are kept.'),
    restarts: nullableCount.describe('Number of restarts; null: not an engine process of this instance.'),
    started_at: time
      .nullable()
      .describe('When it became ready; null: not ready, or not an engine process of this instance.'),
    backend: z.string().nullable().describe('Compute backend; null: unknown.'),
    output: z
      .array(z.string())
      .describe(
        'The last lines that the process wrote, at most 30. Empty if it is not a process of this instance, or was unloaded.',
      ),
  }),
);

const recommendedModel = z.object({
  id: z.string(),
  size_bytes: count.describe('Size of the download.'),
  memory_bytes: count.describe('Memory with the default slots and context.'),
});

const second = z.object({
  at: time.describe('Start of the second; ISO 8601 in UTC.'),
  requests: count.describe('Requests that ended in this second.'),
  errors: count.describe('Requests that ended with an error.'),
  prompt_tokens: count,
  completion_tokens: count,
  ttft_ms: z
    .object({ p50: z.number(), p95: z.number() })
    .nullable()
    .describe(
      'Time to first token of the requests that ended in this second or the 9 before it; null: none of them produced a token.',
    ),
});

const instances = nullableCount.describe('Number of running instances; null: unknown.');

export const accountLoad = z.object({
  model: z.string(),
  account_id: z.string(),
  account_name: z.string().nullable().describe('Null: unknown, because the database does not respond.'),
  running: count.describe('Requests that replicas are processing.'),
  waiting: count.describe('Requests that are waiting until a replica has room.'),
  weight: z.number().describe("`weight` of the account's plan, as of its last request."),
});

/** The load of this instance. */
const load = component(
  'Load',
  z.object({
    instance: z.string().describe('ID of the instance that sent this response.'),
    instances,
    in_flight: count.describe('Requests of this instance that replicas are processing.'),
    waiting: count.describe('Requests of this instance that are waiting until a replica has room.'),
    accounts: z
      .array(accountLoad)
      .describe(
        'Accounts with running or waiting requests, per model, those with the most waiting requests first; at most 100.',
      ),
    seconds: z.array(second).describe('The last 300 full seconds of this instance, oldest first.'),
  }),
);

/** The state of the service's dependencies. */
const health = component(
  'Health',
  z.object({
    version: z.string(),
    node_version: z.string(),
    started_at: time.describe('When this instance was started; ISO 8601 in UTC.'),
    instance: z.string().describe('ID of the instance that sent this response.'),
    instances,
    database: z.object({
      kind: z.enum(['sqlite', 'postgres']),
      reachable: z.boolean(),
      writable: z.boolean(),
    }),
    ledger: z.object({
      writable: z.boolean(),
      failing_for_ms: nullableCount.describe(
        'How long the ledger has been unwritable, in milliseconds; null: it is writable.',
      ),
      waiting: count.describe('Requests that have ended and are not saved yet.'),
      reason: z.string().nullable(),
    }),
    refused_requests: z
      .array(
        z.object({
          request_id: z.string().describe('ID that this request had when it last crashed the engine.'),
          account_id: z.string(),
          key_id: z.string(),
          model: z.string(),
          crashes: count.describe('Number of engine crashes while this request was running.'),
          refused_until: time.describe('When the request is accepted again; ISO 8601 in UTC.'),
        }),
      )
      .describe(
        'Requests that this instance refuses with `request_crashed_engine`, oldest crash first; at most 1000.',
      ),
    limits_store: z.object({
      kind: z.enum(['memory', 'valkey']).describe('`memory`: limits are counted in this process.'),
      reachable: z.boolean(),
    }),
    disk: z
      .object({ free_bytes: nullableCount, total_bytes: nullableCount })
      .describe('Disk of the data directory.'),
    backup: z
      .object({
        every_hours: count,
        keep: count.describe('Number of backups to keep.'),
        last_at: time.nullable().describe('When the latest backup was made; ISO 8601 in UTC; null: never.'),
        failed_at: time
          .nullable()
          .describe('When the latest attempt failed; ISO 8601 in UTC; null: it succeeded.'),
        reason: z.string().nullable().describe('Why the latest attempt failed; null: it succeeded.'),
      })
      .nullable()
      .describe('Scheduled backups of this instance; null: off.'),
    mail: z.boolean().describe('Whether an SMTP server is configured.'),
    providers: z.array(z.string()).describe('Names of the configured sign-in providers.'),
    recommended_model: recommendedModel
      .nullable()
      .describe(
        'A model of the catalog that is better than the default one and fits this machine; null: none fits, or other models are configured.',
      ),
  }),
);

const replicaReference = component(
  'ReplicaReference',
  z.strictObject({
    model: filterText.describe('ID of the model.'),
    name: filterText.describe('Name of the replica, as in the list of engines.'),
  }),
);

/** Models, engines, load and health of the service. */
export const serviceOperations = operations({
  listServedModels: {
    route: 'GET /api/models',
    summary: 'List all models, ready or not. A key only sees the models that it may use.',
    access: 'any',
    response: pageOf('ServedModelPage', servedModel),
  },
  listEngines: {
    route: 'GET /api/engines',
    summary: 'List the replicas of all models, with their state and load.',
    access: 'operator',
    response: pageOf('ReplicaPage', replica),
  },
  restartEngine: {
    route: 'POST /api/engines/restart',
    summary:
      'Restart an engine process of this instance. Running requests have 10 seconds to finish; new ones are sent to other replicas or refused until it is ready.',
    access: 'operator',
    body: replicaReference,
    response: replica,
    errors: ['model_not_found', 'not_found', 'conflict'],
  },
  drainReplica: {
    route: 'POST /api/engines/drain',
    summary:
      'Stop sending new requests to a replica, on all instances. Running requests finish. Other instances apply this within a second.',
    access: 'operator',
    body: replicaReference,
    response: replica,
    errors: ['model_not_found', 'not_found'],
  },
  resumeReplica: {
    route: 'POST /api/engines/resume',
    summary: 'Send requests to a drained replica again.',
    access: 'operator',
    body: replicaReference,
    response: replica,
    errors: ['model_not_found', 'not_found'],
  },
  readLoad: {
    route: 'GET /api/load',
    summary: 'Get the current load of this instance, by account, and its load over the last five minutes.',
    access: 'operator',
    response: load,
  },
  readHealth: {
    route: 'GET /api/health',
    summary: 'Get the health of the database, ledger, limit store, disk and mail.',
    access: 'operator',
    response: health,
  },
});
