import { ServiceError } from '../../errors.ts';
import type { Log } from '../../log.ts';
import type { LocalEngineHealth } from '../engine.ts';
import type { NativeContext, NativeModel } from './binding.ts';
import type { Choice, Job } from './choice.ts';
import { LogprobReader } from './logprobs.ts';
import { place } from './prefix-cache.ts';
import { Slot } from './slots.ts';
import { ChunkSize, planBatch, StepClock, WorkTimer } from './step.ts';
import type { Vocabulary } from './vocabulary.ts';

export interface SchedulerParts {
  model: NativeModel;
  context: NativeContext;
  vocabulary: Vocabulary;
  /** Whether this model's sequences can be cut in the middle. */
  partial: boolean;
  /** The longest that sampling one token by a grammar may take before its request fails, in milliseconds. */
  maxSamplingMs: number;
  log: Log;
}

/**
 * The step loop, the only user of the context: admit, decode one batch of all running choices, sample, publish;
 * again. Everything else only leaves word (`submit`, `cancel`) for the moment between two decodes, because
 * touching the context during one corrupts memory.
 */
export class Scheduler {
  readonly #parts: SchedulerParts;
  readonly #slots: Slot[];
  readonly #readers: (LogprobReader | undefined)[] = [];
  readonly #chunk: ChunkSize;
  readonly #clock = new StepClock();
  #queue: Choice[] = [];
  readonly #batch: Slot[] = [];
  #admissions = 0;
  /** Since the start; prompts as they are seated, each once however many choices share it. */
  readonly #tokens = { promptTokens: 0, cachedTokens: 0, completionTokens: 0 };
  #cancels = false;
  #stopping = false;
  #wake: (() => void) | null = null;
  #running: Promise<void> | null = null;

  constructor(parts: SchedulerParts) {
    this.#parts = parts;
    const { slots, slotTokens, batchTokens } = parts.context;
    this.#slots = Array.from({ length: slots }, (_, id) => new Slot(id, slotTokens));
    this.#chunk = new ChunkSize(batchTokens);
  }

