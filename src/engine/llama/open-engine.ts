import { availableParallelism } from 'node:os';
import { readGguf } from '../../models/gguf.ts';
import { becomeEngineProcess } from '../engine-process.ts';
import { EmbeddingEngine } from './embedding-engine.ts';
import { LlamaEngine } from './engine.ts';
import type { LlamaOptions, LoadHooks } from './load-model.ts';

export type OpenedEngine = LlamaEngine | EmbeddingEngine;

/**
 * Makes this process one for the model of the file, and loads the model: either one that generates text, or one that
 * computes embeddings. May start this program again. Rejects as `LlamaEngine.load` does.
 */
export async function openEngine(options: LlamaOptions, hooks: LoadHooks): Promise<OpenedEngine> {
  const info = await readGguf(options.file);
  // Each slot for embeddings computes on its own thread.
  becomeEngineProcess(info.embedding === null ? 1 : (options.threads ?? availableParallelism()));
  return await (info.embedding === null ? LlamaEngine : EmbeddingEngine).load(options, hooks, info);
}
