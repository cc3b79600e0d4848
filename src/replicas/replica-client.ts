import type { Dispatcher } from 'undici';
import { ServiceError } from '../core/errors.ts';
import {
  isForText,
  asChat,
  promptTexts,
  type ChatRequest,
  type CompletionRequest,
  type Continuation,
  type Dialect,
  type GenerationRequest,
} from '../core/generation.ts';
import type { Log } from '../support/log.ts';
import {
  formatChat,
  type ReasoningField,
  formatRequest,
  formatTokenize,
  replicaPath,
} from './wire/replica-request.ts';
import { readErrorBody } from './wire/replica-error.ts';
import { jsonBody, writeLargeJson } from '../json/json-thread.ts';
import { readTokenIds } from './wire/response-reader.ts';
import { readCount, parseJsonObject, type JsonObject } from '../json/values.ts';
import type { Secret } from '../support/secret.ts';
import { Deadline, tickEvery, tickMsFor } from '../support/deadline.ts';
import { asTextRequest, withOutput } from './continuation.ts';
import { DIALECT_TRAITS, replicaAddress, type ReplicaAddress } from './dialects.ts';
import { ReplicaRefused, type ReplicaClient, type SlotWait, type ReplicaEvent } from './replica.ts';
import type { ModelDescription, ReplicaHealth } from '../engine/engine.ts';
import {
  COUNT_PATH,
  engineRequest,
  EVENT_FRAMES,
  FORGET_PATH,
  type ForgetBody,
  GENERATE_PATH,
  ENGINE_VALUES,
  readEngineHealth,
} from '../engine/engine-protocol.ts';
import { readGauges, type Gauges } from './replica-report.ts';
import { connectAt, ReplicaConnections } from './replica-connections.ts';
import {
  hasLargeBody,
  ReplicaStream,
  type ReplicaStreamSettings,
  type ReplicaTimeouts,
} from './replica-stream.ts';

export interface ReplicaOptions extends ReplicaTimeouts {
  /** For logs and metrics. */
  name: string;
  dialect: Dialect;
  /** Base URL, as in the configuration. With `socketPath`, only the path of this URL is used. */
  url: string;
  /** Unix socket of an engine process of this service, to connect to instead of the URL's host. */
  socketPath?: string;
  /** The port of the URL's host, if it can change. */
  port?: () => number;
  /** Path that responds with 200 when the server is healthy. Default: the health check of the dialect. */
  readyPath?: string | undefined;
  /** For embedded engines: returns how many times the engine's process was started. */
  starts?: () => number;
  apiKey?: Secret;
  /** Additional headers of each request, by name. */
  headers?: ReadonlyMap<string, string | Secret>;
  /** The model's name on the replica. */
  model: string;
  /** Context length if the server does not report it. */
  contextTokens?: number | undefined;
  /** For `openai`: the field for the reasoning of earlier turns. Default: the reasoning is not sent. */
  reasoningField?: ReasoningField | undefined;
  /** Whether accounts may share a prefix cache if the server cannot separate them by request. */
  sharedPrefixCache: boolean;
  /** Whether non-streaming responses are requested as streams, to count tokens as they arrive. Default: false. */
  exactCounts?: boolean;
  /** URL of the proxy to connect through. Default: none. */
  proxy?: string | null;
  /** Timeout of a connection attempt, in milliseconds. Default: the timeout of the health check. */
  connectMs?: number;
  log: Log;
}

/** Bounds of requests for health, model information and counts. */
const METADATA_TIMEOUT_MS = 5000;
const MAX_METADATA_BYTES = 8 * 1024 * 1024;

/** The health of a server that only reports that it is healthy. */
const UNKNOWN_HEALTH: ReplicaHealth = {
  slots: null,
  slotsInUse: null,
  queued: null,
  lastStepAgeMs: null,
  promptTokens: null,
  cachedTokens: null,
  completionTokens: null,
  memoryBytes: null,
};

/** The client of one replica. It connects at the first request; dispose it to close its connections. */
export class HttpReplicaClient implements ReplicaClient {
  readonly name: string;
  readonly dialect: Dialect;
  readonly model: string;
  readonly #options: ReplicaOptions;
  readonly #address: ReplicaAddress;
  readonly #headers: string[];
  readonly #connections: ReplicaConnections;
  readonly #streams: ReplicaStreamSettings;
  /** The context length that was configured, and the one that the server reported last. */
  #contextTokens: number | null;
  #reportedContextTokens: number | null = null;
  /**
   * One timer for the timeouts of all streams, because setting a timer for every chunk would be slow. Timeouts are
   * enforced up to two ticks late.
   */
  readonly #ticks: Disposable;

