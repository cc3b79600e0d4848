/**
 * Engines other than llama.cpp. Sluice has none, and a model whose `engine.file` has an unknown scheme is not valid. A
 * module that Node loads before the program (`node --import`) can add one, as the tests do for an engine without a model.
 */
import type { EngineConfig } from '../config/schema.ts';
import type { StartEngine } from './engine-process.ts';
import type { ModelDescription } from './engine.ts';

/** A model of another engine. It has no file. */
export interface OtherModel {
  /** Describes it before it is loaded. */
  description: ModelDescription;
  /** Memory that its engine needs, in bytes; 0: unknown. */
  memoryBytes: number;
  /** The `engine` of the engine's `ChildSettings`. */
  options: object;
  /** As in `SupervisorOptions`. */
  program: string | StartEngine;
}

/** Returns null if the model is not one of the engine. */
export type ReadOtherModel = (engine: Partial<EngineConfig>) => OtherModel | null;

/** The property of `globalThis` with a `ReadOtherModel`, which modules of any copy of Sluice find. */
export const OTHER_ENGINE = Symbol.for('sluice.engine');

/** Returns null for a model of llama.cpp, which are all models of a service. */
export const otherModel: ReadOtherModel = (engine) =>
  (globalThis as { [OTHER_ENGINE]?: ReadOtherModel })[OTHER_ENGINE]?.(engine) ?? null;
