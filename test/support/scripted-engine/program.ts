import { setTimeout as sleep } from 'node:timers/promises';
import type { ChildProgram, LoadedEngine } from '../../../src/engine/child.ts';
import { ScriptedEngine } from './engine.ts';
import { SCRIPTED_DEFAULTS, type ScriptedOptions } from './options.ts';
import { injectFaults } from './fault-injection.ts';

/** Approximate time between reports of simulated loading progress, in milliseconds, and the maximum number of them. */
const STEP_MS = 250;
const MAX_STEPS = 1000;

/** The program of a scripted engine. */
export const SCRIPTED_PROGRAM: ChildProgram<Partial<ScriptedOptions>> = {
  load,
  mayRetry: () => true,
  beforeResponse: injectFaults,
};

async function load(
  overrides: Partial<ScriptedOptions>,
  onProgress: (fraction: number) => void,
): Promise<LoadedEngine> {
  const options = { ...SCRIPTED_DEFAULTS, ...overrides };
  const steps = Math.min(MAX_STEPS, Math.max(1, Math.ceil(options.loadMs / STEP_MS)));
  for (let step = 0; step < steps; step++) {
    onProgress(step / steps);
    // Something else keeps the process alive: standard input, or the service that shares it.
    await sleep(options.loadMs / steps, undefined, { ref: false });
  }
  onProgress(1);
  return Object.assign(new ScriptedEngine(options), {
    slots: options.slots,
    backend: 'scripted',
    async [Symbol.asyncDispose]() {},
  });
}
