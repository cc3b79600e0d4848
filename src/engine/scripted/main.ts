import { setTimeout as sleep } from 'node:timers/promises';
import { runEngineChild, type LoadedEngine } from '../child.ts';
import { ScriptedEngine } from './engine.ts';
import { SCRIPTED_DEFAULTS, type ScriptedOptions } from './options.ts';
import { spoil } from './spoil.ts';

/** How often it says how far it is while it plays loading, in milliseconds; less often where that takes very long. */
const STEP_MS = 250;
const MOST_STEPS = 1000;

/** The scripted engine as a child program. */
await runEngineChild<Partial<ScriptedOptions>>({ load, mayRetry: () => true, beforeAnswer: spoil });

async function load(
  given: Partial<ScriptedOptions>,
  onProgress: (fraction: number) => void,
): Promise<LoadedEngine> {
  const options = { ...SCRIPTED_DEFAULTS, ...given };
  const steps = Math.min(MOST_STEPS, Math.max(1, Math.ceil(options.loadMs / STEP_MS)));
  for (let step = 0; step < steps; step++) {
    onProgress(step / steps);
    await sleep(options.loadMs / steps);
  }
  onProgress(1);
  return {
    engine: new ScriptedEngine(options),
    slots: options.slots,
    backend: 'scripted',
    async [Symbol.asyncDispose]() {},
  };
}
