import { isIP } from 'node:net';
import { z } from 'zod';
import type { Secret } from '../secret.ts';
import { backupSchema } from './backup.ts';
import { consoleSchema, signInSchema, smtpSchema } from './sign-in.ts';
import { engineTimeoutsSchema } from './engine-timeouts.ts';
import { idempotencySchema } from './idempotency.ts';
import { DEFAULT_PLANS, modelId, planSchema } from './plan.ts';
import { replicaSchema } from './replica.ts';
import { metricsSchema } from './metrics.ts';
import { recoverySchema } from './recovery.ts';
import { aliasesSchema, retrySchema, routingSchema } from './routing.ts';
import { recommendedSampling } from './sampling.ts';
import type { TracingConfig } from './tracing.ts';
import { httpUrl, milliseconds, uniqueIds } from './values.ts';

/**
 * The schema of the configuration file. `docs/configuration.md` repeats the descriptions. Field names end with their
 * unit.
 */

const decimal = z
  .string()
  .regex(/^\d{1,9}(\.\d{1,6})?$/, 'expected a decimal string with at most 6 decimals, such as "0.15"')
  .describe('USD per million tokens, a decimal string with at most 6 decimals.');

function isAddressOrBlock(text: string): boolean {
  const [address = '', bits, ...more] = text.split('/');
  const family = isIP(address);
  if (family === 0 || more.length > 0) return false;
  return bits === undefined || (/^\d{1,3}$/.test(bits) && Number(bits) <= (family === 4 ? 32 : 128));
}

const engine = z.strictObject({
  file: z
    .string()
    .min(1)
    .optional()
    .describe(
      'The model file: `hf:owner/repo/file.gguf[@revision]`, an `https://` URL, a path (relative to the configuration file), or `scripted:` for a test engine without a model. Default: the file that the catalog has for this ID.',
    ),
  slots: z
    .int()
    .min(1)
    .max(64)
    .optional()
    .describe(
      'Number of requests that generate at the same time. Memory use grows with slots x contextTokens. Default: at most 8, depending on the model and the available memory.',
    ),
  contextTokens: z
    .int()
    .min(128)
    .max(1_048_576)
    .optional()
    .describe(
      "Context length of each slot: tokens of prompt and completion together. Default: depends on the model and the available memory; at most 4096, and at most the model's own context length.",
    ),
  threads: z
    .int()
    .min(1)
    .max(256)
    .optional()
    .describe('CPU threads. Default: physical cores within the cgroup quota.'),
  gpuLayers: z
    .union([z.int().min(0).max(10_000), z.literal('auto')])
    .default('auto')
    .describe(
      'Number of layers on the GPU; "auto": as many layers as fit in the free GPU memory, or none without a GPU package.',
    ),
});

