import { join } from 'node:path';
import { type RandomModel, RANDOM_MODELS, writeRandomModel } from './random-models.ts';

/** A model of one kind of cache. */
export interface CacheModel {
  name: string;
  /** Whether it has a chat template. */
  chats: boolean;
  /** Returns the path of the file, which may have to be written to `folder`. */
  file(folder: string): string;
  /** Options of `describe` that skip the tests of a real model that is missing. */
  options: { skip: string | false };
  /** Words of a prompt that is longer than the sliding window, if there is one. */
  longWords: number;
  /** Words of a prompt with more than the 256 tokens of the shortest conversation that is saved. */
  storedWords: number;
  /** The ID of a token with text. */
  token: number;
  /** Maximum difference of a log probability that is computed again in other batches. */
  tolerance: number;
  /** Maximum memory of a slot in relation to its keys, values and state. Mamba also needs buffers for each slot. */
  maxOverhead: number;
}

/** Models with keys and values of all tokens, with a sliding window, with a recurrent state, and with several of these. */
export const CACHE_MODELS: readonly CacheModel[] = [
  realModel('the default model', 'SLUICE_TEST_MODEL', 50),
  realModel('Gemma 3, with a sliding window', 'SLUICE_TEST_GEMMA', 820),
  ...Object.keys(RANDOM_MODELS).map((name) => ({
    name,
    file: (folder: string) => {
      const file = join(folder, 'random.gguf');
      writeRandomModel(name as RandomModel, file); // `Object.keys` returns strings.
      return file;
    },
    chats: true,
    options: { skip: false as const },
    longWords: 100,
    storedWords: 80,
    token: 70,
    tolerance: 0.01,
    maxOverhead: name === 'mamba' ? 1.7 : 1.001,
  })),
];

function realModel(name: string, variable: string, longWords: number): CacheModel {
  const path = process.env[variable];
  const options = { skip: path === undefined && `${variable} is not set` };
  const words = { longWords, storedWords: 290 };
  const chats = variable === 'SLUICE_TEST_MODEL';
  return {
    name,
    chats,
    file: () => path ?? '',
    options,
    ...words,
    token: 300,
    tolerance: 1,
    maxOverhead: 1.001,
  };
}
