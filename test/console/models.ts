/** The models that a seeded service serves: rehearsed ones under the names of real ones, in every state there is. */

/** What requests to a model look like in the seeded month. */
interface SeedModel {
  id: string;
  /** Share of a key's requests that name it, against the others that it may use. */
  weight: number;
  /** USD per million tokens. */
  prompt: string;
  completion: string;
  contextTokens: number;
  quantization: string;
  instructType: string;
  /** Milliseconds until the first token of a short prompt, and tokens a second after it. */
  ttftMs: number;
  speed: number;
  /** How the service finds it at its start. */
  state: 'ready' | 'loading' | 'down';
}

export const SEED_MODELS: readonly SeedModel[] = [
  {
    id: 'meta-llama/Llama-3.3-70B-Instruct',
    weight: 30,
    prompt: '0.59',
    completion: '0.79',
    contextTokens: 131_072,
    quantization: 'Q4_K_M',
    instructType: 'llama3',
    ttftMs: 420,
    speed: 38,
    state: 'ready',
  },
  {
    id: 'Qwen/Qwen3-32B',
    weight: 26,
    prompt: '0.29',
    completion: '0.59',
    contextTokens: 40_960,
    quantization: 'Q5_K_M',
    instructType: 'chatml',
    ttftMs: 260,
    speed: 61,
    state: 'ready',
  },
  {
    id: 'mistralai/Mistral-Small-3.2-24B-Instruct',
    weight: 20,
    prompt: '0.1',
    completion: '0.3',
    contextTokens: 131_072,
    quantization: 'Q4_K_M',
    instructType: 'mistral',
    ttftMs: 190,
    speed: 84,
    state: 'ready',
  },
  {
    id: 'HuggingFaceTB/SmolLM2-135M-Instruct',
    weight: 14,
    prompt: '0.01',
    completion: '0.02',
    contextTokens: 4096,
    quantization: 'Q4_1',
    instructType: 'chatml',
    ttftMs: 45,
    speed: 240,
    state: 'ready',
  },
  {
    id: 'openai/gpt-oss-120b',
    weight: 8,
    prompt: '0.15',
    completion: '0.6',
    contextTokens: 131_072,
    quantization: 'MXFP4',
    instructType: 'harmony',
    ttftMs: 510,
    speed: 47,
    state: 'loading',
  },
  {
    id: 'google/gemma-3-27b-it',
    weight: 2,
    prompt: '0.2',
    completion: '0.4',
    contextTokens: 131_072,
    quantization: 'Q4_K_M',
    instructType: 'gemma',
    ttftMs: 300,
    speed: 55,
    state: 'down',
  },
];

/** The plans of the seeded accounts. */
export const SEED_PLANS = {
  free: { requestsPerMinute: 20, tokensPerMinute: 20_000, requestsInFlight: 4, tokensPerDay: 500_000 },
  standard: {
    requestsPerMinute: 600,
    tokensPerMinute: 400_000,
    requestsInFlight: 64,
    tokensPerDay: 20_000_000,
    usdPerMonth: '250',
  },
  scale: {
    requestsPerMinute: 6000,
    tokensPerMinute: 4_000_000,
    requestsInFlight: 512,
    tokensPerMonth: 2_000_000_000,
    usdPerMonth: '2500',
  },
};

/** No machine is loaded for longer than a look at it takes, in milliseconds. */
const FOR_EVER = 1_000_000;

/** The configuration of a seeded service. */
export function seedYaml(): string {
  const models = SEED_MODELS.map(({ id, prompt, completion, state, ...model }) => ({
    id,
    pricing: { prompt, completion },
    quantization: model.quantization,
    instructType: model.instructType,
    contextTokens: model.contextTokens,
    ...(state === 'down'
      ? // Nothing listens at the port of the discard protocol.
        { replicas: [{ url: 'http://127.0.0.1:9', dialect: 'vllm' }] }
      : { engine: { slots: 8, contextTokens: model.contextTokens, file: rehearsed(model, state) } }),
  }));
  // JSON is YAML.
  return JSON.stringify({ models, plans: SEED_PLANS, defaultPlan: 'standard' });
}

function rehearsed(
  { ttftMs, speed }: Pick<SeedModel, 'ttftMs' | 'speed'>,
  state: SeedModel['state'],
): string {
  const options = {
    tokens: 160,
    prefillMs: ttftMs,
    tokenMs: Math.round(1000 / speed),
    loadMs: state === 'loading' ? FOR_EVER : 0,
  };
  return `scripted:${JSON.stringify(options)}`;
}
