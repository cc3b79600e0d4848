import { z } from 'zod';
import { DIALECTS } from '../../../generation.ts';
import { perMillion } from './ledger.ts';
import { operations } from './operation.ts';
import { component, pageOf, time } from './schemas.ts';

const count = z.int();
const bytes = z.int().nullable();

/** How far a model or a replica is on its way. */
const stateFields = {
  state: z.enum(['ready', 'loading', 'downloading', 'down']),
  fraction: z.number().nullable().describe('How much is loaded or downloaded, 0 to 1; null: not known.'),
  received_bytes: bytes.describe('Of a download.'),
  total_bytes: bytes.describe('Of a download; null: not known.'),
  reason: z.string().nullable().describe('Why it is down or paused; for operators only.'),
  retry_in_ms: z
    .int()
    .nullable()
    .describe('When it is tried again, in milliseconds; null: not by itself, or there is no need.'),
};

/** A model of the configuration. */
export const servedModel = component(
  'ServedModel',
  z.object({
    id: z.string(),
    ...stateFields,
    state: stateFields.state.describe('Of the replica that is furthest.'),
    required: z
      .boolean()
      .describe('The service is ready only when this model is. With none, any one will do.'),
    waiting: count.describe('Requests that have no slot yet.'),
    in_flight: count.describe('Requests that replicas have.'),
    replicas: count,
    replicas_ready: count,
    pricing: z.object({ prompt: perMillion, completion: perMillion }),
    context_length: z.int().nullable().describe('In tokens; this and what follows: null while not known.'),
    max_completion_tokens: z.int().nullable(),
    quantization: z.string().nullable(),
    modality: z.string().nullable(),
    instruct_type: z.string().nullable(),
  }),
);

const told = 'Null: the replica does not tell, or is not ready.';

/** A replica of a model. */
export const engine = component(
  'Engine',
  z.object({
    model: z.string(),
    name: z.string(),
    dialect: z.enum(DIALECTS),
    ...stateFields,
    state: z
      .enum([...stateFields.state.options, 'paused'])
      .describe('`paused`: it is ready, its last requests failed, and it gets few or none for a while.'),
    in_flight: count.describe('Requests that this copy of the service has there.'),
    slots: z.int().nullable().describe(`Requests that it generates at once. ${told}`),
    slots_in_use: z.int().nullable().describe(told),
    queued: z.int().nullable().describe(`Requests that wait in it for a slot. ${told}`),
    tokens_per_second: z
      .number()
      .nullable()
      .describe(`Tokens generated a second, of the last seconds. ${told}`),
    prompt_tokens: z.int().nullable().describe(`Since it started. ${told}`),
    cached_tokens: z
      .int()
      .nullable()
      .describe(`Those of the prompt tokens that its prefix cache held. ${told}`),
    completion_tokens: z.int().nullable().describe(`Since it started. ${told}`),
    memory_bytes: bytes.describe(`Resident memory of its process. ${told}`),
    restarts: z.int().nullable().describe('How often it ended and was started again; null: not ours.'),
    started_at: time.nullable().describe('Since when it is ready; null: it is not, or is not ours.'),
    backend: z.string().nullable().describe('What it computes on; null: not known.'),
  }),
);

const second = z.object({
  at: time.describe('When it began; ISO 8601 in UTC.'),
  requests: count.describe('Requests that ended in it.'),
  errors: count.describe('Those of them that ended with an error.'),
  prompt_tokens: count,
  completion_tokens: count,
  ttft_ms: z
    .number()
    .nullable()
    .describe('Time to the first token, the median; null: no request of this second had one.'),
});

const copies = z.int().nullable().describe('How many copies of the service live; null: not known now.');

/** The load of this copy of the service. */
const load = component(
  'Load',
  z.object({
    copy: z.string().describe('The copy of the service that answers.'),
    copies,
    in_flight: count.describe('Requests that this copy has at replicas.'),
    waiting: count.describe('Requests of this copy that have no slot yet.'),
    seconds: z.array(second).describe('The last 300 whole seconds of this copy, the oldest first.'),
  }),
);

/** Whether all that the service stands on is well. */
const health = component(
  'Health',
  z.object({
    version: z.string(),
    node_version: z.string(),
    started_at: time.describe('When this copy of the service was started; ISO 8601 in UTC.'),
    copy: z.string().describe('The copy of the service that answers.'),
    copies,
    database: z.object({
      kind: z.enum(['sqlite', 'postgres']),
      reachable: z.boolean(),
      writable: z.boolean(),
    }),
    ledger: z.object({
      writable: z.boolean(),
      failing_for_ms: z.int().nullable().describe('For how long it could not be written.'),
      waiting: count.describe('Requests that have ended and are not written yet.'),
      reason: z.string().nullable(),
    }),
    refused_requests: z
      .array(
        z.object({
          request_id: z.string().describe('Of the last time that it was running in a crash.'),
          account_id: z.string(),
          key_id: z.string(),
          model: z.string(),
          crashes: count.describe('Crashes of an engine in which the same request was running.'),
          refused_until: time.describe('When it is accepted again; ISO 8601 in UTC.'),
        }),
      )
      .describe(
        'Requests that this instance refuses with `request_crashed_engine`, the oldest crash first; at most 1000.',
      ),
    limits_store: z.object({
      kind: z.enum(['memory', 'valkey']).describe('`memory`: counted in this process.'),
      reachable: z.boolean(),
    }),
    disk: z.object({ free_bytes: bytes, total_bytes: bytes }).describe('Where the home of the service is.'),
    mail: z.boolean().describe('Whether an SMTP server is configured.'),
    providers: z.array(z.string()).describe('Names of the providers that people may sign in with.'),
  }),
);

/** The service itself: its models, engines, load and health. */
export const serviceOperations = operations({
  listServedModels: {
    method: 'GET',
    path: '/api/models',
    summary: 'List every model of the configuration, ready or not; a key sees those that it may use.',
    access: 'any',
    answer: pageOf('ServedModelPage', servedModel),
  },
  listEngines: {
    method: 'GET',
    path: '/api/engines',
    summary: 'List every replica of every model, with its state and numbers.',
    access: 'operator',
    answer: pageOf('EnginePage', engine),
  },
  readLoad: {
    method: 'GET',
    path: '/api/load',
    summary: 'Tell what this copy of the service does now, and did in the last five minutes.',
    access: 'operator',
    answer: load,
  },
  readHealth: {
    method: 'GET',
    path: '/api/health',
    summary: 'Tell whether all that the service stands on is well.',
    access: 'operator',
    answer: health,
  },
});
