/** A sampling parameter that is a number: what its readers, its writers and its docs need. */
export interface SamplingParameter {
  /** The name in the APIs of callers and servers. */
  readonly name: string;
  readonly schema: {
    readonly type: 'number' | 'integer';
    readonly minimum?: number;
    readonly maximum: number;
    readonly exclusiveMinimum?: number;
  };
  /** The value if the request does not set it; null: it has none, and the server decides. */
  readonly fallback: number | null;
  readonly description: string;
  /** The bounds and the default in the docs, where `schema` and `fallback` do not show them. */
  readonly bounds?: string;
  readonly default?: string;
  /** The servers that support it, of which `features.ts` checks the names. Absent: all. */
  readonly servers?: readonly string[];
  /** A value besides the fallback that has no effect. */
  readonly off?: number;
  /** The key in `general.sampling` of GGUF files, with the value that the publisher recommends. Absent: there is none. */
  readonly gguf?: string;
  /** The value in GGUF files that means none. */
  readonly ggufNone?: number;
  /** The name in the API of a server that has another one. */
  readonly names?: Readonly<Record<string, string>>;
  /** Returns the value to send to a server; null: none. Absent: the value itself. */
  readonly sent?: (value: number | null, server: string) => number | null;
}

const SAMPLERS = ['sluice', 'vllm', 'sglang', 'llama-server'] as const;
const WITH_OPENAI = [...SAMPLERS, 'openai'] as const;

/** The sampling parameters that are numbers, in the order of the docs. */
export const SAMPLING = {
  temperature: {
    name: 'temperature',
    schema: { type: 'number', minimum: 0, maximum: 2 },
    fallback: 1,
    gguf: 'temp',
    description: 'Sampling temperature. 0 always selects the most likely token.',
  },
  topP: {
    name: 'top_p',
    schema: { type: 'number', minimum: 0, maximum: 1 },
    fallback: 1,
    gguf: 'top_p',
    ggufNone: 0,
    sent: sentTopP,
    description:
      'Nucleus sampling: samples from the smallest set of tokens whose probabilities add up to this value. 0 always selects the most likely token.',
  },
  topK: {
    name: 'top_k',
    // The largest number of tokens that every engine can represent.
    schema: { type: 'integer', minimum: 0, maximum: 2_147_483_647 },
    // The default of the embedded engine, otherwise all tokens.
    fallback: null,
    default: 'all',
    servers: SAMPLERS,
    off: 0,
    gguf: 'top_k',
    sent: (value, server) => value || (server === 'llama-server' ? 0 : -1),
    description: 'Samples from this number of most likely tokens; 0 means all.',
  },
  minP: {
    name: 'min_p',
    schema: { type: 'number', minimum: 0, maximum: 1 },
    fallback: 0,
    servers: SAMPLERS,
    gguf: 'min_p',
    description: 'Excludes tokens whose probability is below this fraction of the highest probability.',
  },
  /** Unsigned 32 bits after parsing; null for a random seed. */
  seed: {
    name: 'seed',
    schema: { type: 'integer', minimum: -(2 ** 63), maximum: 2 ** 63 },
    bounds: 'signed 64-bit',
    fallback: null,
    servers: ['sluice', 'vllm', 'llama-server', 'tgi', 'openai'],
    // llama-server treats the largest number as a request for a random seed.
    sent: (value, server) =>
      value !== null && server === 'llama-server' ? Math.min(value, 0xffff_fffe) : value,
    description:
      'Makes sampling reproducible: the same request with the same seed and engine generates the same text, on a best-effort basis. Only the lower 32 bits are used.',
  },
  presencePenalty: {
    name: 'presence_penalty',
    schema: { type: 'number', minimum: -2, maximum: 2 },
    fallback: 0,
    servers: WITH_OPENAI,
    description: 'Values above 0 lower the probability of tokens that have already occurred.',
  },
  frequencyPenalty: {
    name: 'frequency_penalty',
    schema: { type: 'number', minimum: -2, maximum: 2 },
    fallback: 0,
    servers: [...SAMPLERS, 'tgi', 'openai'],
    sent: (value, server) => (server === 'tgi' && value === 0 ? null : value),
    description: 'Values above 0 make tokens less likely each time they occur.',
  },
  repetitionPenalty: {
    name: 'repetition_penalty',
    schema: { type: 'number', exclusiveMinimum: 0, maximum: 2 },
    fallback: 1,
    servers: SAMPLERS,
    gguf: 'penalty_repeat',
    names: { 'llama-server': 'repeat_penalty' },
    description:
      'Values above 1 lower the probability of tokens that have already occurred: positive logits are divided by this value, negative ones are multiplied by it. The embedded engine also counts tokens of the prompt, unless `presence_penalty` or `frequency_penalty` is set.',
  },
} as const satisfies Readonly<Record<string, SamplingParameter>>;

/** Most servers refuse a `top_p` of 0. 1e-6 selects the same token. TGI refuses 1, its default. */
function sentTopP(value: number | null, server: string): number | null {
  if (value === null || server === 'llama-server' || server === 'openai') return value;
  return server === 'tgi' && value === 1 ? null : Math.max(value, 1e-6);
}

type Table = typeof SAMPLING;
type Having<Property> = { [N in keyof Table]: Table[N] extends Property ? N : never }[keyof Table];

/** Sampling parameters that are numbers. */
export type SamplingNumber = keyof Table;
/** Those that not every server supports. */
export type LimitedSampling = Having<{ servers: readonly string[] }>;

/** The parameters as JSON, by their names in the API. */
export type SamplingJson = { [N in SamplingNumber as Table[N]['name']]: number | null };

/** Sampling parameters. Null means that the caller did not set the parameter. */
export type Sampling = {
  [N in SamplingNumber]: Table[N]['fallback'] extends null ? number | null : number;
} & {
  /** Biases of -100 to 100 by token ID. */
  logitBias: ReadonlyMap<number, number>;
  /**
   * The parameters that the caller set, even to their defaults, or that the model recommends. Requests to replicas of the
   * dialect `openai` omit the others.
   */
  explicit: ReadonlySet<SamplingNumber>;
};

/** The parameters that the publisher of a model recommends. A parameter without a recommendation is absent. */
export type RecommendedSampling = { readonly [N in Having<{ gguf: string }>]?: number | undefined };

/** Recommended parameters as JSON. */
export type RecommendedSamplingJson = {
  [N in Having<{ gguf: string }> as Table[N]['name']]?: number | undefined;
};

/** The parameters with their identifiers, in the order of the docs. */
export const SAMPLING_LIST = Object.entries(SAMPLING) as readonly (readonly [
  SamplingNumber,
  SamplingParameter,
])[];

/** What a request without sampling parameters gets. */
export const DEFAULT_SAMPLING: Sampling = {
  ...(Object.fromEntries(SAMPLING_LIST.map(([id, { fallback }]) => [id, fallback])) as Record<
    SamplingNumber,
    number
  >),
  logitBias: new Map(),
  explicit: new Set(),
};

/** Those that publishers of models recommend. */
export const RECOMMENDED_LIST = SAMPLING_LIST.filter(
  ([, { gguf }]) => gguf !== undefined,
) as readonly (readonly [keyof RecommendedSampling, SamplingParameter])[];

export function recommendedJson(sampling: RecommendedSampling): RecommendedSamplingJson {
  const json: Record<string, number> = {};
  for (const [id, { name }] of RECOMMENDED_LIST) {
    const value = sampling[id];
    if (value !== undefined) json[name] = value;
  }
  return json;
}