export const modelSchema = z
  .strictObject({
    id: modelId.describe('Model ID that callers send, `<namespace>/<model_name>`.'),
    required: z
      .boolean()
      .default(false)
      .describe(
        'Whether `GET /readyz` waits for this model. If no model is required, the service is ready as soon as any model is.',
      ),
    engine: engine.optional().describe('Settings of the embedded llama.cpp engine.'),
    replicas: z
      .array(replicaSchema)
      .min(1)
      .optional()
      .describe('Servers that run this model, instead of the embedded engine.'),
    pricing: z
      .strictObject({ prompt: decimal.default('0'), completion: decimal.default('0') })
      .prefault({})
      .describe('Prices of requests, which `GET /v1/models` also lists.'),
    instructType: z
      .string()
      .nullable()
      .optional()
      .describe(
        "`architecture.instruct_type` in the model list. Default: derived from the model's chat template, or null.",
      ),
    modality: z.string().default('text->text').describe('`architecture.modality` in the model list.'),
    tokenizer: z
      .string()
      .optional()
      .describe(
        '`architecture.tokenizer` in the model list. Default: the tokenizer family of the GGUF file, or what the replica reports.',
      ),
    quantization: z
      .string()
      .optional()
      .describe(
        '`quantization` in the model list. Default: the file type of the GGUF file, or what the replica reports.',
      ),
    contextTokens: z
      .int()
      .min(1)
      .optional()
      .describe(
        '`context_length` in the model list. Set it for replicas that do not report theirs, or to advertise a shorter context.',
      ),
    maxCompletionTokens: z
      .int()
      .min(1)
      .optional()
      .describe('Maximum tokens of one completion. Default: the context length.'),
    recommendedSampling,
    tools: z
      .boolean()
      .optional()
      .describe('Whether the model calls tools. Default: from the catalog, or unknown.'),
    reasoning: z
      .boolean()
      .optional()
      .describe('Whether the model can reason before it answers. Default: from the catalog, or unknown.'),
    ownedBy: z
      .string()
      .optional()
      .describe('`owned_by` in the model list. Default: the namespace of the ID.'),
  })
  .refine((value) => value.engine === undefined || value.replicas === undefined, {
    error: 'expected either `engine` or `replicas`, not both',
    path: ['replicas'],
  })
  .refine(
    (value) => new Set(namedReplicas(value).map(({ name }) => name)).size === (value.replicas ?? []).length,
    {
      error: 'expected replicas with different names',
      path: ['replicas'],
    },
  )
  // A model with neither `engine` nor `replicas` is a catalog model that runs on the embedded engine.
  .transform((value) =>
    value.engine === undefined && value.replicas === undefined
      ? { ...value, engine: engine.parse({}) }
      : value,
  );

/** The default model: small and openly licensed. */
export const DEFAULT_MODEL_ID = 'HuggingFaceTB/SmolLM2-135M-Instruct';

/** Whether a URL has no path, query, fragment or user. Other checks report text that is not a URL. */
function isOrigin(text: string): boolean {
  const url = URL.parse(text);
  return url === null || url.href === `${url.origin}/`;
}

/** The public URL of a service, without a slash at its end. */
export const publicUrl = httpUrl
  .refine(
    isOrigin,
    'expected only a scheme and a host, such as "https://llm.example.org"; the console does not work under a path',
  )
  .transform((url) => new URL(url).origin);

