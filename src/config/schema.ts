import { isIP } from 'node:net';
import { z } from 'zod';
import { DIALECTS } from '../generation.ts';
import type { Secret } from '../secret.ts';
import { consoleSchema, signInSchema, smtpSchema, variableName } from './sign-in.ts';
import { modelId, planSchema } from './plan.ts';

/**
 * The configuration file, field by field. Each field carries its description, from which
 * `docs/configuration.md` is checked and `sluice config print --help` speaks; units stand last in the names.
 */

const decimal = z
  .string()
  .regex(/^\d{1,9}(\.\d{1,6})?$/, 'expected a decimal string with at most 6 decimals, such as "0.15"')
  .describe('USD per million tokens, a decimal string with at most 6 decimals.');

const milliseconds = (fallback: number, min = 0) => z.int().min(min).max(86_400_000).default(fallback);

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
      'The model file: `hf:owner/repo/file.gguf[@revision]`, an `https://` address, a path (relative to the configuration file), or `scripted:` for a rehearsed engine that needs no file. Left out: the file of the catalogue for this id.',
    ),
  slots: z
    .int()
    .min(1)
    .max(64)
    .default(8)
    .describe('Requests that generate at once. Memory grows with slots x contextTokens.'),
  contextTokens: z
    .int()
    .min(128)
    .max(1_048_576)
    .optional()
    .describe(
      'Tokens that one slot holds, prompt and completion together. Left out: what the model was trained with, at most 4096.',
    ),
  threads: z
    .int()
    .min(1)
    .max(256)
    .optional()
    .describe('CPU threads of a decode step. Left out: physical cores within the cgroup quota.'),
  gpuLayers: z
    .union([z.int().min(0).max(10_000), z.literal('auto')])
    .default('auto')
    .describe('Layers kept on the GPU; "auto": all of them where a GPU package is installed, none on CPU.'),
});

const replica = z.strictObject({
  url: z
    .url({ protocol: /^https?$/, error: 'expected an http:// or https:// address' })
    .describe('Base address of an OpenAI-compatible server, with or without `/v1`.'),
  dialect: z
    .enum(DIALECTS)
    .describe('Which server it is: `vllm`, `sglang`, `llama-server`, `tgi` or `sluice`.'),
  apiKeyEnv: variableName
    .optional()
    .describe('Name of the environment variable that holds the key sent to it. Left out: no key is sent.'),
  model: z.string().min(1).optional().describe("The model's name at the replica. Left out: the id here."),
  sharedPrefixCache: z
    .boolean()
    .default(false)
    .describe(
      'Whether accounts may share a prefix cache where the server cannot keep them apart. False turns the cache off for such a server.',
    ),
  exactCounts: z
    .boolean()
    .default(false)
    .describe(
      'Whether whole responses are asked for as streams, so that a caller who disconnects pays exactly the tokens that were generated, at the cost of CPU per token. False: they are estimated.',
    ),
});

const model = z
  .strictObject({
    id: modelId.describe('Model id, `<namespace>/<model_name>`, as callers name it.'),
    required: z
      .boolean()
      .default(false)
      .describe('Whether `/readyz` waits for this model. With none marked, any one model is enough.'),
    engine: engine.optional().describe('Generate with llama.cpp, embedded.'),
    replicas: z.array(replica).min(1).optional().describe('Generate with these servers instead.'),
    pricing: z
      .strictObject({ prompt: decimal.default('0'), completion: decimal.default('0') })
      .prefault({})
      .describe('Prices, as the list tells them.'),
    instructType: z
      .string()
      .nullable()
      .optional()
      .describe(
        "`architecture.instruct_type` of the list. Left out: told by the model's chat template, or null.",
      ),
    modality: z.string().default('text->text').describe('`architecture.modality` of the list.'),
    tokenizer: z
      .string()
      .optional()
      .describe(
        '`architecture.tokenizer` of the list. Left out: the tokenizer family of the GGUF, or what the replica tells.',
      ),
    quantization: z
      .string()
      .optional()
      .describe(
        '`quantization` of the list. Left out: the file type of the GGUF, or what the replica tells.',
      ),
    contextTokens: z
      .int()
      .min(1)
      .optional()
      .describe('`context_length` of the list, for replicas that do not tell theirs, or to promise less.'),
    maxCompletionTokens: z
      .int()
      .min(1)
      .optional()
      .describe('Most tokens that one completion can have. Left out: the context length.'),
    ownedBy: z.string().optional().describe('`owned_by` of the list. Left out: the namespace of the id.'),
  })
  .refine((value) => value.engine === undefined || value.replicas === undefined, {
    error: 'expected either `engine` or `replicas`, not both',
    path: ['replicas'],
  })
  // A model that says nothing of how is one of the catalogue.
  .transform((value) =>
    value.engine === undefined && value.replicas === undefined
      ? { ...value, engine: engine.parse({}) }
      : value,
  );

