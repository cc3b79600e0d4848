import { isIP } from 'node:net';
import { z } from 'zod';
import type { Secret } from '../support/secret.ts';
import { alertsSchema } from './alerts.ts';
import { httpUrl, modelSchema, section, serverUrl, variableName, whole } from './model.ts';
import { modelId, DEFAULT_PLANS, planSchema } from './plan.ts';

/**
 * The schema of the configuration file. `docs/configuration.md` repeats the descriptions. Field names end with their
 * unit.
 */

/** For `superRefine`: reports every element whose ID is already used by an earlier one. */
function uniqueIds(message: string) {
  return (list: readonly { id: string }[], context: z.RefinementCtx): void => {
    const ids = list.map(({ id }) => id);
    for (const [index, id] of ids.entries()) {
      if (ids.indexOf(id) !== index) context.addIssue({ code: 'custom', message, path: [index, 'id'] });
    }
  };
}

/** A duration of at most a day; `fallback` is the default. */
const milliseconds = (fallback: number, min = 0, max = 86_400_000) => whole(min, max).default(fallback);

const consoleSchema = section('The web console.', {
  enabled: z.boolean().default(true).describe('Whether the web console is served at `/`.'),
});

const smtpSchema = z
  .strictObject({
    host: z.string().min(1).describe('Host name or IP address of the mail server.'),
    port: whole(1, 65_535).default(587).describe('Port of the mail server.'),
    secure: z
      .boolean()
      .default(false)
      .describe(
        'Whether the connection uses TLS from the start, as on port 465. False: STARTTLS is required, unless the server is on this machine.',
      ),
    user: z.string().min(1).optional().describe('User name for the mail server. Default: no authentication.'),
    passwordEnv: variableName
      .optional()
      .describe('Name of the environment variable with the password of `user`.'),
    from: z
      .string()
      .regex(/^[^<>\p{Cc}]*(<[^\s<>@\p{Cc}]+@[^\s<>@\p{Cc}]+>|[^\s<>@\p{Cc}]+@[^\s<>@\p{Cc}]+)$/u, {
        error: 'expected an email address, such as "Sluice <sluice@example.org>"',
      })
      .describe('Sender address of emails.'),
  })
  .refine(({ user, passwordEnv }) => (user === undefined) === (passwordEnv === undefined), {
    error: 'expected both `user` and `passwordEnv`, or neither',
    path: ['passwordEnv'],
  })
  .optional()
  .describe(
    'Mail server for invitations, password resets and alerts. Default: none; invitations are shared as links, and users cannot request a password reset.',
  );

/** Providers that need no `issuer`. */
const BUILT_IN = ['google', 'github'];

const provider = z
  .strictObject({
    id: z
      .string()
      .regex(/^[a-z0-9][a-z0-9-]{0,31}$/, 'expected lowercase letters, digits and "-"')
      .describe(
        '`google`, `github`, or any other name for an OpenID Connect provider. The callback URL is `<publicUrl>/api/auth/callback/<id>`.',
      ),
    name: z.string().min(1).max(50).describe('Provider name on the sign-in button.'),
    issuer: serverUrl
      .optional()
      .describe(
        'Issuer URL of an OpenID Connect provider, such as `https://sso.example.org/realms/main` for Keycloak. Not used for `google` and `github`.',
      ),
    clientId: z.string().min(1).describe('Client ID of this service at the provider.'),
    clientSecretEnv: variableName.describe('Name of the environment variable with the client secret.'),
  })
  .refine(({ id, issuer }) => BUILT_IN.includes(id) === (issuer === undefined), {
    error: 'expected an issuer URL for an OpenID Connect provider, and none for `google` and `github`',
    path: ['issuer'],
  })
  .refine(({ id }) => id !== 'credential', {
    error: 'expected another name; `credential` is reserved',
    path: ['id'],
  });

const signInSchema = section('Sign-in to the console.', {
  providers: z
    .array(provider)
    .default([])
    .superRefine(uniqueIds('expected a unique ID'))
    .describe('Providers that users can sign in with, in addition to a password.'),
  allowUnknownUsers: z
    .boolean()
    .default(false)
    .describe(
      'Whether unknown users who sign in with a provider get a new account on the default plan. False: only users who were invited or created by an operator can sign in.',
    ),
});

