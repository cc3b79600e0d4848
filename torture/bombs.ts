import * as fc from 'fast-check';
import { hostile, NAMED } from '../bench/grammar/schemas.ts';
import { startSluice, type Server } from '../bench/servers.ts';
import { timeStream } from '../bench/stream-client.ts';

/** What became of JSON schemas that are made to stall an engine, and of the caller beside them. */
export interface Bombs {
  sent: number;
  /** With 400. */
  refused: number;
  /** The longest time without a token for the other caller, in milliseconds. */
  longestPauseMs: number;
  /** The schema that was with the service when that time ended. */
  longestDuring: string;
  /** What must not have happened; empty: all is well. */
  faults: string[];
}

const MODEL = 'torture/bombs';

/** Keeps the model from ending its text. */
const NO_END = { 0: -100, 2: -100, 4: -100 };

/** A step that a schema holds up ends within a second; a busy machine has some more of them in a row. */
const LONGEST_PAUSE_MS = 10_000;

/** Schemas drawn at random, beside those that are known to have stalled an engine. */
const DRAWN = 10;

/** Sends each schema to an embedded engine with this model (a GGUF file), while another caller reads a stream of it. */
export async function throwBombs(file: string, seed: number): Promise<Bombs> {
  const engine = `{ file: ${JSON.stringify(file)}, slots: 2, contextTokens: 2048 }`;
  await using server = await startSluice(`models:\n  - id: ${MODEL}\n    engine: ${engine}\n`);
  const bombs: Bombs = { sent: 0, refused: 0, longestPauseMs: 0, longestDuring: '', faults: [] };
  const sending = { name: '' };
  const beside = readBeside(server, bombs, sending);
  const drawn = fc.sample(hostile, { seed, numRuns: DRAWN });
  const schemas = {
    ...NAMED,
    ...Object.fromEntries(drawn.map((schema, index) => [`drawn ${index}`, schema])),
  };
  for (const [name, schema] of Object.entries(schemas)) {
    sending.name = name;
    const { status, code } = await send(server, schema);
    bombs.sent++;
    if (status === 400) bombs.refused++;
    else if (status !== 200) bombs.faults.push(`${name}: ${status} ${code}`);
  }
  await beside.end();
  if (bombs.longestPauseMs > LONGEST_PAUSE_MS)
    bombs.faults.push(`the other caller had no token for ${Math.round(bombs.longestPauseMs)} ms`);
  return bombs;
}

/** One stream after another, until its end is asked for. */
function readBeside(server: Server, bombs: Bombs, sending: { name: string }): { end(): Promise<void> } {
  const over = new AbortController();
  const read = async (): Promise<void> => {
    while (!over.signal.aborted) {
      let lastAt = Infinity;
      const onChunk = () => {
        const now = performance.now();
        if (now - lastAt > bombs.longestPauseMs) {
          bombs.longestPauseMs = now - lastAt;
          bombs.longestDuring = sending.name;
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
    bombs.faults.push(`the other caller's stream: ${String(error)}`);
  });
  return {
    end() {
      over.abort();
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
      response_format: { type: 'json_schema', json_schema: { name: 'bomb', schema } },
    }),
  });
  // An error body of ours; a whole answer has no error.
  const { error } = (await response.json()) as { error?: { code: string } };
  return { status: response.status, code: error?.code ?? '' };
}
