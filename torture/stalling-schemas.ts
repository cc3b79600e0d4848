import * as fc from '../test/support/fast-check.ts';
import { hostileSchemas, STALLING_SCHEMAS } from '../test/support/hostile-schemas.ts';
import { startSluice, type Server } from '../test/support/measured-servers.ts';
import { timeStream } from '../test/support/stream-client.ts';
import { NO_END } from '../test/support/default-model.ts';

/** The results of sending JSON schemas that try to stall an engine. */
export interface SchemaResults {
  sent: number;
  /** Refused with 400. */
  refused: number;
  /** The longest time without a token for the other caller, in milliseconds. */
  longestPauseMs: number;
  /** The schema that was being processed at the end of that time. */
  longestDuring: string;
  errors: string[];
}

const MODEL = 'torture/schemas';

/** Maximum time without a token: a step may take up to a second, and a busy machine may have several in a row. */
const LONGEST_PAUSE_MS = 10_000;

/** Number of random schemas, in addition to the known ones. */
const RANDOM_SCHEMAS = 10;

/** Sends each schema to an embedded engine with this GGUF file, while another caller reads streams from it. */
export async function sendStallingSchemas(file: string, seed: number): Promise<SchemaResults> {
  const engine = `{ file: ${JSON.stringify(file)}, slots: 2, contextTokens: 2048 }`;
  await using server = await startSluice(`models:\n  - id: ${MODEL}\n    engine: ${engine}\n`);
  const results: SchemaResults = { sent: 0, refused: 0, longestPauseMs: 0, longestDuring: '', errors: [] };
  const current = { name: '' };
  const streams = readStreams(server, results, current);
  const random = fc.sample(hostileSchemas, { seed, numRuns: RANDOM_SCHEMAS });
  const schemas = {
    ...STALLING_SCHEMAS,
    ...Object.fromEntries(random.map((schema, index) => [`random ${index}`, schema])),
  };
  for (const [name, schema] of Object.entries(schemas)) {
    current.name = name;
    const { status, code } = await send(server, schema);
    results.sent++;
    if (status === 400) results.refused++;
    else if (status !== 200) results.errors.push(`${name}: ${status} ${code}`);
  }
  await streams.end();
  if (results.longestPauseMs > LONGEST_PAUSE_MS)
    results.errors.push(`the other caller had no token for ${Math.round(results.longestPauseMs)} ms`);
  return results;
}

/** Reads one stream after another until ended, and records the longest pause. */
function readStreams(
  server: Server,
  results: SchemaResults,
  current: { name: string },
): { end(): Promise<void> } {
  const ended = new AbortController();
  const read = async (): Promise<void> => {
    while (!ended.signal.aborted) {
      let lastAt = Infinity;
      const onChunk = () => {
        const now = performance.now();
        if (now - lastAt > results.longestPauseMs) {
          results.longestPauseMs = now - lastAt;
          results.longestDuring = current.name;
        }
        lastAt = now;
      };
      await timeStream(
        `${server.url}/v1/chat/completions`,
        server.key,
        {
          model: MODEL,
          messages: [{ role: 'user', content: 'Tell me a long story.' }],
          max_tokens: 200,
          logit_bias: NO_END,
          stream_options: { include_usage: true },
        },
        onChunk,
      );
    }
  };
  const reading = read().catch((error: unknown) => {
    results.errors.push(`the other caller's stream: ${String(error)}`);
  });
  return {
    end() {
      ended.abort();
      return reading;
    },
  };
}

async function send(server: Server, schema: unknown): Promise<{ status: number; code: string }> {
  const response = await fetch(`${server.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${server.key}`, 'content-type': 'application/json' },
    body: JSON.stringify({
      model: MODEL,
      messages: [{ role: 'user', content: 'Answer in JSON.' }],
      max_tokens: 12,
      response_format: { type: 'json_schema', json_schema: { name: 'stalling', schema } },
    }),
  });
  // A completion has no `error`.
  const { error } = (await response.json()) as { error?: { code: string } };
  return { status: response.status, code: error?.code ?? '' };
}