  /** Starts the loop. It ends with `stop`; a fault of its own rejects `failed`, after which nothing is generated. */
  start(): Promise<void> {
    return (this.#running ??= this.#run());
  }

  /** Puts the choices at the end of the queue. */
  submit(choices: readonly Choice[]): void {
    this.#queue.push(...choices);
    this.#clock.begin(performance.now());
    this.#wake?.();
  }

  /** Frees what the request has before the next step. Of a request that has ended it does nothing. */
  cancel(job: Job): void {
    job.cancelled = true;
    this.#cancels = true;
    this.#wake?.();
  }

  /** Choices that wait for a slot. */
  get queuedChoices(): number {
    return this.#queue.length;
  }

  health(): Omit<LocalEngineHealth, 'memoryBytes'> {
    const waiting = new Set(this.#queue.map((choice) => choice.job).filter((job) => !job.started));
    return {
      slots: this.#slots.length,
      slotsInUse: this.#slots.filter((slot) => slot.choice !== null).length,
      queued: waiting.size,
      lastStepAgeMs: this.#clock.ageMs(performance.now()),
      medianStepMs: this.#clock.medianMs(),
      ...this.#tokens,
    };
  }

  /** Ends the loop after the step at hand; requests that have not ended get `reason`. */
  async stop(reason: unknown): Promise<void> {
    this.#stopping = true;
    this.#wake?.();
    await this.#running;
    for (const choice of [...this.#queue, ...this.#slots.map((slot) => slot.choice)]) {
      choice?.job.outbox.fail(reason);
      choice?.dispose();
    }
    this.#queue = [];
    for (const reader of this.#readers) reader?.dispose();
  }

  async #run(): Promise<void> {
    while (!this.#stopping) {
      this.#dropCancelled();
      await this.#admit();
      this.#dropCancelled();
      const { batchTokens } = this.#parts.context;
      const tokens = planBatch(this.#slots, this.#batch, batchTokens, this.#chunk.tokens);
      if (tokens > 0) await this.#step(tokens);
      else if (this.#queue.length === 0 && !this.#stopping) await this.#idle();
    }
  }

  async #idle(): Promise<void> {
    this.#clock.idle();
    await new Promise<void>((resolve) => {
      this.#wake = resolve;
    });
    this.#wake = null;
  }

  #dropCancelled(): void {
    if (!this.#cancels) return;
    this.#cancels = false;
    this.#queue = this.#queue.filter((choice) => !choice.job.cancelled);
    for (const slot of this.#slots) if (slot.choice?.job.cancelled) this.#free(slot);
  }

  /**
   * Gives idle slots to the queue, first come first served. A choice that waits for a prefix keeps its place:
   * those behind it get only slots that it leaves.
   */
  async #admit(): Promise<void> {
    let idle = 0;
    for (const slot of this.#slots) if (slot.choice === null) idle++;
    const seated: Choice[] = [];
    for (let i = 0; i < this.#queue.length && idle > 0; idle--) {
      const choice = this.#queue[i] as Choice; // i is within the queue, which nothing else shortens.
      if (choice.waiting) {
        i++;
        continue;
      }
      const placement = place(choice.prompt, choice.job.scope, this.#slots, this.#parts.partial);
      if (placement.kind === 'none') break;
      if (placement.kind === 'wait') {
        const { leader, until } = placement;
        // Whoever is waited for is busy: `place` says so.
        choice.waitsFor = { leader, choice: leader.choice as Choice, until };
        i++;
        continue;
      }
      this.#queue.splice(i, 1);
      await this.#seat(choice, placement.slot, placement.keep, placement.copyFrom);
      seated.push(choice);
    }
    for (const choice of seated) {
      choice.job.start();
      choice.begin();
    }
  }

  async #seat(choice: Choice, slot: Slot, keep: number, copyFrom: Slot | null): Promise<void> {
    const { context } = this.#parts;
    if (copyFrom !== null) {
      await context.copy(slot.id, copyFrom.id);
      slot.computed = copyFrom.computed;
    }
    let kept = keep;
    if (kept < slot.computed && (kept === 0 || !context.trim(slot.id, kept))) {
      context.clear(slot.id);
      kept = 0;
    }
    slot.seat(choice, kept, ++this.#admissions);
    if (!choice.first) return;
    choice.job.cachedTokens += kept;
    this.#tokens.promptTokens += choice.prompt.length;
    this.#tokens.cachedTokens += kept;
  }

  async #step(tokens: number): Promise<void> {
    const { context } = this.#parts;
    const began = performance.now();
    context.begin(tokens);
    let prefilled = 0;
    for (const slot of this.#batch) {
      if (slot.taken > 1) prefilled += slot.taken;
      const next = slot.tokens.subarray(slot.computed, slot.computed + slot.taken);
      slot.logitIndex = context.add(slot.id, slot.computed, next, slot.taken === slot.pending);
    }
    try {
      // What the last step published is read by its readers while this one computes.
      await context.decode();
    } catch (error) {
      this.#failBatch(error);
      return;
    }
    const samples: Promise<void>[] = [];
    const constrained: { slot: Slot; choice: Choice }[] = [];
    for (const slot of this.#batch) {
      slot.computed += slot.taken;
      const { choice } = slot;
      if (slot.logitIndex < 0 || choice === null || choice.job.cancelled) continue;
      if (choice.constrained) constrained.push({ slot, choice });
      else samples.push(this.#sample(slot, choice));
    }
    await Promise.all(samples);
    // One at a time, so that the time each takes is its own.
    for (const { slot, choice } of constrained) await this.#sample(slot, choice);
    this.#tokens.completionTokens += samples.length + constrained.length;
    const now = performance.now();
    this.#clock.ended(now, now - began);
    this.#chunk.observe(now - began, prefilled);
  }

  /** Samples one choice's next token. A fault here, such as a grammar's, is that request's alone. */
  async #sample(slot: Slot, choice: Choice): Promise<void> {
    const { context, vocabulary } = this.#parts;
    const { job } = choice;
    try {
      const timer = choice.constrained ? new WorkTimer() : null;
      const token = await context.sample(slot.logitIndex, choice.sampler);
      if (timer !== null && timer.elapsedMs() > this.#parts.maxSamplingMs) throw tooSlow();
      const logprob =
        job.logprobs === null
          ? null
          : await this.#reader(slot).read(context, slot.logitIndex, token, job.logprobs, vocabulary);
      if (job.cancelled) return;
      if (choice.accept(token, logprob, vocabulary) === null) slot.append(token);
      else this.#free(slot);
    } catch (error) {
      this.#parts.log.error('sampling failed', { error: asError(error) });
      job.fail(error);
      this.#cancels = true;
    }
  }

  #reader(slot: Slot): LogprobReader {
    return (this.#readers[slot.id] ??= new LogprobReader(this.#parts.model));
  }

  #free(slot: Slot): void {
    slot.choice?.dispose();
    slot.release(++this.#admissions);
  }

  /** What a failed decode left of its sequences is unknown: its requests end, the others go on. */
  #failBatch(error: unknown): void {
    this.#parts.log.error('a decode failed', { error: asError(error), slots: this.#batch.length });
    for (const slot of this.#batch) {
      slot.choice?.job.fail(error);
      this.#free(slot);
      this.#parts.context.clear(slot.id);
      slot.forget();
    }
    this.#cancels = true;
  }
}

function tooSlow(): ServiceError {
  const message =
    '`response_format`: checking a token against the schema took too long. Simplify the schema.';
  return new ServiceError('schema_too_slow', message, { param: 'response_format' });
}

function asError(error: unknown): Error {
  return error instanceof Error ? error : new Error(String(error));
}
