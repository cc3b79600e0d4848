import { isAbsolute } from 'node:path';
import { z } from 'zod';
import { DIALECTS } from '../core/generation.ts';
import { RECOMMENDED_LIST, type RecommendedSampling } from '../core/sampling.ts';
import { modelId } from './plan.ts';

export const httpUrl = z.url({ protocol: /^https?$/, error: 'expected an http:// or https:// URL' });

/** The URL of another server. Credentials in it would not be sent. */
export const serverUrl = httpUrl.refine(
  (url) => !/^[a-z]+:\/\/[^/?#]*@/i.test(url),
  'expected a URL without a user name and password',
);

/** A whole number within these bounds. */
export const whole = (min: number, max = Number.MAX_SAFE_INTEGER) => z.int().min(min).max(max);

/** A mapping of settings that all have defaults, so that it can be missing. */
export function section<Fields extends z.core.$ZodShape>(description: string, fields: Fields) {
  const schema = z.strictObject(fields);
  // The compiler cannot know that no field of `Fields` is required.
  return schema.prefault({} as z.input<typeof schema>).describe(description);
}

/** The name of an environment variable with a secret. The file itself contains no secrets. */
export const variableName = z
  .string('expected the name of an environment variable')
  .regex(/^[A-Za-z_][A-Za-z0-9_]*$/, 'expected the name of an environment variable');

/** A header value: 1 to 4096 printable ASCII characters, without spaces at either end. */
export const HEADER_VALUE = /^[\x21-\x7e](?:[\x20-\x7e]{0,4094}[\x21-\x7e])?$/;

/** Maximum number of additional headers. */
const MAX_HEADERS = 16;
const HEADER_NAME = /^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,64}$/;

/** Headers that the HTTP client sets, or that concern only one connection. */
const RESERVED_HEADERS: ReadonlySet<string> = new Set([
  'accept-encoding',
  'connection',
  'content-encoding',
  'content-length',
  'content-type',
  'expect',
  'host',
  'keep-alive',
  'proxy-authenticate',
  'proxy-authorization',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
]);

const VALUE_EXPECTED = 'expected 1 to 4096 printable ASCII characters, without spaces at either end';
const headerValue = z.string(VALUE_EXPECTED).regex(HEADER_VALUE, VALUE_EXPECTED);

