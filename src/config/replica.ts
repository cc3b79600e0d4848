import { z } from 'zod';
import { DIALECTS } from '../generation.ts';
import { HEADER_VALUE, httpUrl, variableName } from './values.ts';

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

export const replicaSchema = z
  .strictObject({
    url: httpUrl.describe(
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
        'Server software: `vllm`, `sglang`, `llama-server`, `tgi` or `sluice`; `openai` for any other server or provider.',
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
    model: z
      .string()
      .min(1)
      .optional()
      .describe('Model name on the replica. Default: the `id` of the model.'),
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
    maxInFlight: z
      .int()
      .min(1)
      .max(100_000)
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
  })
  .refine(({ dialect, reasoningField }) => dialect === 'openai' || reasoningField === undefined, {
    error: 'expected no value unless `dialect` is `openai`',
    path: ['reasoningField'],
  })
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

/** Returns what is expected instead of this header, or null if it can be sent. */
function headerProblem(header: string, known: ReadonlySet<string>, hasKey: boolean): string | null {
  const name = header.toLowerCase();
  if (!HEADER_NAME.test(header)) return 'a header name of at most 64 characters';
  if (RESERVED_HEADERS.has(name)) return 'another header: Sluice sets this one';
  if (name === 'authorization' && hasKey) return 'either `apiKeyEnv` or this header, not both';
  if (known.has(name)) return 'each header only once';
  return known.size < MAX_HEADERS ? null : `at most ${MAX_HEADERS} headers`;
}
