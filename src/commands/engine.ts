import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { InvalidArgumentError, Option, type Command } from 'commander';
import { isPort, PORT_FORM } from '../config/address.ts';
import type { Engine } from '../engine/engine.ts';
import { KV_CACHES, type KvCache } from '../models/memory.ts';
import type { OpenedEngine } from '../engine/llama/open-engine.ts';
import { becomeEngineProcess } from '../engine/engine-process.ts';
import { serveEngine, type EngineServerOptions } from '../engine/server.ts';
import { openLog } from '../support/log.ts';
import { Secret } from '../support/secret.ts';
import { exitOnSignals } from './interruptible.ts';
import { wholeNumber } from './whole-number.ts';
import { messageOf } from '../support/thrown.ts';

export interface ServeFlags {
  host: string;
  port: number;
  model: string;
  /** The API key, read from the environment variable that the option names. */
  apiKeyEnv?: Secret;
  choices: number;
}

/** `sluice engine llama`: runs one engine as a replica for a service on this or another machine. */
export function register(engine: Command): void {
  const command = engine
    .command('llama')
    .description('Serve a GGUF model with llama.cpp.')
    .requiredOption('--file <path>', 'GGUF file')
    .requiredOption('--model <id>', 'model ID that requests use, <namespace>/<model_name>')
    .option(
      '--slots <count>',
      'number of requests that generate at the same time (default: at most 8, depending on model and memory)',
      wholeNumber(1),
    )
    .option(
      '--context-tokens <count>',
      'context length of each slot (default: depends on model and memory)',
      wholeNumber(0),
    )
    .option(
      '--conversation-cache-bytes <count>',
      'maximum size of the files of conversations that lost their slot; 0: none are kept (default: a tenth of what is free)',
      wholeNumber(0, Number.MAX_SAFE_INTEGER),
    )
    .option(
      '--conversation-cache-directory <path>',
      'directory for these files (default: a RAM disk with room, otherwise the directory for temporary files)',
    )
    .option(
      '--threads <count>',
      'CPU threads (default: physical cores within the cgroup quota)',
      wholeNumber(0),
    )
    .addOption(
      new Option('--kv-cache <type>', 'how keys and values are stored (default: f16)').choices(KV_CACHES),
    )
    .option('--gpu-layers <count>', 'number of layers on the GPU, or "auto"', layers, 'auto');
  withServeOptions(command).action(async (flags: ServeFlags & LlamaFlags) => {
    becomeEngineProcess();
    const engine = await loadLlama(flags);
    engine.failed.catch((error: unknown) => {
      process.stderr.write(`The engine failed: ${String(error)}\n`);
      process.exit(1);
    });
    await serve(engine, flags);
  });
}

interface LlamaFlags {
  file: string;
  slots?: number;
  contextTokens?: number;
  threads?: number;
  kvCache?: KvCache;
  gpuLayers: number | 'auto';
  conversationCacheBytes?: number;
  conversationCacheDirectory?: string;
}

/** Maximum time of a save or load of a conversation on a slow disk, in milliseconds. */
const MAX_PAUSE_MS = 10_000;

async function loadLlama(flags: LlamaFlags): Promise<OpenedEngine> {
  using _ = interruptibleAsInit();
  const { openEngine } = await import('../engine/llama/open-engine.ts');
  const { file, slots = null, contextTokens = null, threads = null, kvCache, gpuLayers } = flags;
  const { conversationCacheBytes: bytes = null, conversationCacheDirectory: directory = null } = flags;
  const diskDirectory = join(tmpdir(), `sluice-${process.getuid?.() ?? 0}`, 'conversations');
  const conversations = { bytes, directory, diskDirectory, keep: false, maxPauseMs: MAX_PAUSE_MS };
  const options = { file, slots, contextTokens, threads, kvCache, gpuLayers, conversations };
  return await openEngine(options, { onProgress: () => {}, log: openLog('info') });
}

/**
 * The first process of a container ignores signals for which it has no listener. Other processes need none: a listener
 * would exit later, because an exit waits until llama.cpp has loaded the model.
 */
function interruptibleAsInit(): Disposable | null {
  return process.pid === 1 ? exitOnSignals() : null;
}

export function withServeOptions(command: Command): Command {
  return command
    .option('--host <address>', 'address to listen on', '127.0.0.1')
    .option('--port <port>', 'port to listen on; 0 picks a free port, which is printed', portNumber, 0)
    .option(
      '--api-key-env <name>',
      'environment variable with the API key that requests must send (default: no key)',
      readKey,
    )
    .option('--choices <count>', 'maximum number of choices per request', wholeNumber(1), 16);
}

/**
 * Starts the server and prints its address. After SIGTERM or SIGINT, lets running requests finish, then exits with 0.
 */
export async function serve(
  engine: Engine,
  flags: ServeFlags,
  more: Pick<EngineServerOptions, 'beforeResponse'> = {},
): Promise<void> {
  const server = await serveEngine(
    engine,
    { host: flags.host, port: flags.port, apiKey: flags.apiKeyEnv },
    { maxChoices: flags.choices, modelId: flags.model, log: openLog('info'), ...more },
  ).catch((error: unknown) => {
    throw new ListenError(`Cannot listen on ${flags.host}:${flags.port}`, error);
  });
  const stop = (): void => void server.close().then(() => process.exit(0));
  process.once('SIGTERM', stop).once('SIGINT', stop);
  process.stdout.write(`${flags.model} on ${server.address}\n`);
}

/** The server cannot listen on the address. Printed without a stack trace. */
class ListenError extends Error {
  constructor(message: string, cause: unknown) {
    super(`${message}: ${messageOf(cause)}`, { cause });
    this.name = 'ListenError';
  }
}

function readKey(name: string): Secret {
  const value = process.env[name];
  if (!value) throw new InvalidArgumentError(`The environment variable ${name} is not set or is empty.`);
  return new Secret(value);
}

function portNumber(text: string): number {
  if (!isPort(text)) throw new InvalidArgumentError(`Expected ${PORT_FORM}.`);
  return Number(text);
}

function layers(text: string): number | 'auto' {
  return text === 'auto' ? text : wholeNumber(0)(text);
}
