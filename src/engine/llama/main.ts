import { ModelFileError } from '../../models/errors.ts';
import type { Log } from '../../support/log.ts';
import { runEngineChild, type LoadedEngine } from '../child.ts';
import { BackendError } from './native/backend.ts';
import type { LlamaOptions } from './load-model.ts';
import { NotEnoughMemory } from '../../models/memory.ts';
import { openEngine } from './open-engine.ts';
import { asError } from '../../support/thrown.ts';

await runEngineChild<LlamaOptions>({ load, mayRetry });

async function load(
  options: LlamaOptions,
  onProgress: (fraction: number) => void,
  log: Log,
): Promise<LoadedEngine> {
  const engine = await openEngine(options, { onProgress: throttled(onProgress), log });
  engine.failed.catch((error: unknown) => {
    log.error('the step loop failed', { error: asError(error) });
    process.exit(1);
  });
  return engine;
}

/** Whether the error may be temporary. */
function mayRetry(error: unknown): boolean {
  return !(
    error instanceof ModelFileError ||
    error instanceof NotEnoughMemory ||
    error instanceof BackendError
  );
}

/** Reports progress in whole percents, because llama.cpp reports every tensor. */
function throttled(onProgress: (fraction: number) => void): (fraction: number) => void {
  let reported = -1;
  return (fraction) => {
    const hundredth = Math.floor(fraction * 100);
    if (hundredth <= reported) return;
    reported = hundredth;
    onProgress(fraction);
  };
}
