import { ServiceError } from '../../errors.ts';
import type { Log } from '../../log.ts';
import type { EngineHealth } from '../engine.ts';
import type { NativeContext, NativeModel } from './binding.ts';
import { commonPrefix } from './common-prefix.ts';
import {
  MIN_TOKENS,
  type Conversation,
  type ConversationStore,
  type StoredMatch,
} from './conversation-store.ts';
import { planDrafts, type DraftBudget } from './draft-plan.ts';
import type { GrammarField, Job, JobChoice } from './job.ts';
import { LogprobReader } from './logprobs.ts';
import { choosePlacement, losesConversation, Slot, usable } from './slots.ts';
import type { Vocabulary } from './vocabulary.ts';

interface SchedulerOptions {
  model: NativeModel;
  context: NativeContext;
  vocabulary: Vocabulary;
  /** Whether the model's sequences can be trimmed. */
  canTrim: boolean;
  /** Null if conversations that lose their slot are not kept. */
  store: ConversationStore | null;
  /** Null if tokens are not drafted. Only sequences that can be trimmed can have drafts. */
  drafts: DraftBudget | null;
  /** Maximum time to sample one token with a grammar, in milliseconds. */
  maxSamplingMs: number;
  log: Log;
}

/**
 * Maximum duration of a step that computes prompts, in milliseconds. New requests, cancellations and decoding
 * slots wait until the step ends. The first value applies if more slots are computing prompts than decoding, otherwise
 * the second.
 */
const MANY_PROMPTS_STEP_MS = 1000;
const FEW_PROMPTS_STEP_MS = 300;

/** Time without work before a conversation is saved ahead, in milliseconds. A request that follows at once does not wait. */
const IDLE_MS = 100;

/**
 * The step loop: admits choices, decodes one batch, samples and emits events. Only the loop uses the context; `submit`
 * and `cancel` take effect between decodes, because using the context during a decode corrupts memory.
 */
