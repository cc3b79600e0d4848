import { promptTexts, type GenerationRequest } from '../../generation.ts';
import { hash } from './words.ts';

/** Size of a block, in tokens and in characters. */
const BLOCK_TOKENS = 16;
const BLOCK_CHARACTERS = 64;

/** A simulated prefix cache, which keeps the most recently used blocks of tokens. */
export class ScriptedPrefixCache {
  readonly #maxBlocks: number;
  /** The hashes of prefixes that end with a block, in the order of their last use. */
  readonly #blocks = new Set<number>();

  /** `maxTokens` is the size of the cache; 0 turns it off. */
  constructor(maxTokens: number) {
    this.#maxBlocks = Math.floor(maxTokens / BLOCK_TOKENS);
  }

  /** Returns the number of cached tokens at the start of the prompt. */
  cachedTokens(request: GenerationRequest): number {
    const blocks = this.#blocksOf(request, '');
    const missing = blocks.findIndex((block) => !this.#blocks.has(block));
    return (missing === -1 ? blocks.length : missing) * BLOCK_TOKENS;
  }

  /** Adds the prompt, followed by the text of the completion. */
  add(request: GenerationRequest, completion: string): void {
    // The first block comes last, so that it is evicted last.
    for (const block of this.#blocksOf(request, completion).reverse()) {
      this.#blocks.delete(block);
      this.#blocks.add(block);
    }
    for (const block of this.#blocks) {
      if (this.#blocks.size <= this.#maxBlocks) break;
      this.#blocks.delete(block);
    }
  }

  #blocksOf(request: GenerationRequest, completion: string): number[] {
    if (this.#maxBlocks === 0 || request.cacheScope === null) return [];
    const text = [...promptTexts(request), completion].join('\n');
    let last = hash(request.cacheScope);
    return Array.from({ length: Math.floor(text.length / BLOCK_CHARACTERS) }, (_, block) => {
      const start = block * BLOCK_CHARACTERS;
      last = hash(`${last} ${text.slice(start, start + BLOCK_CHARACTERS)}`);
      return last;
    });
  }
}
