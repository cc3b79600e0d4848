import { join } from 'node:path';
import { OTHER_ENGINE, type OtherModel, type ReadOtherModel } from '../../../src/engine/other-engines.ts';

/** The options of a scripted engine. Directives override some of them for their request. */
export interface ScriptedOptions {
  /** Maximum concurrent requests. */
  slots: number;
  /** Maximum requests that wait for a slot; more are refused with `queue_full`. */
  queue: number;
  /** Maximum tokens of a prompt and its completion together. */
  contextTokens: number;
  /** Length of a completion without a limit or stop sequence. */
  tokens: number;
  /** Time between two tokens, in milliseconds; 0: no pause. */
  tokenMs: number;
  /** Added to `tokenMs` for each concurrent request beyond the first, in milliseconds. */
  tokenMsPerRequest: number;
  /** Time from the event `started` to the first token, in milliseconds. */
  prefillMs: number;
  /** Additional time for each uncached prompt token, in milliseconds. One prompt is processed at a time. */
  promptTokenMs: number;
  /** Size of the simulated prefix cache, in tokens; 0: no cache. */
  cacheTokens: number;
  /** Loading time, in milliseconds. */
  loadMs: number;
  /** Memory that the service counts for the engine, in bytes; 0: none. */
  memoryBytes: number;
  /** Length of the vectors of an embedding model; 0: the model generates text. */
  dimensions: number;
  /** Whether the model ranks documents. */
  ranks: boolean;
  /** Whether the engine is a child process of the service even if others run in the process of the test. */
  ownProcess: boolean;
}

export const SCRIPTED_DEFAULTS: ScriptedOptions = {
  slots: 8,
  queue: 1024,
  contextTokens: 4096,
  tokens: 16,
  tokenMs: 0,
  tokenMsPerRequest: 0,
  prefillMs: 0,
  promptTokenMs: 0,
  cacheTokens: 0,
  loadMs: 0,
  memoryBytes: 0,
  dimensions: 0,
  ranks: false,
  ownProcess: false,
};

/** Node adds the scripted engine to a program if it loads this module before it, with `--import`. */
export const REGISTER = join(import.meta.dirname, 'register.ts');

/** The program that serves an engine as a replica. */
export const SERVE_SCRIPTED = join(import.meta.dirname, 'serve.ts');

/** The module that runs an engine as a child process. */
const MAIN = join(import.meta.dirname, 'main.ts');

/**
 * Adds the engine to the services of this process, for models whose `engine.file` is `scripted:`, optionally followed by
 * options in JSON. `program`: how it is started; by default, as a child process.
 */
export function registerScripted(program: OtherModel['program'] = MAIN): void {
  const read: ReadOtherModel = ({ file = '', slots = SCRIPTED_DEFAULTS.slots, ...engine }) => {
    const found = /^scripted:(\{.*\})?$/s.exec(file);
    if (found === null) return null;
    const { contextTokens: tokens = SCRIPTED_DEFAULTS.contextTokens } = engine;
    // The engine validates the options.
    const overrides = JSON.parse(found[1] ?? '{}') as Partial<ScriptedOptions>;
    const options = { ...SCRIPTED_DEFAULTS, slots, contextTokens: tokens, ...overrides };
    const { contextTokens, memoryBytes, ownProcess } = options;
    return {
      description: {
        contextTokens,
        maxCompletionTokens: contextTokens,
        instructType: null,
        quantization: 'none',
        tokenizer: 'scripted',
      },
      memoryBytes,
      options,
      program: ownProcess ? MAIN : program,
    };
  };
  Object.assign(globalThis, { [OTHER_ENGINE]: read });
}