export class Scheduler {
  readonly #options: SchedulerOptions;
  readonly #slots: Slot[];
  readonly #readers: (LogprobReader | undefined)[] = [];
  readonly #manyPrompts: ChunkSize;
  readonly #fewPrompts: ChunkSize;
  readonly #clock = new StepClock();
  #queue: JobChoice[] = [];
  readonly #batch: Slot[] = [];
  #admissions = 0;
  /** Token counts since the start. A prompt counts once, when its first choice gets a slot. */
  readonly #tokens = {
    promptTokens: 0,
    cachedTokens: 0,
    completionTokens: 0,
    draftTokens: 0,
    acceptedDraftTokens: 0,
  };
  #hasDropped = false;
  /** Scopes whose tokens must no longer be used. */
  readonly #forgotten = new Set<string>();
  /** Time to compute one token of a prompt; null before the first. */
  #msPerToken: number | null = null;
  /** `lastUsed` of the latest slot that was saved ahead, or was not worth it. */
  #savedUntil = 0;
  #stopping = false;
  #wake: (() => void) | null = null;
  #running: Promise<void> | null = null;

  constructor(options: SchedulerOptions) {
    this.#options = options;
    const { slots, slotTokens, batchTokens } = options.context;
    this.#slots = Array.from({ length: slots }, (_, id) => new Slot(id, slotTokens));
    this.#manyPrompts = new ChunkSize(batchTokens, MANY_PROMPTS_STEP_MS);
    this.#fewPrompts = new ChunkSize(batchTokens, FEW_PROMPTS_STEP_MS);
  }

  /** Runs the loop until `stop`. Rejects if the loop fails; no request is processed after that. */
  start(): Promise<void> {
    return (this.#running ??= this.#run());
  }

  submit(choices: readonly JobChoice[]): void {
    this.#queue.push(...choices);
    this.#clock.workStarted(performance.now());
    this.#wake?.();
  }

  /** Frees the request's slots before the next step. Ignores requests that have ended. */
  cancel(job: Job): void {
    job.dropped = true;
    this.#hasDropped = true;
    this.#wake?.();
  }

  /**
   * Deletes all tokens of a scope before the next step, except for those of running requests. Neither these nor those of
   * waiting requests are reused later.
   */
  forget(scope: string): void {
    this.#forgotten.add(scope);
    this.#wake?.();
  }

  get queuedChoices(): number {
    return this.#queue.length;
  }

  health(): EngineHealth {
    const waiting = new Set(this.#queue.map((choice) => choice.job).filter((job) => !job.started));
    return {
      slots: this.#slots.length,
      slotsInUse: this.#slots.filter((slot) => slot.choice !== null).length,
      queued: waiting.size,
      lastStepAgeMs: this.#clock.ageMs(performance.now()),
      medianStepMs: this.#clock.medianMs(),
      ...this.#tokens,
      conversations: this.#options.store?.gauges() ?? null,
    };
  }

  /** Ends the loop after the current step. Unfinished requests fail with `reason`. */
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
    await this.#forgetScopes();
    const { store, context } = this.#options;
    const latest = this.#slots.toSorted((a, b) => b.lastUsed - a.lastUsed);
    await store?.saveAll(
      context,
      latest.flatMap(({ id, scope, computedTokens: tokens }) =>
        typeof scope === 'string' ? [{ id, scope, tokens }] : [],
      ),
    );
  }

  async #run(): Promise<void> {
    while (!this.#stopping) {
      this.#removeDropped();
      await this.#forgetScopes();
      await this.#admit();
      this.#removeDropped();
      const { batchTokens } = this.#options.context;
      const chunk = hasMorePrompts(this.#slots) ? this.#manyPrompts : this.#fewPrompts;
      const tokens = planBatch(this.#slots, this.#batch, batchTokens, chunk.tokens);
      if (tokens > 0) await this.#step(tokens + this.#plannedDrafts(), chunk);
      else if (this.#queue.length === 0 && this.#forgotten.size === 0 && !this.#stopping) await this.#idle();
    }
  }

  /**
   * Waits for work. After a while, saves the conversation that will lose its slot next, so that the request that needs the
   * slot does not have to wait for that.
   */
  async #idle(): Promise<void> {
    this.#clock.idle();
    const next = this.#nextToLose();
    const hasWork = await new Promise<boolean>((resolve) => {
      const timer = next === null ? undefined : setTimeout(resolve, IDLE_MS, false);
      this.#wake = () => {
        clearTimeout(timer);
        resolve(true);
      };
    });
    this.#wake = null;
    if (hasWork || next === null) return;
    this.#savedUntil = next.lastUsed;
    if (this.#options.store?.isQuickToSave(next.computed) === true) await this.#saveIfLost(next, 0);
  }

  /** Returns the least recently used slot if it was not saved ahead yet; null if another one has nothing to lose. */
  #nextToLose(): Slot | null {
    let next: Slot | null = null;
    for (const slot of this.#slots) if (next === null || slot.lastUsed < next.lastUsed) next = slot;
    return next !== null && next.lastUsed > this.#savedUntil ? next : null;
  }

  #removeDropped(): void {
    if (!this.#hasDropped) return;
    this.#hasDropped = false;
    this.#queue = this.#queue.filter((choice) => !choice.job.dropped);
    for (const slot of this.#slots) if (slot.choice?.job.dropped) this.#free(slot);
  }

  async #forgetScopes(): Promise<void> {
    const { context, store } = this.#options;
    for (const scope of this.#forgotten) {
      const unshared = Symbol('forgotten');
      for (const { job } of this.#queue) if (job.scope === scope) job.scope = unshared;
      for (const slot of this.#slots) {
        if (slot.scope !== scope) continue;
        if (slot.choice !== null) slot.scope = unshared;
        else {
          context.clear(slot.id);
          slot.clear();
        }
      }
      await store?.forget(scope);
      this.#forgotten.delete(scope);
    }
  }

  /**
   * Assigns idle slots in queue order. One slot is reserved for each choice that waits for a prefix. Stops after a
   * conversation was saved or loaded while other choices generate, so that these only wait for one.
   */
  async #admit(): Promise<void> {
    let idle = 0;
    for (const slot of this.#slots) if (slot.choice === null) idle++;
    const generating = idle < this.#slots.length;
    const assigned: JobChoice[] = [];
    for (let i = 0; i < this.#queue.length && idle > 0; idle--) {
      const choice = this.#queue[i] as JobChoice; // Nothing else shortens the queue during this loop.
      // Conversations are not moved for a request that was dropped during a save.
      if (choice.isWaiting || choice.job.dropped) {
        i++;
        continue;
      }
      const placement = this.#placementOf(choice);
      if (placement.kind === 'none') break;
      if (placement.kind === 'wait') {
        const { leader, until } = placement;
        // The leader that `choosePlacement` returns is busy, so it has a choice.
        choice.prefixWait = { leader, choice: leader.choice as JobChoice, until };
        i++;
        continue;
      }
      this.#queue.splice(i, 1);
      const stored = await this.#assign(choice, placement.slot, placement.keep, placement.from);
      assigned.push(choice);
      if (!stored) continue;
      // Otherwise, the saves and loads for many requests that arrive together would look like a stuck step.
      this.#clock.progressed(performance.now());
      if (generating) break;
    }
    for (const choice of assigned) {
      choice.job.start();
      choice.begin();
    }
  }

  #placementOf({ prompt, job }: JobChoice): ReturnType<typeof choosePlacement> {
    const { store, canTrim } = this.#options;
    return choosePlacement(prompt, job.scope, this.#slots, canTrim, (longerThan) =>
      typeof job.scope === 'string'
        ? (store?.find(prompt, job.scope, longerThan, this.#msPerToken) ?? null)
        : null,
    );
  }

  /** Returns whether a conversation was saved or loaded. */
  async #assign(
    choice: JobChoice,
    slot: Slot,
    keep: number,
    from: Slot | StoredMatch | null,
  ): Promise<boolean> {
    const { context, store } = this.#options;
    let kept = keep;
    const needed = from === null || from instanceof Slot ? null : from.conversation;
    if (needed !== null) store?.touch(needed);
    let stored = await this.#saveIfLost(slot, from === null ? keep : 0, needed);
    if (from instanceof Slot) {
      await context.copy(slot.id, from.id);
      slot.computed = from.computed;
      slot.minKeep = from.minKeep;
    } else if (from !== null && store !== null) {
      stored = true;
      const loaded = context.canStore(slot.id) && (await store.load(context, slot.id, from.conversation));
      if (loaded) {
        slot.computed = from.conversation.tokens.length;
        slot.minKeep = from.minKeep;
      } else kept = 0;
    }
    if (kept < slot.computed && (kept === 0 || !context.trim(slot.id, kept))) {
      context.clear(slot.id);
      kept = 0;
    }
    slot.assign(choice, kept, ++this.#admissions);
    if (choice.first) this.#countPrompt(choice, kept);
    return stored;
  }

  #countPrompt(choice: JobChoice, kept: number): void {
    // If the request continues a completion, cached tokens of that completion are not prompt tokens.
    choice.job.cachedTokens += Math.min(kept, choice.job.promptTokens);
    this.#tokens.promptTokens += choice.prompt.length;
    this.#tokens.cachedTokens += kept;
  }

  /**
   * Saves the tokens of an idle slot of which only the first `keep` stay, unless they are cheap to compute again. Keeps
   * `needed`, which is loaded next.
   */
  async #saveIfLost(slot: Slot, keep: number, needed: Conversation | null = null): Promise<boolean> {
    const { context, store, canTrim } = this.#options;
    const { scope, computedTokens: tokens } = slot;
    if (store === null || typeof scope !== 'string' || !losesConversation(slot, keep)) return false;
    if (tokens.length - keep < MIN_TOKENS || !context.canStore(slot.id)) return false;
    let elsewhere = 0;
    for (const other of this.#slots)
      if (other !== slot && other.scope === scope)
        elsewhere = Math.max(
          elsewhere,
          usable(other, commonPrefix(other.tokens, other.computed, tokens), canTrim),
        );
    if (!store.isWorthSaving(tokens, scope, elsewhere, this.#msPerToken)) return false;
    await store.save(context, slot.id, tokens, scope, needed);
    return true;
  }

  #plannedDrafts(): number {
    const { drafts } = this.#options;
    const drafted = drafts === null ? 0 : planDrafts(this.#batch, drafts);
    this.#tokens.draftTokens += drafted;
    return drafted;
  }

  async #step(tokens: number, chunk: ChunkSize): Promise<void> {
    const { context } = this.#options;
    const startedAt = performance.now();
    context.begin(tokens);
    let prefilled = 0;
    for (const slot of this.#batch) {
      if (slot.scheduled > 1) prefilled += slot.scheduled;
      const next = slot.tokens.subarray(slot.computed, slot.computed + slot.scheduled + slot.drafted);
      const logits = slot.scheduled === slot.pending ? 1 + slot.drafted : 0;
      slot.logitIndex = context.add(slot.id, slot.computed, next, logits);
    }
    try {
      // During the decode, the consumers of the outboxes process the events of the previous step.
      await context.decode();
    } catch (error) {
      this.#failBatch(error);
      return;
    }
    const samples: Promise<void>[] = [];
    const constrained: { slot: Slot; choice: JobChoice }[] = [];
    for (const slot of this.#batch) {
      slot.computed += slot.scheduled;
      const { choice } = slot;
      if (slot.logitIndex < 0 || choice === null || choice.job.dropped) continue;
      if (choice.constrainedBy !== null) constrained.push({ slot, choice });
      else samples.push(this.#sample(slot, choice));
    }
    await Promise.all(samples);
    // Sampled one at a time, so that each can be timed.
    for (const { slot, choice } of constrained) await this.#sample(slot, choice);
    // What is left of the drafts was wrong, or came after the end.
    for (const slot of this.#batch)
      if (slot.drafted > 0 && !context.trim(slot.id, slot.computed))
        throw new Error('the sequence of a slot could not be trimmed');
    const now = performance.now();
    this.#clock.stepEnded(now, now - startedAt);
    chunk.observe(now - startedAt, prefilled);
    if (prefilled >= MIN_CHUNK) {
      const msPerToken = (now - startedAt) / tokens;
      this.#msPerToken = this.#msPerToken === null ? msPerToken : this.#msPerToken * 0.75 + msPerToken * 0.25;
    }
  }

  /**
   * Samples a choice's next token, and another one after each token of the draft that is the same as the sampled one. An
   * error, for example in a grammar, only fails this request.
   */
  async #sample(slot: Slot, choice: JobChoice): Promise<void> {
    try {
      while (await this.#sampleNext(slot, choice)) {
        // The accepted token has been computed, and its logits follow.
        slot.drafted--;
        slot.computed++;
        slot.logitIndex++;
        this.#tokens.acceptedDraftTokens++;
      }
    } catch (error) {
      this.#options.log.error('sampling failed', { error: asError(error) });
      choice.job.fail(error);
      this.#hasDropped = true;
    }
  }

  /** Returns whether the sampled token is the next one of the draft, and the token after it can be sampled as well. */
  async #sampleNext(slot: Slot, choice: JobChoice): Promise<boolean> {
    const { context, vocabulary } = this.#options;
    const { job } = choice;
    const field = choice.constrainedBy;
    const timer = new WorkTimer();
    const token = await context.sample(slot.logitIndex, choice.sampler);
    if (field !== null && timer.elapsedMs() > this.#options.maxSamplingMs) throw tooSlow(field);
    const logprob =
      job.logprobs === null
        ? null
        : await this.#reader(slot).read(context, slot.logitIndex, token, job.logprobs, vocabulary);
    if (job.dropped) return false;
    const drafted = slot.drafted > 0 ? slot.tokens[slot.filled] : null;
    const next = choice.tokensFor(token, vocabulary);
    for (const accepted of next) {
      this.#tokens.completionTokens++;
      if (choice.accept(accepted, logprob, vocabulary) !== null) {
        this.#free(slot);
        return false;
      }
      slot.append(accepted);
    }
    // Tokens with a grammar are sampled one at a time, after those of other choices.
    return next.length === 1 && next[0] === drafted && choice.constrainedBy === null;
  }

  #reader(slot: Slot): LogprobReader {
    return (this.#readers[slot.id] ??= new LogprobReader(this.#options.model));
  }

  #free(slot: Slot): void {
    slot.choice?.dispose();
    slot.release(++this.#admissions);
  }

  /** Fails the requests of the batch and clears their sequences, whose state is unknown. */
  #failBatch(error: unknown): void {
    this.#options.log.error('decoding failed', { error: asError(error), slots: this.#batch.length });
    for (const slot of this.#batch) {
      slot.choice?.job.fail(error);
      this.#free(slot);
      this.#options.context.clear(slot.id);
      slot.clear();
    }
    this.#hasDropped = true;
  }
}

function tooSlow(field: GrammarField): ServiceError {
  const message = `\`${field}\`: checking a token against the schema took too long. Simplify the schema.`;
  return new ServiceError('schema_too_slow', message, { param: field });
}

function asError(error: unknown): Error {
  return error instanceof Error ? error : new Error(String(error));
}

/**
 * Fills `batch`: one token for each decoding slot, then up to `prefillTokens` of the prompts. Sets each slot's
 * `scheduled`; no slot has a draft yet. Returns the number of tokens, at most `batchTokens`.
 */
export function planBatch(
  slots: readonly Slot[],
  batch: Slot[],
  batchTokens: number,
  prefillTokens: number,
): number {
  batch.length = 0;
  let total = 0;
  const prompts: Slot[] = [];
  for (const slot of slots) {
    slot.scheduled = 0;
    slot.drafted = 0;
    if (slot.choice === null || slot.pending === 0) continue;
    if (slot.pending > 1) prompts.push(slot);
    else if (total < batchTokens) {
      slot.scheduled = 1;
      total++;
      batch.push(slot);
    }
  }
  if (prompts.length === 0) return total;
  const available = Math.min(batchTokens - total, prefillTokens);
  sharePrefill(prompts, available);
  for (const slot of prompts) {
    if (slot.scheduled === 0) continue;
    total += slot.scheduled;
    batch.push(slot);
  }
  return total;
}

/**
 * Gives three quarters of the tokens to the oldest prompt, so that no prompt starves, and the rest to the shortest
 * ones, which would otherwise wait for seconds behind a long prompt.
 */
function sharePrefill(prompts: readonly Slot[], available: number): void {
  const [first, ...others] = prompts.toSorted((a, b) => a.lastUsed - b.lastUsed);
  if (first === undefined) return;
  others.sort((a, b) => a.pending - b.pending);
  let remaining = available;
  const give = (slot: Slot, max: number): void => {
    const tokens = Math.min(slot.pending - slot.scheduled, max);
    slot.scheduled += tokens;
    remaining -= tokens;
  };
  give(first, Math.ceil(available * 0.75));
  for (const slot of others) give(slot, remaining);
  give(first, remaining);
}

/** Whether more slots compute their prompts than decode. */
export function hasMorePrompts(slots: readonly Slot[]): boolean {
  let decoding = 0;
  let prompts = 0;
  for (const { choice, pending } of slots) {
    if (choice === null) continue;
    if (pending > 1) prompts++;
    else decoding++;
  }
  return prompts > decoding;
}

/** The maximum prompt tokens of a step. Shrinks while steps take longer than `maxStepMs`. */
export class ChunkSize {
  tokens: number;
  readonly #max: number;
  readonly #maxStepMs: number;

  constructor(max: number, maxStepMs: number) {
    this.#max = max;
    this.#maxStepMs = maxStepMs;
    this.tokens = max;
  }

  observe(stepMs: number, prefilled: number): void {
    if (prefilled < this.tokens / 2) return; // Too little work to judge.
    if (stepMs > this.#maxStepMs) this.tokens = Math.max(MIN_CHUNK, Math.floor(this.tokens * 0.75));
    else if (stepMs < this.#maxStepMs / 2) this.tokens = Math.min(this.#max, Math.ceil(this.tokens * 1.25));
  }
}

const MIN_CHUNK = 32;

/** The times of the latest steps. */
export class StepClock {
  readonly #times: number[] = [];
  #next = 0;
  #since: number | null = null;

  /** Starts the time that `ageMs` returns, if the engine was idle. */
  workStarted(now: number): void {
    this.#since ??= now;
  }

  /** Restarts the time that `ageMs` returns. */
  progressed(now: number): void {
    this.#since = now;
  }

  stepEnded(now: number, stepMs: number): void {
    this.progressed(now);
    this.#times[this.#next] = stepMs;
    this.#next = (this.#next + 1) % MAX_SAMPLES;
  }

  idle(): void {
    this.#since = null;
  }

  /** Time since the last step or other progress, or since work arrived, in milliseconds; null if the engine is idle. */
  ageMs(now: number): number | null {
    return this.#since === null ? null : now - this.#since;
  }

  /** Returns the median time of the last 100 steps, in milliseconds; 0 before the first step. */
  medianMs(): number {
    return this.#times.toSorted((a, b) => a - b)[this.#times.length >> 1] ?? 0;
  }
}

const MAX_SAMPLES = 100;

/**
 * Measures work as the smaller of elapsed time and CPU time. CPU time includes other threads that spin; elapsed time
 * includes time during which the process was suspended.
 */
class WorkTimer {
  readonly #startedAt = performance.now();
  readonly #usage = process.cpuUsage();

  elapsedMs(): number {
    const { user, system } = process.cpuUsage(this.#usage);
    return Math.min(performance.now() - this.#startedAt, (user + system) / 1000);
  }
}
