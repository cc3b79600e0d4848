import type { Slot } from './slots.ts';

/** The speed of steps, in milliseconds. */
export interface StepSpeed {
  /** Time to compute one token of a prompt. */
  promptTokenMs: number;
  /** Time of a step in which slots decode. */
  decodeMs: number;
}

/**
 * A part of a prompt has a multiple of this many tokens. For fewer, llama.cpp's attention on a CPU uses a kernel that takes
 * several times as long per token in a long context, so smaller steps would delay other requests even more.
 */
const TILE_TOKENS = 64;

/** Maximum duration of a step with prompts, in milliseconds. New requests and cancellations wait for its end. */
const ALONE_MS = 10_000;

/** Its maximum duration while slots of as many or more accounts decode, which wait as well. */
const BESIDE_DECODING_MS = 200;

/** Maximum time to sample the tokens of a step that are constrained by grammars, in milliseconds. */
const CONSTRAINED_MS = 100;

/**
 * Chooses what each step computes: either the next tokens of slots that decode, or parts of prompts. llama.cpp would also
 * compute the two one after the other if they were in the same batch, and would split the prompt there.
 *
 * Both have the same time, but prompts have more if they are of more accounts. So the prompts of one account, however many,
 * slow others down at most by half, and the gaps between their tokens are a step of `BESIDE_DECODING_MS` or of `TILE_TOKENS`,
 * whichever is longer.
 */
export class StepPlanner {
  readonly #batchTokens: number;
  readonly #speed: StepSpeed;
  /** Time that slots may still decode before the next step with prompts. */
  #owedMs = 0;
  /** Whether the step has prompts. */
  #isPrefill = false;
  /** Number of accounts whose slots decode, and of those with prompts. */
  #decoding = 0;
  #prompts = 0;
  #tokens = 0;
  /** Whether the shortest prompt has had its turn. */
  #oldestIsNext = false;

  constructor(batchTokens: number, speed: StepSpeed) {
    this.#batchTokens = batchTokens;
    this.#speed = { ...speed };
  }

  get promptTokenMs(): number {
    return this.#speed.promptTokenMs;
  }

  /** The duration of the step, at the speed of earlier ones. In milliseconds; 0 if no step is planned. */
  get expectedMs(): number {
    const { promptTokenMs, decodeMs } = this.#speed;
    return this.#isPrefill ? this.#tokens * promptTokenMs : this.#tokens === 0 ? 0 : decodeMs;
  }

  /**
   * Fills `batch`, and sets `scheduled` of each slot; no slot has a draft yet. Returns the number of tokens, at most
   * `batchTokens`.
   */
  plan(slots: readonly Slot[], batch: Slot[]): number {
    const prompts: Slot[] = [];
    const decoding: Slot[] = [];
    for (const slot of slots) {
      slot.scheduled = 0;
      slot.drafted = 0;
      if (slot.choice === null || slot.pending === 0) continue;
      (slot.pending > 1 ? prompts : decoding).push(slot);
    }
    if (prompts.length === 0 || decoding.length === 0) this.#owedMs = 0;
    this.#prompts = accountsOf(prompts);
    this.#decoding = accountsOf(decoding);
    this.#isPrefill = prompts.length > 0 && this.#owedMs <= 0;
    if (this.#isPrefill) this.#schedulePrompts(prompts);
    else scheduleDecoding(decoding);
    batch.length = 0;
    this.#tokens = 0;
    for (const slot of slots) {
      if (slot.scheduled === 0) continue;
      batch.push(slot);
      this.#tokens += slot.scheduled;
    }
    return this.#tokens;
  }

  /** Call it after each planned step, with its duration. */
  stepEnded(ms: number): void {
    const { promptTokenMs, decodeMs } = this.#speed;
    if (!this.#isPrefill) {
      this.#owedMs -= ms;
      this.#speed.decodeMs = (decodeMs + ms) / 2;
      return;
    }
    this.#owedMs = ms * Math.min(1, this.#decoding / this.#prompts);
    // The time of shorter steps does not depend on their tokens alone.
    if (this.#tokens >= TILE_TOKENS) this.#speed.promptTokenMs = (promptTokenMs + ms / this.#tokens) / 2;
  }

  /**
   * Schedules one prompt, because prompts of different lengths are not computed faster together: the oldest, so that none
   * starves, or in every other step the shortest, if it is much shorter. Adds those that fit as a whole.
   */
  #schedulePrompts(prompts: readonly Slot[]): void {
    let remaining = this.#stepTokens();
    const byLength = prompts.toSorted((a, b) => a.pending - b.pending);
    const shortest = byLength[0] as Slot; // There is at least one prompt.
    const oldest = prompts.reduce((a, b) => (b.useNumber < a.useNumber ? b : a));
    this.#oldestIsNext = !this.#oldestIsNext && 2 * shortest.pending <= oldest.pending;
    const first = this.#oldestIsNext ? shortest : oldest;
    for (const slot of [first, ...byLength]) {
      if (slot.scheduled > 0 || (slot !== first && slot.pending > remaining)) continue;
      slot.scheduled = Math.min(slot.untilStop, remaining);
      remaining -= slot.scheduled;
    }
  }

  /** Maximum tokens of a step with prompts. */
  #stepTokens(): number {
    const maxMs = Math.min(ALONE_MS, BESIDE_DECODING_MS * Math.max(1, this.#prompts / this.#decoding));
    const tiles = Math.max(1, Math.floor(maxMs / this.#speed.promptTokenMs / TILE_TOKENS));
    return Math.min(this.#batchTokens, tiles * TILE_TOKENS);
  }
}

/** Returns the number of cache scopes, which are those of accounts. A slot without one is of another account. */
function accountsOf(slots: readonly Slot[]): number {
  return slots.length < 2 ? slots.length : new Set(slots.map((slot) => slot.scope ?? slot)).size;
}

/**
 * Schedules the slots that decode. Those with a grammar take turns if sampling their tokens, one after the other, would
 * take too long.
 */
function scheduleDecoding(decoding: readonly Slot[]): void {
  const constrained: Slot[] = [];
  for (const slot of decoding) {
    if (slot.choice?.constrainedBy === null) slot.scheduled = 1;
    else constrained.push(slot);
  }
  let samplingMs = 0;
  for (const slot of constrained.toSorted((a, b) => b.stepsWaited - a.stepsWaited)) {
    const fits = samplingMs === 0 || samplingMs + slot.samplingMs <= CONSTRAINED_MS;
    slot.scheduled = fits ? 1 : 0;
    slot.stepsWaited = fits ? 0 : slot.stepsWaited + 1;
    if (fits) samplingMs += slot.samplingMs;
  }
}