const configFields = z.strictObject({
  publicUrl: publicUrl
    .optional()
    .describe(
      'Public URL of the service, without a path, if it differs from the address it listens on. Default: http://host:port.',
    ),
  trustedProxies: z
    .array(
      z.string().refine(isAddressOrBlock, 'expected an IP address or a CIDR block, such as "10.0.0.0/8"'),
    )
    .default([])
    .describe('IP addresses or CIDR blocks of proxies whose `X-Forwarded-For` header is trusted.'),
  requireKeyForModels: z.boolean().default(false).describe('Whether `GET /v1/models` requires an API key.'),
  drainMs: milliseconds(30_000).describe(
    'How long running requests may take to finish after SIGTERM, or after their model or replica on another server was removed, in milliseconds.',
  ),
  logLevel: z
    .enum(['fatal', 'error', 'warn', 'info', 'debug', 'silent'])
    .default('info')
    .describe('Minimum level of log lines.'),
  logFormat: z
    .enum(['json', 'human'])
    .optional()
    .describe(
      'Format of the log: JSON lines, or short lines for people. Default: `human` if standard error is a terminal, otherwise `json`.',
    ),
  models: z
    .array(modelSchema)
    .min(1)
    .default([modelSchema.parse({ id: DEFAULT_MODEL_ID, engine: {} })])
    .superRefine(uniqueIds('expected a unique model ID'))
    .describe(`Models to serve. Default: \`${DEFAULT_MODEL_ID}\`, embedded.`),
  aliases: aliasesSchema,
  plans: z
    .record(
      z
        .string()
        .regex(
          /^[a-z0-9][a-z0-9_-]{0,63}$/,
          'expected a plan name of lowercase letters, digits, "_" and "-"',
        ),
      planSchema,
    )
    .default(DEFAULT_PLANS)
    .describe('Plans by name. A plan limits what the keys of an account may use.'),
  defaultPlan: z.string().default('standard').describe('Plan of accounts without an assigned plan.'),
  keys: z
    .strictObject({
      maxStaleMs: milliseconds(5000, 1000).describe(
        'How long cached keys are accepted while the database does not respond, in milliseconds; after that, 503 `storage_unavailable`.',
      ),
      maxPerAccount: z
        .int()
        .min(1)
        .max(100_000)
        .default(1000)
        .describe(
          'Maximum keys of an account that are neither revoked nor expired, including those of the playground. The command line can exceed it.',
        ),
      maxCreatedPerHour: z
        .int()
        .min(1)
        .max(100_000)
        .default(500)
        .describe(
          'Maximum keys that can be created in an account within an hour; after that, 429 `too_many_keys`. The command line can exceed it.',
        ),
    })
    .prefault({})
    .describe('API keys.'),
  ledger: z
    .strictObject({
      checkpointMs: milliseconds(1000, 10).describe(
        'Interval at which the token counts of a running request are saved, in milliseconds.',
      ),
      checkpointTokens: z
        .int()
        .min(1)
        .max(1_000_000)
        .default(256)
        .describe('Completion tokens after which the counts are saved, if reached before `checkpointMs`.'),
      settleWaitMs: milliseconds(10_000, 10).describe(
        'How long the end of a response waits for its ledger row to be saved, in milliseconds; after that, the response ends with `storage_unavailable`.',
      ),
      leaseMs: milliseconds(10_000, 500).describe(
        'How long an instance may go without a heartbeat, in milliseconds; after that, another instance settles its open requests.',
      ),
      keepDays: z
        .int()
        .min(1)
        .max(36_500)
        .optional()
        .describe('Number of days to keep ledger rows; daily roll-ups are kept forever. Default: forever.'),
    })
    .prefault({})
    .describe('The request ledger.'),
  queue: z
    .strictObject({
      maxRequests: z
        .int()
        .min(1)
        .max(100_000)
        .default(256)
        .describe(
          'Maximum number of requests of one model that wait until a replica has room. If there are more, the account with the most gets 503 `queue_full` for its latest one.',
        ),
      maxWaitMs: milliseconds(60_000, 1).describe(
        'How long a request may wait in the queue, in milliseconds; after that, 503 `queue_full`, or `engine_unavailable` if its model is still being loaded. The wait ends when the request is sent to a replica.',
      ),
    })
    .prefault({})
    .describe('The queue of each model.'),
  routing: routingSchema,
  retry: retrySchema,
  recovery: recoverySchema,
  backup: backupSchema,
  audit: z
    .strictObject({
      keepDays: z
        .int()
        .min(1)
        .max(36_500)
        .optional()
        .describe('Number of days for which the entries of the audit log are kept. Default: forever.'),
    })
    .prefault({})
    .describe('The audit log.'),
  limits: z
    .strictObject({
      bodyBytes: z
        .int()
        .min(1024)
        .max(1_073_741_824)
        .default(10_485_760)
        .describe('Maximum size of a request body, in bytes; larger ones get 413.'),
      bodyBytesInMemory: z
        .int()
        .min(1024)
        .optional()
        .describe(
          'Maximum total size of request bodies in memory, in bytes; additional requests get 503, or 429 if one account uses more than a quarter. At least `limits.bodyBytes`. Default: a tenth of the memory of the machine or container.',
        ),
      headerBytes: z
        .int()
        .min(1024)
        .max(1_048_576)
        .default(16_384)
        .describe('Maximum size of request headers, in bytes; larger ones get 431.'),
      drainBytes: z
        .int()
        .min(0)
        .max(1_073_741_824)
        .default(16_777_216)
        .describe('How much of the body of a refused request is read and discarded, in bytes.'),
      // At most an hour: queries of usage by hour assume it.
      bodyMs: milliseconds(30_000, 100, 3_600_000).describe(
        'How long a request may take to arrive, from its first byte, in milliseconds; after that, 408.',
      ),
      idleConnectionMs: milliseconds(75_000, 1000).describe(
        'How long a connection may stay open without a request, in milliseconds. Sent as `Keep-Alive: timeout=`.',
      ),
      choices: z
        .int()
        .min(1)
        .max(128)
        .default(16)
        .describe('Maximum number of choices of one request: number of prompts × `n`.'),
      connections: z
        .int()
        .min(1)
        .max(1_000_000)
        .default(10_000)
        .describe('Maximum number of open connections.'),
      reservedShare: z
        .number()
        .min(0.001)
        .max(1)
        .default(0.05)
        .describe(
          'Maximum share of the tokens-per-minute bucket that one request reserves on admission. The difference from its actual usage is settled when it ends.',
        ),
      whenStoreUnavailable: z
        .enum(['local', 'refuse'])
        .default('local')
        .describe(
          'Behavior while Valkey or Redis does not respond. `local`: each instance applies its share of the limits. `refuse`: requests are refused.',
        ),
    })
    .refine(({ bodyBytes, bodyBytesInMemory = Infinity }) => bodyBytesInMemory >= bodyBytes, {
      error: 'expected at least `limits.bodyBytes`',
      path: ['bodyBytesInMemory'],
    })
    .prefault({})
    .describe('Limits on requests and connections, and settings for applying plan limits.'),
  stream: z
    .strictObject({
      holdMs: milliseconds(10_000, 1).describe(
        'How long a stream waits for the first result of the engine before its status is sent, in milliseconds; after that, 200 and keep-alive comments are sent.',
      ),
      keepAliveMs: milliseconds(10_000, 1).describe(
        'Time without data after which a keep-alive comment is sent, in milliseconds.',
      ),
      stallMs: milliseconds(30_000, 1).describe(
        'How long a client may stop reading a response, in milliseconds; after that, its connection is closed.',
      ),
    })
    .prefault({})
    .describe('Server-sent events.'),
  idempotency: idempotencySchema,
  engine: engineTimeoutsSchema,
  metrics: metricsSchema,
  console: consoleSchema,
  signIn: signInSchema,
  smtp: smtpSchema,
});