  constructor(options: ReplicaOptions) {
    const { name, dialect, url, apiKey, headers, log } = options;
    this.name = name;
    this.dialect = dialect;
    this.model = options.model;
    this.#options = options;
    this.#contextTokens = options.contextTokens ?? null;
    this.#address = replicaAddress(url, dialect);
    const traits = DIALECT_TRAITS[dialect];
    this.#headers = ['content-type', 'application/json'];
    if (traits.isEngine) this.#headers.push('accept', EVENT_FRAMES);
    if (apiKey) this.#headers.push('authorization', `Bearer ${apiKey.reveal()}`);
    for (const [header, value] of headers ?? []) {
      this.#headers.push(header, typeof value === 'string' ? value : value.reveal());
    }
    const { port, connectMs: connectTimeout = traits.healthCheck.timeoutMs } = options;
    this.#connections = new ReplicaConnections(
      this.#address.origin,
      {
        socketPath: options.socketPath,
        connectTimeout,
        ...(port && { connect: connectAt(port, connectTimeout) }),
        // One connection per request: a stream can occupy it for minutes.
        connections: null,
        pipelining: 1,
        allowH2: false,
        // `ReplicaStream.onTick` enforces the timeouts, because it ignores time during which this process was suspended.
        headersTimeout: 0,
        bodyTimeout: 0,
      },
      options.proxy ?? null,
    );
    this.#streams = {
      dialect,
      connections: this.#connections,
      open: new Set(),
      timeouts: options,
      starts: options.starts,
      traits,
      contextTokens: this.#contextTokens,
      refusedFields: new Set(),
      format: this.#format,
    };
    const tickMs = tickMsFor(options.firstByteMs, options.responseMs, options.silenceMs);
    this.#ticks = tickEvery(tickMs, () => {
      for (const stream of this.#streams.open) stream.onTick(tickMs);
    });
    if (traits.isolation === 'operator' && !options.sharedPrefixCache) {
      log.warn(
        'this server cannot separate the prefix caches of accounts; turn its prefix cache off, or set sharedPrefixCache',
        {
          replica: name,
          dialect,
        },
      );
    }
  }

  /** Calls `ask` with a signal that aborts after the timeout of a health check, or with `stop`. */
  async withTimeout<T>(ask: (signal: AbortSignal) => Promise<T>, stop?: AbortSignal): Promise<T> {
    const { timeoutMs } = this.#streams.traits.healthCheck;
    const timeout = new AbortController();
    using _ = new Deadline(timeoutMs, () => timeout.abort(new Error(`no response within ${timeoutMs} ms`)));
    return await ask(stop === undefined ? timeout.signal : AbortSignal.any([stop, timeout.signal]));
  }

  /** Number of requests that the server is processing. */
  get inFlight(): number {
    return this.#streams.open.size;
  }

  generate(
    request: GenerationRequest,
    signal: AbortSignal,
    wait: SlotWait | null = null,
  ): AsyncIterableIterator<ReplicaEvent> {
    const { isEngine, continues } = this.#streams.traits;
    if (isForText(request) && request.continuation !== null && continues === 'text') {
      return this.#continueText(request, request.continuation, signal);
    }
    const isCounted = this.#options.exactCounts === true && request.maxTokens !== 0;
    const streamed = request.stream || isEngine || isCounted;
    return new ReplicaStream(this.#streams, request, streamed, signal, wait);
  }

  async *#continueText(
    request: CompletionRequest,
    continuation: Continuation,
    signal: AbortSignal,
  ): AsyncGenerator<ReplicaEvent, undefined> {
    const { text } = continuation;
    const next =
      this.dialect === 'llama-server'
        ? await this.#prepareLlamaServer(request, continuation, signal)
        : request;
    yield* new ReplicaStream(this.#streams, withOutput(next, text), true, signal);
  }

  /**
   * Renders a chat as a text prompt, because some versions of llama-server repeat the last assistant message of a chat
   * in the response. Counts the tokens of the earlier text, because a chunk may contain several.
   */
  async #prepareLlamaServer(
    request: CompletionRequest,
    { text, usage, ...continuation }: Continuation,
    signal: AbortSignal,
  ): Promise<CompletionRequest> {
    const tokens = await this.#tokenize([{ content: text }], request, signal);
    const completionTokens = Math.max(usage.completionTokens, tokens);
    const counted = {
      ...request,
      continuation: { ...continuation, text, usage: { ...usage, completionTokens } },
    };
    const chat = asChat(counted);
    return chat === null ? counted : asTextRequest(chat, await this.#renderOnLlamaServer(chat, signal));
  }

  async countPromptTokens(request: GenerationRequest, signal: AbortSignal): Promise<number | null> {
    const { dialect, model } = this;
    switch (dialect) {
      case 'sluice': {
        const body = engineRequest(request, { model, maxTokens: request.maxTokens });
        const { promptTokens } = await this.#post(COUNT_PATH, body, request, signal);
        return readCount(promptTokens) ?? missingFrom(COUNT_PATH, 'count');
      }
      case 'vllm':
      case 'sglang':
        return await this.#tokenize(formatTokenize(request, { model, dialect }), request, signal);
      case 'llama-server': {
        const chat = asChat(request);
        const prompts =
          chat === null ? promptTexts(request) : [await this.#renderOnLlamaServer(chat, signal)];
        const bodies = prompts.map((content) => ({ content, add_special: true, parse_special: true }));
        return await this.#tokenize(bodies, request, signal);
      }
      case 'tgi':
      case 'tei':
      case 'openai':
        return null;
    }
  }

  async forget(cacheScope: string, signal: AbortSignal): Promise<void> {
    if (this.dialect !== 'sluice') return;
    const body = JSON.stringify({ cacheScope } satisfies ForgetBody);
    const { status } = await this.#fetch(FORGET_PATH, signal, body);
    if (status !== 200) throw noResponse(new Error(`${FORGET_PATH} returned status ${status}`));
  }

  async #renderOnLlamaServer(request: ChatRequest, signal: AbortSignal): Promise<string> {
    const path = '/apply-template';
    const { prompt } = await this.#post(path, formatChat(request, 'llama-server'), request, signal);
    return typeof prompt === 'string' ? prompt : missingFrom(path, 'prompt');
  }

  /** Sends the requests one after another, and returns the number of tokens in all responses. */
  async #tokenize(
    bodies: readonly object[],
    request: GenerationRequest,
    signal: AbortSignal,
  ): Promise<number> {
    const path = '/tokenize';
    let count = 0;
    for (const body of bodies) {
      const { tokens } = await this.#post(path, body, request, signal);
      count += (readTokenIds(tokens) ?? missingFrom(path, 'tokens')).length;
    }
    return count;
  }

  /** Sends a part of a request. Throws the error of an engine of this service that refuses it. */
  async #post(
    path: string,
    body: object,
    request: GenerationRequest,
    signal: AbortSignal,
  ): Promise<JsonObject> {
    const sent = hasLargeBody(request) ? await writeLargeJson(body) : JSON.stringify(body);
    const { status, bytes } = await this.#fetch(path, signal, sent);
    if (status === 400 && this.dialect === 'sluice') throw readErrorBody(status, bytes.toString());
    if (status !== 200) throw noResponse(new Error(`${path} returned status ${status}`));
    const parsed = await jsonBody(bytes, ENGINE_VALUES);
    try {
      return parsed();
    } catch (cause) {
      throw noResponse(new Error(`${path} returned no JSON object`, { cause }));
    }
  }

  async health(signal: AbortSignal): Promise<ReplicaHealth> {
    const { readyPath } = this.#options;
    const path = readyPath ?? this.#streams.traits.healthCheck.path;
    if (path === '/v1/models' && readyPath === undefined) return await this.#checkModels(path, signal);
    const { status, body } = await this.#fetchObject(path, signal);
    // A server that limits the rate of requests is healthy.
    if (status === 429) return UNKNOWN_HEALTH;
    if (status !== 200) throw new ReplicaRefused(new Error(`the health check returned status ${status}`));
    if (!this.#streams.traits.isEngine) return UNKNOWN_HEALTH;
    const health = this.#readHealth(body);
    // The server responds, but its engine makes no progress, so streams would time out.
    if ((health.lastStepAgeMs ?? 0) > this.#options.silenceMs) {
      throw new ReplicaRefused(new Error(`no progress for ${health.lastStepAgeMs} ms`));
    }
    return health;
  }

  #readHealth(body: JsonObject): ReplicaHealth {
    try {
      return readEngineHealth(body);
    } catch (error) {
      throw new ReplicaRefused(error);
    }
  }

  /**
   * Checks a server without `/health`. Accepts responses such as 403 and 404, because the list of models may be missing
   * or not allowed for this key.
   */
  async #checkModels(path: string, signal: AbortSignal): Promise<ReplicaHealth> {
    const { statusCode: status, body } = await this.#request(path, signal);
    await body.dump({ limit: MAX_METADATA_BYTES, signal });
    if (status === 401) throw new ReplicaRefused(new Error('the server refused the API key with status 401'));
    if (status >= 500 || (status >= 300 && status < 400)) {
      throw new ReplicaRefused(new Error(`the health check returned status ${status}`));
    }
    return UNKNOWN_HEALTH;
  }

  /** Null if servers of this type do not report their load. Rejects if this one does not. */
  async gauges(signal: AbortSignal): Promise<Gauges | null> {
    const { gauges } = this.#streams.traits;
    if (gauges === null) return null;
    const { status, bytes } = await this.#fetch('/metrics', signal);
    if (status !== 200) throw new ReplicaRefused(new Error(`/metrics returned status ${status}`));
    return readGauges(bytes.toString(), gauges);
  }

  /** Changes the context length that applies if the server does not report it; undefined: not known. */
  setContextTokens(tokens: number | undefined): void {
    this.#contextTokens = tokens ?? null;
    this.#streams.contextTokens = this.#reportedContextTokens ?? this.#contextTokens;
  }

  /** Rejects if the server cannot be asked for the context length now, and it is not configured. */
  async describe(signal: AbortSignal): Promise<ModelDescription> {
    const { traits } = this.#streams;
    let failure: ReplicaRefused | null = null;
    let description: ModelDescription = {
      contextTokens: null,
      maxCompletionTokens: null,
      quantization: null,
      tokenizer: null,
      instructType: null,
    };
    for (const path of traits.describePaths) {
      const { status, body } = await this.#fetchObject(path, signal);
      if (status === 429 || status === 503) {
        failure = new ReplicaRefused(new Error(`${path} returned status ${status}`));
      }
      if (status !== 200) continue;
      description = { ...description, ...traits.readDescription(body, this.#options.model) };
      if (description.contextTokens !== null) break;
    }
    this.#reportedContextTokens = description.contextTokens;
    this.#streams.contextTokens = this.#reportedContextTokens ?? this.#contextTokens;
    if (this.#streams.contextTokens === null) {
      if (failure !== null) throw failure;
      const { log, model } = this.#options;
      log.warn('the server does not report the context length of the model; set models[].contextTokens', {
        replica: this.name,
        model,
      });
    }
    return description;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#ticks[Symbol.dispose]();
    await this.#connections.destroy(new Error('the replica client was closed'));
  }

  readonly #format: ReplicaStreamSettings['format'] = (request, stream, maxTokens) => {
    const headers = request.traceparent
      ? [...this.#headers, 'traceparent', request.traceparent]
      : this.#headers;
    const { dialect } = this;
    const { model, sharedPrefixCache, reasoningField } = this.#options;
    if (dialect === 'sluice') {
      return {
        path: this.#pathOf(GENERATE_PATH),
        headers,
        body: engineRequest(request, { model, maxTokens }),
      };
    }
    const { refusedFields: refused } = this.#streams;
    const cacheOff = this.#streams.traits.isolation !== 'salt' && !sharedPrefixCache;
    const body = formatRequest(request, {
      model,
      stream,
      dialect,
      maxTokens,
      cacheOff,
      reasoningField,
      refused,
    });
    return { path: this.#pathOf(replicaPath(request, dialect)), headers, body };
  };

  #pathOf(path: string): string {
    const { basePath, apiPath } = this.#address;
    return path.startsWith('/v1/') ? apiPath + path.slice('/v1'.length) : basePath + path;
  }

  /** Sends a POST request with `body`, or a GET request if there is no body. */
  #request(path: string, signal: AbortSignal, body?: string | Uint8Array): Promise<Dispatcher.ResponseData> {
    return this.#connections
      .request({
        method: body === undefined ? 'GET' : 'POST',
        path: this.#pathOf(path),
        headers: this.#headers,
        signal,
        ...(body === undefined ? {} : { body }),
        headersTimeout: METADATA_TIMEOUT_MS,
        bodyTimeout: METADATA_TIMEOUT_MS,
      })
      .catch((error: unknown) => {
        throw signal.aborted ? error : new ReplicaRefused(error);
      });
  }

  async #fetch(
    path: string,
    signal: AbortSignal,
    body?: string | Uint8Array,
  ): Promise<{ status: number; bytes: Buffer<ArrayBuffer> }> {
    const response = await this.#request(path, signal, body);
    const parts: Buffer[] = [];
    let size = 0;
    for await (const part of response.body as AsyncIterable<Buffer>) {
      parts.push(part);
      size += part.length;
      if (size > MAX_METADATA_BYTES) throw tooLarge(path);
    }
    return { status: response.statusCode, bytes: Buffer.concat(parts) };
  }

  /**
   * Requests an endpoint. Returns a JSON array as the field `data` of an object, and an empty object for anything but
   * an array or object.
   */
  async #fetchObject(path: string, signal: AbortSignal): Promise<{ status: number; body: JsonObject }> {
    const { status, bytes } = await this.#fetch(path, signal);
    const text = bytes.toString();
    // Together's API lists its models in an array.
    return { status, body: parseJsonObject(text.startsWith('[') ? `{"data":${text}}` : text) };
  }
}

function tooLarge(path: string): ServiceError {
  return noResponse(new Error(`the response of ${path} has more than ${MAX_METADATA_BYTES} bytes`));
}

function missingFrom(path: string, name: string): never {
  throw noResponse(new Error(`${path} returned no ${name}`));
}

function noResponse(cause: Error): ServiceError {
  return new ServiceError('engine_unavailable', 'The replica of this model failed to respond.', { cause });
}