const conversationCacheSchema = section(
  'Conversations that lost their slot in an embedded engine, and are loaded when they return.',
  {
    bytes: whole(0)
      .optional()
      .describe(
        'Maximum size of the files of each embedded engine, in bytes; 0: none are kept. Default: a tenth of what is free in the directory, and at most a tenth of the available memory on a RAM disk or 4 GiB on a disk.',
      ),
    directory: z
      .string()
      .min(1)
      .optional()
      .describe(
        'The directory for the files, relative to the configuration file. Default: `/dev/shm`, if it has room for at least 640 MiB, otherwise `run/conversations` in the data directory.',
      ),
    keepAfterRestart: z
      .boolean()
      .default(false)
      .describe(
        'Whether the files remain when an engine stops, so that conversations are fast after a restart. They contain the conversations in a form that can be read with the model.',
      ),
  },
);

const engineTimeoutsSchema = section(
  'Timeouts of engines and replicas, and the memory and files of embedded engines.',
  {
    stallMs: milliseconds(30_000, 1000).describe(
      'How long a busy embedded engine may go without progress before it is killed and restarted, in milliseconds. For slow engines the limit is 20 times what the running step takes at their speed, if that is longer.',
    ),
    loadStallMs: milliseconds(300_000, 1000).describe(
      'How long an embedded engine may load a model without progress before it is killed and restarted, in milliseconds.',
    ),
    idleUnloadMs: milliseconds(0).describe(
      'Time without requests after which an embedded model is unloaded, in milliseconds; 0: never. The next request waits until it is loaded again.',
    ),
    maxMemoryBytes: whole(1)
      .optional()
      .describe(
        'Maximum memory of all embedded models together, in bytes, on the machine and its GPUs. Default: the memory that is available on the machine.',
      ),
    minStayMs: milliseconds(10_000).describe(
      'How long an embedded model stays in memory before it may be unloaded to make room for another one, in milliseconds. A model that took longer than that to load stays as long as loading took.',
    ),
    firstByteMs: milliseconds(300_000, 1000).describe(
      'How long a replica may take to send the first chunk of a stream, in milliseconds. Comments do not count.',
    ),
    responseMs: milliseconds(3_600_000, 1000).describe(
      'How long a replica may take for a response that it does not stream, in milliseconds; after that, 504 `response_timeout`. Also how long an engine may send only keep-alives in a stream.',
    ),
    silenceMs: milliseconds(120_000, 1000).describe(
      'How long a replica may pause in the middle of a response, in milliseconds. Comments and empty chunks do not end a pause.',
    ),
    conversationCache: conversationCacheSchema,
  },
);

/** Requests with an `Idempotency-Key` header. */
const idempotencySchema = section('Requests with an `Idempotency-Key` header.', {
  keepMs: milliseconds(600_000).describe(
    'How long a response is kept after its end, in milliseconds. A repeated request with the same `Idempotency-Key` gets it again.',
  ),
  maxBytes: whole(65_536)
    .default(67_108_864)
    .describe(
      'Maximum memory for these responses, in bytes; one account may use a quarter of it, or 64 KiB if that is more. The responses that ended first are discarded first. A running response that does not fit is sent only to the clients that already receive it.',
    ),
  graceMs: milliseconds(30_000).describe(
    'How long a generation continues after its last client has disconnected, in milliseconds. A repeated request with the same `Idempotency-Key` can get the rest.',
  ),
});

const metricsSchema = section('Metrics for Prometheus.', {
  port: whole(0, 65_535)
    .optional()
    .describe(
      'Port on which `GET /metrics` is served without a key; 0 selects a free port. Default: none. The port of the service also serves it, but requires an admin key.',
    ),
  host: z
    .string()
    .min(1)
    .default('127.0.0.1')
    .describe(
      'Address that `metrics.port` listens on. Everyone who can reach it can read the metrics, which name models and replicas.',
    ),
});

const recoverySchema = section(
  'How responses are continued on another replica if their replica fails: see docs/recovery.md.',
  {
    maxWaitMs: milliseconds(15_000).describe(
      'How long a response waits for another replica, or for its embedded engine to restart, in milliseconds; after that, it ends with the error.',
    ),
    maxAttempts: whole(0, 10)
      .default(2)
      .describe(
        'Maximum number of times that one response is continued. 0: a response ends with the error of its replica.',
      ),
  },
);