export const configSchema = configFields
  .refine((file) => Object.hasOwn(file.plans, file.defaultPlan), {
    error: 'expected the name of a plan in `plans`',
    path: ['defaultPlan'],
  })
  .superRefine(({ models, aliases }, context) => {
    for (const { id } of models) {
      if (!Object.hasOwn(aliases, id)) continue;
      context.addIssue({
        code: 'custom',
        message: 'expected a name that is not the ID of a model',
        path: ['aliases', id],
      });
    }
  });

/** The parsed file, with defaults. */
export type ConfigFile = z.output<typeof configSchema>;
export type ModelConfig = ConfigFile['models'][number];
export type EngineConfig = NonNullable<ModelConfig['engine']>;
export type ProviderConfig = ConfigFile['signIn']['providers'][number];
export type SmtpConfig = NonNullable<ConfigFile['smtp']>;
export type BackupConfig = NonNullable<ConfigFile['backup']>;
export type ReplicaConfig = z.output<typeof replicaSchema>;

/** A replica with its name, which is unique among the replicas of its model. */
export type NamedReplica = ReplicaConfig & { name: string };

/** Returns the replicas of a model. By default, a name has the position of the replica. */
export function namedReplicas(model: {
  id: string;
  replicas?: readonly ReplicaConfig[] | undefined;
}): NamedReplica[] {
  const { id, replicas = [] } = model;
  return replicas.map((replica, index) => ({ ...replica, name: replica.name ?? `${id}#${index}` }));
}

/** All settings of the service, from the file and the environment. */
export interface Config {
  file: ConfigFile;
  /** Path of the configuration file. Null if there is none; the defaults apply. */
  configPath: string | null;
  host: string;
  /** 0 for any free port. */
  port: number;
  /** Absolute path of the data directory. */
  home: string;
  /** URL of the PostgreSQL database; null for SQLite in the data directory. May contain a password. */
  databaseUrl: Secret | null;
  /** URL of Valkey or Redis for limits; null for limits in memory. May contain a password. */
  valkeyUrl: Secret | null;
  /** Keys that encrypt secrets in the database; null: they are in a file of the data directory. */
  secretKey: Secret | null;
  /** Destination of traces; null: none. */
  tracing: TracingConfig | null;
}
