/**
 * The names of spans and attributes. The `gen_ai.*` names are OpenTelemetry's semantic conventions for generative AI,
 * which are still in development. `docs/traces.md` has the same tables.
 */

/** The child spans of a request, with their meaning. */
export const SPANS = {
  queue:
    'From the arrival of the request until it has a slot or, on servers that do not report slots, until it is sent.',
  prefill: 'From the end of `queue` to the first token.',
  decode: 'From the first token to the end of the response.',
} as const satisfies Record<string, string>;

/** `gen_ai.operation.name` of each kind of request. */
export const OPERATIONS = { chat: 'chat', text: 'text_completion' } as const;

/** The attributes of the span of a request, with their meaning. */
export const ATTRIBUTES = {
  operation: ['gen_ai.operation.name', '`chat` or `text_completion`.'],
  provider: ['gen_ai.provider.name', 'Always `sluice`.'],
  requestModel: [
    'gen_ai.request.model',
    'The model ID; missing if the request was refused before its model was known.',
  ],
  responseModel: ['gen_ai.response.model', 'The model ID, if the response has begun.'],
  finishReasons: ['gen_ai.response.finish_reasons', 'A list with the finish reason of the last choice.'],
  inputTokens: ['gen_ai.usage.input_tokens', 'Prompt tokens, including cached ones.'],
  cachedTokens: ['gen_ai.usage.cache_read.input_tokens', 'Prompt tokens read from a prefix cache.'],
  outputTokens: ['gen_ai.usage.output_tokens', 'Completion tokens.'],
  method: ['http.request.method', 'Always `POST`.'],
  route: ['http.route', 'The path of the endpoint.'],
  status: ['http.response.status_code', 'The HTTP status, as in the request log.'],
  errorType: [
    'error.type',
    'The error code, or `client_disconnected` if the client disconnected; missing if the request completed.',
  ],
  requestId: ['sluice.request.id', '`x-request-id`, as in the log and the ledger.'],
  streamed: ['sluice.request.stream', 'Whether the response is streamed.'],
  replica: ['sluice.replica', 'The name of the last replica; missing if the request was not sent to any.'],
  attempts: ['sluice.attempts', 'The number of replicas that the request was sent to.'],
} as const satisfies Record<string, readonly [name: string, meaning: string]>;