/** Maximum number of aliases. */
const MAX_ALIASES = 1000;

const aliasesSchema = z
  .record(
    z
      .string()
      .regex(
        /^[A-Za-z0-9][A-Za-z0-9._:/-]{0,199}$/,
        'expected a name of at most 200 letters, digits, ".", "_", "-", ":" and "/"',
      ),
    modelId,
  )
  .default({})
  .refine((aliases) => Object.keys(aliases).length <= MAX_ALIASES, `expected at most ${MAX_ALIASES} aliases`)
  .describe(
    'Other names of models: `gpt-4o-mini: Qwen/Qwen3-4B` lets a program with a fixed model name use that model. Responses, limits, receipts and usage have the ID of the model. A key must be allowed to use the model.',
  );

const routingSchema = section('How requests are distributed over the replicas of a model.', {
  policy: z
    .enum(['cost', 'least-requests', 'round-robin'])
    .default('cost')
    .describe(
      'How the replica of a request is chosen. `cost`: the least estimated work before the first token, considering which replica has processed the start of the prompt. `least-requests`: the fewest requests in flight. `round-robin`: in turn.',
    ),
});

const retrySchema = section(
  'Requests that fail on a replica before any response was sent are retried on another one. These limits apply to each model.',
  {
    share: z
      .number()
      .min(0)
      .max(1)
      .default(0.2)
      .describe('Maximum number of retries per minute, as a share of the requests in the last minute.'),
    minPerMinute: whole(0, 1_000_000)
      .default(10)
      .describe('Number of retries per minute that are always allowed.'),
  },
);

const backupSchema = z
  .strictObject({
    everyHours: whole(1, 8760).describe('Hours between two backups.'),
    keep: whole(1, 1000)
      .default(7)
      .describe('Number of backups to keep. After each successful backup, older ones are deleted.'),
    directory: z
      .string()
      .min(1)
      .optional()
      .describe(
        'The directory for the backups, relative to the configuration file. It is created if it does not exist. Default: `backups` in the data directory.',
      ),
  })
  .optional()
  .describe('Scheduled backups of the database: see docs/databases.md. Off by default.');

