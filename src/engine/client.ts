import { Pool } from 'undici';
import { ServiceError } from '../errors.ts';
import type { Dialect, GenerationRequest } from '../generation.ts';
import type { Log } from '../log.ts';
import { formatRequest } from '../openai/replica-request.ts';
import type { Secret } from '../secret.ts';
import {
  DIALECT_TRAITS,
  replicaAddress,
  type DialectTraits,
  type ReplicaAddress,
  type ReplicaJson,
} from './dialects.ts';
import {
  ReplicaRefused,
  type Engine,
  type EngineDescription,
  type EngineHealth,
  type ReplicaEvent,
} from './engine.ts';
import type { ContextBound } from './max-tokens.ts';
import { QuietWatch } from './quiet-watch.ts';
import { ReplicaStream, type ReplicaLine } from './replica-stream.ts';

export interface ReplicaOptions {
  /** For logs and metrics. */
  name: string;
  dialect: Dialect;
  /** Base address, with or without `/v1`. With a socket, only its path counts. */
  url: string;
  /** Unix socket to connect to instead of the address's host. */
  socketPath?: string;
  /** Of an embedded engine: how often its process was started so far. */
  starts?: () => number;
  apiKey?: Secret;
  /** The model's name at the replica. */
  model: string;
  /** Whether accounts may share a prefix cache where the server cannot keep them apart. */
  sharedPrefixCache: boolean;
  /** Whether whole responses are asked for as streams, so that their tokens are counted as they come; false by default. */
  exactCounts?: boolean;
  /** How long the first byte of an answer may take, in milliseconds. */
  firstByteMs: number;
  /** How long a replica may be silent in the middle of an answer, in milliseconds. */
  silenceMs: number;
  /** How long connecting may take, in milliseconds; 2 s by default. */
  connectMs?: number;
  log: Log;
}

/** Opens the client of one replica. It connects when it is first used; dispose it to close its connections. */
export function openReplica(options: ReplicaOptions): Engine {
  return new Replica(options);
}

/** How long a question that is no generation may take to be answered, in milliseconds. */
const QUESTION_MS = 5000;

/** Largest answer to one, in bytes. */
const QUESTION_BYTES = 1024 * 1024;

class Replica implements Engine {
  readonly name: string;
  readonly dialect: Dialect;
  readonly #options: ReplicaOptions;
  readonly #traits: DialectTraits;
  readonly #bound: ContextBound;
  readonly #address: ReplicaAddress;
  readonly #headers: string[];
  readonly #pool: Pool;
  readonly #watch: QuietWatch;
  readonly #streamed: ReplicaLine;
  readonly #whole: ReplicaLine;