/** Has room for the default name: the ID of a model (at most 200 characters), `#` and a number. */
const NAME = /^[\w./:#@-]{1,220}$/;

/** Settings of every server: those that `replicas` name, and programs that Sluice starts. */
const serverFields = {
  model: z.string().min(1).optional().describe('Model name on the replica. Default: the `id` of the model.'),
  reasoningField: z
    .enum(['reasoning', 'reasoning_content'])
    .optional()
    .describe(
      'For `openai`: the field in which the reasoning of earlier turns is sent back. Default: it is not sent.',
    ),
  sharedPrefixCache: z
    .boolean()
    .default(false)
    .describe(
      'Whether accounts may share the prefix cache of a server that cannot separate it by account. False disables the cache on llama-server; for `tgi` and `openai`, Sluice only logs a warning.',
    ),
  maxInFlight: whole(1, 100_000)
    .optional()
    .describe(
      'Maximum number of choices that this instance requests from the server at a time; additional requests wait in the queue. Default: the number of slots that the server reports (`sluice`, `llama-server`), a limit learned from its number of waiting requests (`vllm`, `sglang`), or unlimited.',
    ),
  exactCounts: z
    .boolean()
    .default(false)
    .describe(
      'Whether to always request a stream from the replica, so that tokens are counted exactly if the client disconnects. Uses more CPU per token. False: tokens are estimated if the client disconnects from a request that is not streamed.',
    ),
};

const REASONING_FIELD = {
  error: 'expected no value unless `dialect` is `openai`',
  path: ['reasoningField'],
};

function isForOpenai(server: { dialect: string; reasoningField?: string | undefined }): boolean {
  return server.dialect === 'openai' || server.reasoningField === undefined;
}

const replicaSchema = z
  .strictObject({
    url: serverUrl.describe(
      'Base URL of an OpenAI-compatible server, with or without `/v1`. For `openai`, `/v1` is added only if the URL has no path.',
    ),
    name: z
      .string()
      .regex(NAME, 'expected 1 to 220 letters, digits or characters of `_./:#@-`')
      .optional()
      .describe(
        'Name of the replica in logs, metrics and commands. Default: the `id` of the model, `#`, and the position of the replica, from 0.',
      ),
    dialect: z
      .enum(DIALECTS)
      .describe(
        'Server software: `vllm`, `sglang`, `llama-server`, `tgi`, `tei` or `sluice`; `openai` for any other server or provider.',
      ),
    apiKeyEnv: variableName
      .optional()
      .describe(
        'Name of the environment variable with the API key for this server. Default: no key is sent.',
      ),
    headers: z
      .record(z.string(), headerValue)
      .optional()
      .describe('Additional headers of each request to this server.'),
    headersEnv: z
      .record(z.string(), variableName)
      .optional()
      .describe(
        'Additional headers with secret values: the name of an environment variable for each header.',
      ),
    ...serverFields,
  })
  .refine(isForOpenai, REASONING_FIELD)
  .superRefine((replica, context) => {
    const known = new Set<string>();
    for (const field of ['headers', 'headersEnv'] as const) {
      for (const header of Object.keys(replica[field] ?? {})) {
        const name = header.toLowerCase();
        const expected = headerProblem(header, known, replica.apiKeyEnv !== undefined);
        if (expected !== null) {
          context.addIssue({ code: 'custom', message: `expected ${expected}`, path: [field, header] });
        }
        known.add(name);
      }
    }
  });

const PLACEHOLDERS = ['host', 'port', 'socket'];

/** A template may have names in double braces. */
const PLACEHOLDER = /(?<!\{)\{([a-z]+)\}(?!\})/gi;

const commandSchema = z
  .strictObject({
    run: z
      .array(z.string())
      .min(1)
      .describe(
        'The program and its arguments, which no shell reads. `{host}` is 127.0.0.1, `{port}` a free port; `{socket}` is the path of a Unix socket, for programs that listen on one.',
      ),
    dialect: z
      .enum(['llama-server', 'vllm', 'sglang', 'openai'])
      .describe('Server software: `vllm`, `sglang` or `llama-server`; `openai` for any other program.'),
    memoryBytes: whole(0)
      .optional()
      .describe(
        'Memory of this machine that the program needs, in bytes; 0: it is not counted, as for a program that uses only a GPU. Default: the most that it was seen to use since the service started (Linux), and not counted until then.',
      ),
    env: z
      .record(variableName, z.string())
      .optional()
      .describe(
        'Environment variables, in addition to those of the service. The program does not get the variables of Sluice (`SLUICE_…`) and of keys that the configuration names.',
      ),
    readyPath: z
      .string()
      .regex(/^\/[\x21-\x7e]*$/, 'expected a path that begins with `/`')
      .optional()
      .describe(
        'Path that responds with 200 only when the program can take requests. Default: `/health`, or `/v1/models` for `openai`.',
      ),
    ...serverFields,
  })
  .refine(isForOpenai, REASONING_FIELD)
  .superRefine(({ run }, context) => {
    const fail = (message: string, ...path: number[]) =>
      context.addIssue({ code: 'custom', message, path: ['run', ...path] });
    const [program = ''] = run;
    if (program === '' || (program.includes('/') && !isAbsolute(program)))
      fail('expected an absolute path, or the name of a program in `PATH`', 0);
    const names = run.map((text) => [...text.matchAll(PLACEHOLDER)].map(([, name = '']) => name));
    for (const [index, found] of names.entries()) {
      if (found.some((name) => !PLACEHOLDERS.includes(name)))
        fail('expected no placeholders other than `{host}`, `{port}` and `{socket}`', index);
    }
    if (names.flat().includes('port') === names.flat().includes('socket'))
      fail('expected either `{port}` or `{socket}` in an argument: where the program listens');
  });

/** Returns what is expected instead of this header, or null if it can be sent. */
function headerProblem(header: string, known: ReadonlySet<string>, hasKey: boolean): string | null {
  const name = header.toLowerCase();
  if (!HEADER_NAME.test(header)) return 'a header name of at most 64 characters';
  if (RESERVED_HEADERS.has(name)) return 'another header: Sluice sets this one';
  if (name === 'authorization' && hasKey) return 'either `apiKeyEnv` or this header, not both';
  if (known.has(name)) return 'each header only once';
  return known.size < MAX_HEADERS ? null : `at most ${MAX_HEADERS} headers`;
}

/** The parameters of the API in camel case. A bound that the API excludes is excluded by 0.01. */
const recommendedSampling = z
  .strictObject(
    Object.fromEntries(
      RECOMMENDED_LIST.map(([id, { name, schema }]) => {
        const { type, minimum, maximum, exclusiveMinimum = 0 } = schema;
        const number = (type === 'integer' ? z.int() : z.number()).min(minimum ?? exclusiveMinimum + 0.01);
        return [id, number.max(maximum).optional().describe(`\`${name}\`.`)];
      }),
    ) as Record<keyof RecommendedSampling, z.ZodOptional<z.ZodNumber>>,
  )
  .optional()
  .describe(
    'Sampling parameters that the model works well with. Default: what the catalog or the GGUF file recommends.',
  );

const samplingDefaults = z
  .enum(['recommended', 'api'])
  .default('recommended')
  .describe(
    'What a request without sampling parameters gets: the recommended values, or the defaults of the API, such as `temperature` 1.',
  );

const PRICE = /^(\d{1,9})(?:\.(\d{1,6}))?$/;

const decimal = z
  .string()
  .regex(PRICE, {
    error: 'expected a decimal string with at most 6 decimals, such as "0.15"',
    abort: true,
  })
  .describe('USD per million tokens, a decimal string with at most 6 decimals.');

/**
 * Converts a price in USD per million tokens to pico-dollars per token: `"0.15"` is 150,000. Exact. Throws a
 * `RangeError` unless it is a decimal of up to 9 digits and 6 decimals.
 */
export function picoPerToken(usdPerMillion: string): number {
  const [, whole, fraction = ''] = PRICE.exec(usdPerMillion) ?? [];
  if (whole === undefined) {
    throw new RangeError(
      `expected a decimal string with at most 6 decimals, got ${JSON.stringify(usdPerMillion)}`,
    );
  }
  // 1 USD per million tokens is 10^6 pico-dollars per token.
  return Number(whole + fraction.padEnd(6, '0'));
}

const engine = z.strictObject({
  file: z
    .string()
    .min(1)
    .optional()
    .describe(
      'The model file: `hf:owner/repo/file.gguf[@revision]`, an `https://` URL, or a path (relative to the configuration file). Default: the file that the catalog has for this ID.',
    ),
  slots: whole(1, 64)
    .optional()
    .describe(
      'Number of requests that generate at the same time. Memory use grows with slots x contextTokens. Default: at most 8, depending on the model and the available memory.',
    ),
  contextTokens: whole(128, 1_048_576)
    .optional()
    .describe(
      "Context length of each slot: tokens of prompt and completion together. Default: depends on the model and the available memory; at most the model's own context length.",
    ),
  kvCache: z
    .enum(['f16', 'q8_0'])
    .optional()
    .describe(
      'How keys and values are stored: `q8_0` needs 53% of the memory of `f16`, and is slower. Models of embeddings and rerankers always use `f16`. Default: `f16`.',
    ),
  threads: whole(1, 256)
    .optional()
    .describe(
      'CPU threads. Fewer are used while other programs use the same cores. Default: physical cores within the cgroup quota.',
    ),
  gpuLayers: z
    .union([whole(0, 10_000), z.literal('auto')])
    .default('auto')
    .describe(
      'Number of layers on the GPU; "auto": as many layers as fit in the free GPU memory, or none without a GPU package.',
    ),
});

export const imagesSchema = z.strictObject({
  urls: z
    .boolean()
    .default(false)
    .describe(
      'Whether requests may have `https` URLs of images. The servers of the model fetch them, from inside your network; Sluice itself never does. False: images are in the requests.',
    ),
  tokens: whole(1, 1_000_000)
    .default(4096)
    .describe(
      'Maximum prompt tokens of an image. Limits reserve them until the server reports the tokens of the whole prompt, and at most this number is charged.',
    ),
  max: whole(1, 256).default(20).describe('Maximum number of images in a request.'),
  bytes: whole(1024, 1_073_741_824)
    .default(10_485_760)
    .describe('Maximum size of an image, in bytes. `limits.bodyBytes` must have room for it in base64.'),
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
    keep: z
      .boolean()
      .default(false)
      .describe(
        'Whether an embedded model, or one that a program runs, stays in memory: it is unloaded neither for other models nor because it is not used.',
      ),
    replicas: z
      .array(replicaSchema)
      .min(1)
      .optional()
      .describe('Servers that run this model, instead of the embedded engine.'),
    command: commandSchema
      .optional()
      .describe(
        'A program that the service starts to run this model, instead of the embedded engine. Only the configuration file can have it.',
      ),
    pricing: z
      .strictObject({
        prompt: decimal.default('0'),
        completion: decimal.default('0'),
        input_cache_read: decimal
          .optional()
          .describe('USD per million cached prompt tokens, at most `prompt`. Default: `prompt`.'),
      })
      // The reservation of a request assumes that cached tokens never cost more.
      .refine(
        ({ prompt, input_cache_read: cached = prompt }) => picoPerToken(cached) <= picoPerToken(prompt),
        { error: 'expected at most `prompt`, the price of other prompt tokens', path: ['input_cache_read'] },
      )
      .prefault({})
      .describe('Prices of requests, which `GET /v1/models` also lists.'),
    instructType: z
      .string()
      .nullable()
      .optional()
      .describe(
        "`architecture.instruct_type` in the model list. Default: derived from the model's chat template, or null.",
      ),
    modality: z
      .string()
      .optional()
      .describe(
        '`architecture.modality` in the model list. Set `text->embedding` or `text->rerank` for servers of an embedding model or a reranker. Default: from the GGUF file; `text+image->text` for a model that takes images; otherwise `text->text`.',
      ),
    images: imagesSchema
      .optional()
      .describe(
        'Declares that the model takes images, with their bounds. Default: as `images: {}` if all replicas report that they take images, which only llama-server does; otherwise, the model takes only text.',
      ),
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
    contextTokens: whole(1)
      .optional()
      .describe(
        '`context_length` in the model list. Set it for replicas that do not report theirs, or to advertise a shorter context.',
      ),
    maxCompletionTokens: whole(1)
      .optional()
      .describe('Maximum tokens of one completion. Default: the context length.'),
    recommendedSampling,
    samplingDefaults,
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
  .refine(({ command, engine: own, replicas }) => command === undefined || (own ?? replicas) === undefined, {
    error: 'expected no value for a model with `engine` or `replicas`',
    path: ['command'],
  })
  .refine(({ keep, replicas }) => !keep || replicas === undefined, {
    error: 'expected no value for a model with `replicas`: it is not in the memory of this service',
    path: ['keep'],
  })
  .refine(
    ({ images, replicas, command }) =>
      images === undefined ||
      command !== undefined ||
      replicas?.every(({ dialect }) => dialect !== 'sluice') === true,
    {
      error: "expected no value unless all `replicas` are other servers: Sluice's engine takes only text",
      path: ['images'],
    },
  )
  .refine(
    (value) => new Set(namedReplicas(value).map(({ name }) => name)).size === (value.replicas ?? []).length,
    {
      error: 'expected replicas with different names',
      path: ['replicas'],
    },
  )
  // A model with none of `engine`, `replicas` and `command` is a catalog model that runs on the embedded engine.
  .transform((value) =>
    (value.engine ?? value.replicas ?? value.command) === undefined
      ? { ...value, engine: engine.parse({}) }
      : value,
  );

export type CommandConfig = z.output<typeof commandSchema>;

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

/** Returns the name of the only replica of a model that runs on this machine. */
export const localName = ({ id, command }: { id: string; command?: object | undefined }): string =>
  `${command ? 'command' : 'embedded'}:${id}`;

/** Returns a default name that is greater than those of `replicas`. */
export function nextReplicaName(id: string, replicas: readonly NamedReplica[]): string {
  const prefix = `${id}#`;
  const numbers = replicas
    .filter(({ name }) => name.startsWith(prefix))
    .map(({ name }) => Number(name.slice(prefix.length)))
    .filter((number) => Number.isSafeInteger(number));
  return `${prefix}${Math.max(-1, ...numbers) + 1}`;
}