function isAddressOrBlock(text: string): boolean {
  const [address = '', bits, ...more] = text.split('/');
  const family = isIP(address);
  if (family === 0 || more.length > 0) return false;
  return bits === undefined || (/^\d{1,3}$/.test(bits) && Number(bits) <= (family === 4 ? 32 : 128));
}

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
  keys: section('API keys.', {
    maxStaleMs: milliseconds(5000, 1000).describe(
      'How long cached keys are accepted while the database does not respond, in milliseconds; after that, 503 `storage_unavailable`.',
    ),
    maxPerAccount: whole(1, 100_000)
      .default(1000)
      .describe(
        'Maximum keys of an account that are neither revoked nor expired, including those of the playground. The command line can exceed it.',
      ),
    maxCreatedPerHour: whole(1, 100_000)
      .default(500)
      .describe(
        'Maximum keys that can be created in an account within an hour; after that, 429 `too_many_keys`. The command line can exceed it.',
      ),
  }),
  ledger: section('The request ledger.', {
    checkpointMs: milliseconds(1000, 10).describe(
      'Interval at which the token counts of a running request are saved, in milliseconds.',
    ),
    checkpointTokens: whole(1, 1_000_000)
      .default(256)
      .describe('Completion tokens after which the counts are saved, if reached before `checkpointMs`.'),
    settleWaitMs: milliseconds(10_000, 10).describe(
      'How long the end of a response waits for its ledger row to be saved, in milliseconds; after that, the response ends with `storage_unavailable`.',
    ),
    leaseMs: milliseconds(10_000, 500).describe(
      'How long an instance may go without a heartbeat, in milliseconds; after that, another instance settles its open requests.',
    ),
    keepDays: whole(1, 36_500)
      .optional()
      .describe('Number of days to keep ledger rows; daily roll-ups are kept forever. Default: forever.'),
  }),
  queue: section('The queue of each model.', {
    maxRequests: whole(1, 100_000)
      .default(256)
      .describe(
        'Maximum number of requests of one model that wait until a replica has room. If there are more, the account with the most gets 503 `queue_full` for its latest one.',
      ),
    maxWaitMs: milliseconds(60_000, 1).describe(
      'How long a request may wait in the queue, in milliseconds, summed over its attempts; after that, 503 `queue_full`, or `engine_unavailable` if its model is still being loaded. The wait ends when the request is sent to a replica or, if that is an engine of Sluice, when it has a slot there.',
    ),
  }),
  routing: routingSchema,
  retry: retrySchema,
  recovery: recoverySchema,
  backup: backupSchema,
  audit: section('The audit log.', {
    keepDays: whole(1, 36_500)
      .optional()
      .describe('Number of days for which the entries of the audit log are kept. Default: forever.'),
  }),
  limits: z
    .strictObject({
      bodyBytes: whole(1024, 1_073_741_824)
        .default(10_485_760)
        .describe('Maximum size of a request body, in bytes; larger ones get 413.'),
      bodyBytesInMemory: whole(1024)
        .optional()
        .describe(
          "Maximum memory of the bodies of running requests, and of the responses that are collected for them, in bytes. Additional requests get 503, or 429 if their account uses a quarter of what other accounts leave. At least `limits.bodyBytes`. Never more than a quarter of V8's heap, which is 4 GiB or less unless it is set (`NODE_OPTIONS=--max-old-space-size`). Default: a tenth of the memory of the machine or container.",
        ),
      headerBytes: whole(1024, 1_048_576)
        .default(16_384)
        .describe('Maximum size of request headers, in bytes; larger ones get 431.'),
      drainBytes: whole(0, 1_073_741_824)
        .default(16_777_216)
        .describe('How much of the body of a refused request is read and discarded, in bytes.'),
      // At most an hour: queries of usage by hour assume it.
      bodyMs: milliseconds(30_000, 100, 3_600_000).describe(
        'How long a request may take to arrive, from its first byte, in milliseconds; after that, 408.',
      ),
      idleConnectionMs: milliseconds(75_000, 1000).describe(
        'How long a connection may stay open without a request, in milliseconds. Sent as `Keep-Alive: timeout=`.',
      ),
      choices: whole(1, 128)
        .default(16)
        .describe('Maximum number of choices of one request: number of prompts × `n`.'),
      connections: whole(1, 1_000_000)
        .default(10_000)
        .describe(
          'Maximum number of open connections. One IP address may have seven eighths of them, unless it is in `trustedProxies`.',
        ),
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
  stream: section('Server-sent events.', {
    holdMs: milliseconds(10_000, 1).describe(
      'How long a stream waits for the first result of the engine before its status is sent, in milliseconds; after that, 200 and keep-alives are sent.',
    ),
    keepAliveMs: milliseconds(10_000, 1).describe(
      'Time without data after which a keep-alive is sent, in milliseconds: a comment, or an event in responses and messages.',
    ),
    stallMs: milliseconds(30_000, 1).describe(
      'How long a client may stop reading a response, in milliseconds; after that, its connection is closed.',
    ),
  }),
  idempotency: idempotencySchema,
  engine: engineTimeoutsSchema,
  metrics: metricsSchema,
  console: consoleSchema,
  signIn: signInSchema,
  smtp: smtpSchema,
  alerts: alertsSchema,
});

export const configSchema = configFields
  .refine((file) => Object.hasOwn(file.plans, file.defaultPlan), {
    error: 'expected the name of a plan in `plans`',
    path: ['defaultPlan'],
  })
  .refine(({ alerts, smtp }) => alerts.email.length === 0 || smtp !== undefined, {
    error: 'expected `smtp` in the configuration, because alerts are sent through its mail server',
    path: ['alerts', 'email'],
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

/** Destination of traces, from the standard variables of OpenTelemetry. */
export interface TracingConfig {
  /** The endpoint for traces. */
  url: string;
  /** Additional headers, by name. May contain credentials. */
  headers: ReadonlyMap<string, Secret>;
  /** Attributes of this service, by name, such as `service.name`. */
  resource: ReadonlyMap<string, string>;
  /** Whether a request that continues a trace follows its caller's decision to record the trace. */
  parentBased: boolean;
  /** The share of the other requests that are recorded, 0 to 1. */
  ratio: number;
}