  constructor(options: ReplicaOptions) {
    this.name = options.name;
    this.dialect = options.dialect;
    this.#options = options;
    this.#traits = DIALECT_TRAITS[options.dialect];
    this.#bound = { traits: this.#traits, contextTokens: null };
    this.#address = replicaAddress(options.url);
    this.#headers = ['content-type', 'application/json'];
    if (options.apiKey) this.#headers.push('authorization', `Bearer ${options.apiKey.reveal()}`);
    this.#pool = new Pool(this.#address.origin, {
      socketPath: options.socketPath,
      connectTimeout: options.connectMs ?? 2000,
      // One request a connection and as many connections as requests: a stream holds its own for minutes.
      connections: null,
      pipelining: 1,
      allowH2: false,
      // The watch below does it for all streams with one timer, and can tell a pause of ours from silence.
      headersTimeout: 0,
      bodyTimeout: 0,
    });
    this.#watch = new QuietWatch(Math.min(options.firstByteMs, options.silenceMs));
    this.#streamed = this.#line(true);
    this.#whole = this.#line(false);
    if (this.#traits.isolation === 'operator' && !options.sharedPrefixCache) {
      options.log.warn(
        'this server cannot separate the prefix caches of accounts; start it without a prefix cache',
        {
          replica: options.name,
          dialect: options.dialect,
        },
      );
    }
  }

  generate(request: GenerationRequest, signal: AbortSignal): AsyncIterableIterator<ReplicaEvent> {
    const streamed = request.stream || !this.#traits.wholeAnswers || this.#options.exactCounts === true;
    return new ReplicaStream(streamed ? this.#streamed : this.#whole, request, signal);
  }

  async health(signal: AbortSignal): Promise<EngineHealth> {
    const { status, body } = await this.#ask(this.#traits.healthPath, signal);
    if (status !== 200) throw new ReplicaRefused(new Error(`the health check returned status ${status}`));
    const health = this.#traits.readHealth(body);
    // It answers, and would let every stream run into its silence.
    if ((health.lastStepAgeMs ?? 0) > this.#options.silenceMs) {
      throw new ReplicaRefused(new Error(`no progress for ${health.lastStepAgeMs} ms`));
    }
    return health;
  }

  async describe(signal: AbortSignal): Promise<EngineDescription> {
    let description: EngineDescription = {
      contextTokens: null,
      maxCompletionTokens: null,
      quantization: null,
      tokenizer: null,
      instructType: null,
    };
    for (const path of this.#traits.describePaths) {
      const { status, body } = await this.#ask(path, signal);
      if (status !== 200) continue;
      description = { ...description, ...this.#traits.readDescription(body, this.#options.model) };
      if (description.contextTokens !== null) break;
    }
    this.#bound.contextTokens = description.contextTokens;
    return description;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#watch[Symbol.dispose]();
    await this.#pool.destroy(new Error('the replica client was closed'));
  }

  #line(streamed: boolean): ReplicaLine {
    const { dialect, firstByteMs, silenceMs, model, sharedPrefixCache } = this.#options;
    const cacheOff = this.#traits.isolation !== 'salt' && !sharedPrefixCache;
    const { chatPath, textPath } = this.#address;
    return {
      dispatcher: this.#pool,
      watch: this.#watch,
      firstByteMs,
      silenceMs,
      streamed,
      startedBy: this.#traits.startedBy,
      reportsSlot: this.#traits.reportsSlot,
      usagePerChoice: this.#traits.usagePerChoice,
      starts: this.#options.starts,
      bound: this.#bound,
      write: (request, maxTokens) => ({
        path: request.kind === 'chat' ? chatPath : textPath,
        headers: this.#headers,
        body: JSON.stringify(
          formatRequest(request, { model, stream: streamed, dialect, maxTokens, cacheOff }),
        ),
      }),
    };
  }

  /** Asks one of the replica's own endpoints. A body that is no JSON object is an empty one. */
  async #ask(path: string, signal: AbortSignal): Promise<{ status: number; body: ReplicaJson }> {
    const { statusCode, body } = await this.#pool
      .request({
        method: 'GET',
        path: this.#address.at(path),
        headers: this.#headers,
        signal,
        headersTimeout: QUESTION_MS,
        bodyTimeout: QUESTION_MS,
      })
      .catch((error: unknown) => {
        throw signal.aborted ? error : new ReplicaRefused(error);
      });
    let text = '';
    body.setEncoding('utf8');
    for await (const part of body) {
      text += String(part);
      if (text.length > QUESTION_BYTES) throw tooLarge(path);
    }
    return { status: statusCode, body: parseObject(text) };
  }
}

function tooLarge(path: string): ServiceError {
  return new ServiceError('engine_unavailable', 'The replica of this model failed to respond.', {
    cause: new Error(`the response of ${path} has more than ${QUESTION_BYTES} characters`),
  });
}

function parseObject(text: string): ReplicaJson {
  try {
    const value: unknown = JSON.parse(text);
    // An object that is no list can be read by any key.
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as ReplicaJson) : {};
  } catch {
    return {};
  }
}
