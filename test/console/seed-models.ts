/** The models of a seeded service: scripted models with the names of real ones, in every state. */
import { SEED_ALERT_SETTINGS } from './seed-alerts.ts';

/** A model and the characteristics of its seeded requests. */
interface SeedModel {
  id: string;
  tools: boolean;
  /** Whether its completions are partly reasoning. */
  reasoning: boolean;
  /** Relative share of the requests of a key. */
  weight: number;
  /** USD per million tokens. */
  prompt: string;
  completion: string;
  contextTokens: number;
  quantization: string;
  instructType: string | null;
  /** Length of the vectors of an embedding model. */
  dimensions?: number;
  /** Time to first token of a short prompt in milliseconds, and tokens per second. */
  ttftMs: number;
  speed: number;
  /** State after startup. */
  state: 'ready' | 'loading' | 'downloading' | 'down';
}

export const SEED_MODELS: readonly SeedModel[] = [
  {
    id: 'meta-llama/Llama-3.3-70B-Instruct',
    tools: true,
    reasoning: false,
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
    tools: true,
    reasoning: true,
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
    tools: true,
    reasoning: false,
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
    tools: false,
    reasoning: false,
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
    tools: true,
    reasoning: true,
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
    tools: false,
    reasoning: false,
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
  {
    id: 'HuggingFaceTB/SmolLM2-360M-Instruct',
    tools: false,
    reasoning: false,
    weight: 0,
    prompt: '0.02',
    completion: '0.04',
    contextTokens: 8192,
    quantization: 'Q4_K_M',
    instructType: 'chatml',
    ttftMs: 60,
    speed: 180,
    state: 'downloading',
  },
  {
    id: 'BAAI/bge-m3',
    tools: false,
    reasoning: false,
    weight: 0,
    prompt: '0.01',
    completion: '0',
    contextTokens: 8192,
    quantization: 'F16',
    instructType: null,
    dimensions: 1024,
    ttftMs: 10,
    speed: 1000,
    state: 'ready',
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

/** The file that is downloading, and the bytes received before the test hub stalls. */
export const DOWNLOAD = {
  name: 'smollm2-360m-instruct-q4_k_m.gguf',
  totalBytes: 270_590_880,
  receivedBytes: 97_412_736,
};

/** Load time in milliseconds, long enough that the model stays in the loading state. */
const LOAD_MS = 900_000;

/** The configuration of a seeded service. */
export function seedYaml(): string {
  const models = SEED_MODELS.map((model) => ({
    id: model.id,
    tools: model.tools,
    reasoning: model.reasoning,
    pricing: { prompt: model.prompt, completion: model.completion },
    quantization: model.quantization,
    instructType: model.instructType,
    contextTokens: model.contextTokens,
    ...source(model),
  }));
  // JSON is valid YAML.
  return JSON.stringify({
    models,
    plans: SEED_PLANS,
    defaultPlan: 'standard',
    alerts: SEED_ALERT_SETTINGS,
  });
}

function source({ state, contextTokens, ttftMs, speed, dimensions = 0 }: SeedModel): object {
  switch (state) {
    case 'down':
      // Nothing listens on the discard port.
      return { replicas: [{ url: 'http://127.0.0.1:9', dialect: 'vllm' }] };
    case 'downloading':
      return { engine: { contextTokens, file: `hf:owner/repo/${DOWNLOAD.name}` } };
    case 'ready':
    case 'loading': {
      const loadMs = state === 'loading' ? LOAD_MS : 0;
      const script = {
        tokens: 160,
        prefillMs: ttftMs,
        tokenMs: Math.round(1000 / speed),
        loadMs,
        dimensions,
      };
      return { engine: { contextTokens, file: `scripted:${JSON.stringify(script)}` } };
    }
  }
}
