import { setTimeout as sleep } from 'node:timers/promises';
import { runEngineChild, type LoadedEngine } from '../child.ts';
import { ScriptedEngine } from './engine.ts';
import { SCRIPTED_DEFAULTS, type ScriptedOptions } from './options.ts';
import { spoil } from './spoil.ts';

/** The scripted engine as a child program. */
await runEngineChild<Partial<ScriptedOptions>>({ load, mayRetry: () => true, beforeAnswer: spoil });

async function load(
  given: Partial<ScriptedOptions>,
  onProgress: (fraction: number) => void,
): Promise<LoadedEngine> {
  const options = { ...SCRIPTED_DEFAULTS, ...given };
  onProgress(0);
  await sleep(options.loadMs);
  onProgress(1);
  return {
    engine: new ScriptedEngine(options),
    slots: options.slots,
    backend: 'scripted',
    async [Symbol.asyncDispose]() {},
  };
}