/** The plans where the configuration has none. Generous: they are for one's own machine. */
const EXAMPLE_PLANS = {
  free: {
    requestsPerMinute: 20,
    tokensPerMinute: 20_000,
    requestsInFlight: 4,
    tokensPerDay: 500_000,
    usdPerMonth: '5',
  },
  standard: { requestsPerMinute: 6000, tokensPerMinute: 100_000_000, requestsInFlight: 1000 },
  unlimited: {},
};

/** The default model: small, openly licensed, good enough to see that everything works. */
export const DEFAULT_MODEL_ID = 'HuggingFaceTB/SmolLM2-135M-Instruct';

const configFields = z.strictObject({
  publicUrl: z
    .url({ protocol: /^https?$/, error: 'expected an http:// or https:// address' })
    .optional()
    .describe(
      'The address callers use, when it is not the one the service listens on. Left out: http://host:port.',
    ),
  trustedProxies: z
    .array(
      z.string().refine(isAddressOrBlock, 'expected an IP address or a CIDR block, such as "10.0.0.0/8"'),
    )
    .default([])
    .describe('Addresses or CIDR blocks of proxies whose `X-Forwarded-For` is believed.'),
  requireKeyForModels: z.boolean().default(false).describe('Whether `GET /v1/models` needs a key.'),
  drainMs: milliseconds(30_000).describe(
    'How long running requests may go on after SIGTERM, in milliseconds.',
  ),
  logLevel: z
    .enum(['fatal', 'error', 'warn', 'info', 'debug', 'silent'])
    .default('info')
    .describe('Least severe log line that is written.'),
  models: z
    .array(model)
    .min(1)
    .default([model.parse({ id: DEFAULT_MODEL_ID, engine: {} })])
    .superRefine((list, context) => {
      const seen = new Set<string>();
      for (const [index, { id }] of list.entries()) {
        if (seen.has(id)) {
          context.addIssue({
            code: 'custom',
            message: 'expected every model id once',
            path: [index, 'id'],
          });
        }
        seen.add(id);
      }
    })
    .describe(`The models served. Left out: \`${DEFAULT_MODEL_ID}\`, embedded.`),
  plans: z
    .record(
      z.string().regex(/^[a-z0-9][a-z0-9_-]{0,63}$/, 'expected lower-case letters, digits, "_" and "-"'),
      planSchema,
    )
    .default(EXAMPLE_PLANS)
    .describe('What the keys of an account may use, by the name of its plan.'),
  defaultPlan: z.string().default('standard').describe('The plan of accounts that have none of their own.'),
  keys: z
    .strictObject({
      maxStaleMs: milliseconds(5000, 1000).describe(
        'How long keys are trusted while the database does not answer, in milliseconds; then 503 `storage_unavailable`.',
      ),
    })
    .prefault({})
    .describe('API keys.'),
  ledger: z
    .strictObject({
      checkpointMs: milliseconds(1000, 10).describe(
        'How often the count of a running request is written, in milliseconds.',
      ),
      checkpointTokens: z
        .int()
        .min(1)
        .max(1_000_000)
        .default(256)
        .describe('Completion tokens after which it is written earlier than that.'),
      settleWaitMs: milliseconds(10_000, 10).describe(
        'How long the end of an answer waits for its row to be written, in milliseconds; then the answer ends with `storage_unavailable`.',
      ),
      leaseMs: milliseconds(10_000, 500).describe(
        'How long a copy of the service that says nothing keeps its open rows, in milliseconds; then another settles them.',
      ),
      keepDays: z
        .int()
        .min(1)
        .max(36_500)
        .optional()
        .describe('Days for which rows are kept; sums a day stay. Left out: for ever.'),
    })
    .prefault({})
    .describe('The ledger of requests.'),
  queue: z
    .strictObject({
      maxRequests: z
        .int()
        .min(1)
        .max(100_000)
        .default(256)
        .describe('Requests that may wait for a slot of one model; one more is 503 `queue_full`.'),
      maxWaitMs: milliseconds(60_000, 1).describe(
        'How long a request may wait for a slot, or to be sent to a server that does not report slots, in milliseconds; then 503 `queue_full`.',
      ),
    })
    .prefault({})
    .describe('The queue in front of each model.'),
  limits: z
    .strictObject({
      bodyBytes: z
        .int()
        .min(1024)
        .max(1_073_741_824)
        .default(10_485_760)
        .describe('Largest request body, in bytes; more is 413.'),
      bodyBytesInMemory: z
        .int()
        .min(1024)
        .optional()
        .describe(
          'Most bytes of request bodies in memory at once, in bytes; more is 503, and 429 where one account has more than a quarter. At least `limits.bodyBytes`. Left out: a tenth of the memory of the machine or container.',
        ),
      headerBytes: z
        .int()
        .min(1024)
        .max(1_048_576)
        .default(16_384)
        .describe('Largest request headers, in bytes; more is 431.'),
      drainBytes: z
        .int()
        .min(0)
        .max(1_073_741_824)
        .default(16_777_216)
        .describe('How much of the body of a refused request is read and thrown away, in bytes.'),
      bodyMs: milliseconds(30_000, 100).describe(
        'How long a request may take to arrive, from its first byte, in milliseconds; then 408.',
      ),
      idleConnectionMs: milliseconds(75_000, 1000).describe(
        'How long a connection may stay open without a request, in milliseconds; then it is closed. Sent as `Keep-Alive: timeout=`.',
      ),
      choices: z.int().min(1).max(128).default(16).describe('Most choices of one request: prompts x `n`.'),
      connections: z.int().min(1).max(1_000_000).default(10_000).describe('Most connections open at once.'),
      reservedShare: z
        .number()
        .min(0.001)
        .max(1)
        .default(0.05)
        .describe(
          "Largest share of a minute's tokens that one request sets aside before its tokens are counted.",
        ),
      whenStoreIsAway: z
        .enum(['local', 'refuse'])
        .default('local')
        .describe(
          'What happens to limits while Valkey or Redis does not answer: each copy of the service goes on with its share (`local`), or requests are refused (`refuse`).',
        ),
    })
    .refine(({ bodyBytes, bodyBytesInMemory = Infinity }) => bodyBytesInMemory >= bodyBytes, {
      error: 'expected at least `limits.bodyBytes`',
      path: ['bodyBytesInMemory'],
    })
    .prefault({})
    .describe('Bounds of one request, and how the limits of plans are held.'),
  stream: z
    .strictObject({
      holdMs: milliseconds(10_000, 1).describe(
        "How long the status of a stream waits for the engine's word, in milliseconds; then 200 and keep-alive comments.",
      ),
      keepAliveMs: milliseconds(10_000, 1).describe(
        'Silence after which a keep-alive comment is sent, in milliseconds.',
      ),
      stallMs: milliseconds(30_000, 1).describe(
        'How long a client may read nothing of a response, in milliseconds; then its connection is closed.',
      ),
    })
    .prefault({})
    .describe('Server-sent events.'),
  engine: z
    .strictObject({
      stallMs: milliseconds(30_000, 1000).describe(
        'Least time without a step after which an embedded engine that has work is killed and restarted, in milliseconds.',
      ),
      loadStallMs: milliseconds(300_000, 1000).describe(
        'How long an embedded engine may load without progress, in milliseconds; then it is killed and restarted.',
      ),
      firstByteMs: milliseconds(300_000, 1000).describe(
        "How long a replica's first byte may take once the request was sent to it, in milliseconds.",
      ),
      silenceMs: milliseconds(120_000, 1000).describe(
        'How long a replica may be silent in the middle of an answer, in milliseconds.',
      ),
    })
    .prefault({})
    .describe('Watching the engines.'),
  console: consoleSchema,
  signIn: signInSchema,
  smtp: smtpSchema,
});

export const configSchema = configFields.refine((file) => file.defaultPlan in file.plans, {
  error: 'expected the name of one of `plans`',
  path: ['defaultPlan'],
});

/** The file as parsed, with every default filled in. */
export type ConfigFile = z.output<typeof configSchema>;
export type ModelConfig = ConfigFile['models'][number];
export type EngineConfig = NonNullable<ModelConfig['engine']>;
export type ProviderConfig = ConfigFile['signIn']['providers'][number];
export type SmtpConfig = NonNullable<ConfigFile['smtp']>;
export type ReplicaConfig = NonNullable<ModelConfig['replicas']>[number];

/** All settings of the service: the file, and what the environment says beside it. */
export interface Config {
  file: ConfigFile;
  /** Path of the configuration file; null: none was given and the defaults hold. */
  configPath: string | null;
  host: string;
  /** 0: any free port. */
  port: number;
  /** Absolute path of the folder of database, models and run files. */
  home: string;
  /** `SLUICE_DATABASE_URL`: PostgreSQL; null: SQLite in the home. It may hold a password. */
  databaseUrl: Secret | null;
  /** `SLUICE_VALKEY_URL`: Valkey or Redis for limits; null: in this process. It may hold a password. */
  valkeyUrl: Secret | null;
}
