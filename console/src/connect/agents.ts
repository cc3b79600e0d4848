interface ConnectInput {
  /** URL of the service without `/v1`. */
  baseUrl: string;
  model: string;
  /** In tokens; null: unknown. */
  contextTokens: number | null;
}

interface Agent {
  name: string;
  place: string;
  language: string;
  text: (input: ConnectInput) => string;
}

/** Context that is assumed while that of the model is unknown: the least that agents need. */
const CONTEXT_TOKENS = 32_768;

/** Agents with their finished configuration, as in docs/agents.md. They read the key from `SLUICE_API_KEY`. */
export const AGENTS: readonly Agent[] = [
  {
    name: 'Codex CLI',
    place: 'In ~/.codex/config.toml. Then run codex.',
    language: 'toml',
    text: ({ baseUrl, model, contextTokens }) => `model = ${JSON.stringify(model)}
model_provider = "sluice"
model_context_window = ${contextTokens ?? CONTEXT_TOKENS}

[model_providers.sluice]
name = "Sluice"
base_url = ${JSON.stringify(`${baseUrl}/v1`)}
env_key = "SLUICE_API_KEY"
wire_api = "responses"`,
  },
  {
    name: 'Claude Code',
    place: 'In a shell.',
    language: 'bash',
    text: ({ baseUrl, model, contextTokens }) => `export ANTHROPIC_BASE_URL=${baseUrl}
export ANTHROPIC_AUTH_TOKEN=$SLUICE_API_KEY
export ANTHROPIC_MODEL=${model}
export ANTHROPIC_DEFAULT_HAIKU_MODEL=$ANTHROPIC_MODEL
export CLAUDE_CODE_MAX_CONTEXT_TOKENS=${contextTokens ?? CONTEXT_TOKENS}
export CLAUDE_CODE_MAX_OUTPUT_TOKENS=8192
export CLAUDE_STREAM_IDLE_TIMEOUT_MS=1800000
claude`,
  },
  {
    name: 'opencode',
    place: 'In opencode.json. Then run opencode --model sluice/ and the model.',
    language: 'json',
    text: ({ baseUrl, model, contextTokens }) =>
      JSON.stringify(
        {
          provider: {
            sluice: {
              npm: '@ai-sdk/openai-compatible',
              options: { baseURL: `${baseUrl}/v1`, apiKey: '{env:SLUICE_API_KEY}' },
              models: { [model]: { limit: { context: contextTokens ?? CONTEXT_TOKENS, output: 4096 } } },
            },
          },
        },
        null,
        2,
      ),
  },
];
