import { ServiceError } from '../../../core/errors.ts';
import type { Log } from '../../../support/log.ts';
import type { EngineHealth } from '../../engine.ts';
import type { NativeContext } from '../native/context.ts';
import type { NativeModel } from '../native/model.ts';
import { commonPrefix } from '../conversations/common-prefix.ts';
import {
  MIN_TOKENS,
  type StoredConversation,
  type ConversationStore,
  type StoredMatch,
} from '../conversations/conversation-store.ts';
import { planDrafts, type DraftBudget } from './draft-plan.ts';
import type { GrammarField, Job, JobChoice } from './job.ts';
import { LogprobReader } from '../output/logprobs.ts';
import { choosePlacement, losesConversation, Slot, usable } from './slots.ts';
import { StepPlanner, type StepSpeed } from './step-planner.ts';
import type { Vocabulary } from '../prompt/vocabulary.ts';
import { asError } from '../../../support/thrown.ts';
import { ProgressClock, WorkTimer } from './clocks.ts';

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
  /** Measured when the model was loaded. */
  speed: StepSpeed;
  /** Maximum time to sample one token with a grammar, in milliseconds. */
  maxSamplingMs: number;
  log: Log;
}

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
  readonly #planner: StepPlanner;
  readonly #clock = new ProgressClock();
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
  /** `useNumber` of the latest slot that was saved ahead, or was not worth it. */
  #savedUntil = 0;
  #stopping = false;
  #wake: (() => void) | null = null;
  #running: Promise<void> | null = null;

  constructor(options: SchedulerOptions) {
    this.#options = options;
    const { slots, slotTokens, batchTokens } = options.context;
    this.#slots = Array.from({ length: slots }, (_, id) => new Slot(id, slotTokens));
    this.#planner = new StepPlanner(batchTokens, options.speed);
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
      expectedStepMs: this.#planner.expectedMs,
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
      choice?.job.events.fail(reason);
      choice?.dispose();
    }
    this.#queue = [];
    for (const reader of this.#readers) reader?.dispose();
    await this.#forgetScopes();
    const { store, context } = this.#options;
    const latest = this.#slots.toSorted((a, b) => b.useNumber - a.useNumber);
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
      const tokens = this.#planner.plan(this.#slots, this.#batch);
      if (tokens > 0) await this.#step(tokens + this.#plannedDrafts());
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
    this.#savedUntil = next.useNumber;
    if (this.#options.store?.isQuickToSave(next.computed) === true) await this.#saveIfLost(next, 0);
  }

  /** Returns the least recently used slot if it was not saved ahead yet; null if another one has nothing to lose. */
  #nextToLose(): Slot | null {
    let next: Slot | null = null;
    for (const slot of this.#slots) if (next === null || slot.useNumber < next.useNumber) next = slot;
    return next !== null && next.useNumber > this.#savedUntil ? next : null;
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
    return choosePlacement(prompt, job.scope, this.#slots, canTrim, (cachedTokens, margin) =>
      typeof job.scope === 'string'
        ? (store?.find(prompt, job.scope, cachedTokens, this.#planner.promptTokenMs, margin) ?? null)
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
    if (from !== null) slot.dropCheckpoints();
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
    if (kept < slot.computed && (kept === 0 || !(await this.#returnTo(slot, kept)))) {
      context.clear(slot.id);
      kept = 0;
    }
    slot.assign(choice, kept, ++this.#admissions);
    if (!this.#options.canTrim && typeof slot.scope === 'string')
      slot.stops = checkpointsOf(choice.prompt, this.#options.vocabulary).filter((stop) => stop > kept);
    if (choice.first) this.#countPrompt(choice, kept);
    return stored;
  }

  /** Keeps only the first `keep` tokens of a slot, at least one. Returns false if its sequence must be cleared. */
  async #returnTo(slot: Slot, keep: number): Promise<boolean> {
    const { context, canTrim } = this.#options;
    if (canTrim) return context.trim(slot.id, keep);
    const checkpoint = slot.checkpoints.find(({ tokens }) => tokens === keep);
    return checkpoint !== undefined && (await context.restore(slot.id, checkpoint));
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
  async #saveIfLost(slot: Slot, keep: number, needed: StoredConversation | null = null): Promise<boolean> {
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
    if (!store.isWorthSaving(tokens, scope, elsewhere, this.#planner.promptTokenMs)) return false;
    await store.save(context, slot.id, tokens, scope, needed);
    return true;
  }

  #plannedDrafts(): number {
    const { drafts } = this.#options;
    const drafted = drafts === null ? 0 : planDrafts(this.#batch, drafts);
    this.#tokens.draftTokens += drafted;
    return drafted;
  }

  async #step(tokens: number): Promise<void> {
    const { context } = this.#options;
    const startedAt = performance.now();
    context.begin(tokens);
    for (const slot of this.#batch) {
      const next = slot.tokens.subarray(slot.computed, slot.computed + slot.scheduled + slot.drafted);
      const logits = slot.scheduled === slot.pending ? 1 + slot.drafted : 0;
      slot.logitIndex = context.add(slot.id, slot.computed, next, logits);
    }
    try {
      // During the decode, the consumers of the event queues process the events of the previous step.
      await context.decode();
    } catch (error) {
      this.#failBatch(error);
      return;
    }
    const decodedAt = performance.now();
    const samples: Promise<void>[] = [];
    const constrained: { slot: Slot; choice: JobChoice }[] = [];
    for (const slot of this.#batch) {
      slot.computed += slot.scheduled;
      const { choice } = slot;
      if (choice?.first) choice.job.promptComputed(slot.scheduled, decodedAt);
      if (slot.logitIndex < 0 || choice === null || choice.job.dropped) continue;
      if (choice.constrainedBy !== null) constrained.push({ slot, choice });
      else samples.push(this.#sample(slot, choice));
    }
    await Promise.all(samples);
    // Sampled one at a time, so that each can be timed.
    for (const { slot, choice } of constrained) await this.#sample(slot, choice);
    for (const slot of this.#batch) if (slot.computed === slot.stops[0]) await this.#addCheckpoint(slot);
    // What is left of the drafts was wrong, or came after the end.
    for (const slot of this.#batch)
      if (slot.drafted > 0 && !context.trim(slot.id, slot.computed))
        throw new Error('the sequence of a slot could not be trimmed');
    const endedAt = performance.now();
    this.#planner.stepEnded(endedAt - startedAt);
    this.#clock.progressed(endedAt);
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
    if (field !== null) {
      slot.samplingMs = timer.elapsedMs();
      if (slot.samplingMs > this.#options.maxSamplingMs) throw tooSlow(field);
    }
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

  async #addCheckpoint(slot: Slot): Promise<void> {
    slot.stops.shift();
    const { context } = this.#options;
    slot.checkpoints.push(await context.checkpoint(slot.id, slot.computed));
    if (slot.checkpoints.length > context.maxCheckpoints) slot.checkpoints.shift()?.native.dispose();
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

/**
 * Returns where a prompt gets checkpoints: before the last two tokens with which it begins messages. Later prompts of the
 * conversation often have another last message, or another answer after it, for example without the reasoning. The control
 * token that begins messages is the last one of the prompt. Without control tokens: before the last token.
 */
function checkpointsOf(prompt: Uint32Array, vocabulary: Pick<Vocabulary, 'isControl' | 'ends'>): number[] {
  const last = prompt.findLastIndex((token) => vocabulary.isControl(token) || vocabulary.ends(token));
  const ends = last <= 0 ? [prompt.length - 1] : [prompt.lastIndexOf(prompt[last] as number, last - 1), last];
  return ends.filter((end) => end >= MIN_TOKENS);
}

function tooSlow(field: GrammarField): ServiceError {
  const message = `\`${field}\`: checking a token against the schema took too long. Simplify the schema.`;
  return new ServiceError('schema_too_slow', message, { param: field });
}
