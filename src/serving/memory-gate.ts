import { readFileSync } from 'node:fs';
import { tickEvery } from '../support/deadline.ts';
import { NoRoom, type LoadCause, type MemoryGrant, type MemoryRequest } from './embedded-replica.ts';
import type { Log } from '../support/log.ts';
import { megabytes, type Footprint } from './memory-fit.ts';

/** A model on an engine of this service. */
export interface GateModel {
  readonly id: string;
  /** Whether it may not be unloaded for other models. */
  readonly keep: boolean;
  /** Whether a request for it waits or runs. */
  readonly busy: boolean;
  /** How long it has been ready without a request, in milliseconds. */
  readonly idleMs: number;
  /** Whether it is not loaded yet, but will be loaded or can be loaded by a request. */
  readonly pending: boolean;
  /** Memory that was planned for its engine until it exits, in bytes; 0: unknown, or there is no engine. */
  readonly reservedBytes: number;
  /** Memory of its engine that the system counts as used, in bytes. */
  readonly usedBytes: number;
  /** Whether its engine is exiting, and its memory is not free yet. */
  readonly leaving: boolean;
  /** Null if the memory that it needs is unknown. */
  footprint(): Promise<Footprint | null>;
  /** Unloads it until its next request. Resolves when its engine has exited. */
  sleep(): Promise<void>;
}

export interface MemoryGateOptions {
  /** Maximum memory of all engines together, in bytes; null: what is available. */
  maxBytes: number | null;
  /** How long a model stays loaded before it is unloaded for another one, in milliseconds. */
  minStayMs: number;
  /** Returns the available memory of the machine, in bytes. */
  availableBytes(): number;
  /** Returns a monotonic time in milliseconds. */
  now(): number;
  log: Log;
}

/** Interval at which to look for memory and for models that are no longer used, in milliseconds. */
const TICK_MS = 250;

/** A model that waits for memory. */
interface Waiter {
  readonly model: GateModel;
  readonly footprint: Footprint;
  readonly request: MemoryRequest;
  readonly grant: PromiseWithResolvers<MemoryGrant | null>;
  /** Models that were loaded while it waited. It does not count on their memory, because they may stay in use. */
  readonly overtakers: Set<GateModel>;
}

/**
 * Distributes the memory of this service among its engines. Loads one model at a time, so that each plan is based on
 * the memory that the others really leave. If there is not enough for a model that requests wait for, unloads the
 * models that have not been used for the longest time, one after the other. Models that arrive later are loaded first only
 * if they fit beside those that wait, so that a large model does not wait for ever.
 */
export class MemoryGate {
  readonly #options: MemoryGateOptions;
  readonly #models = new Set<GateModel>();
  /** Settles when the footprints of all earlier requests are read, because the first one may get the memory. */
  #arrivals: Promise<unknown> = Promise.resolve();
  /** In order of arrival. A waiter is removed before its grant is settled. */
  readonly #waiting = new Set<Waiter>();
  /** The last known footprints, for `#planBytes`. */
  readonly #footprints = new WeakMap<GateModel, Footprint>();
  #loading: GateModel | null = null;
  /** Until when models that were loaded are not unloaded for others. */
  readonly #stays = new WeakMap<GateModel, number>();
  #swaps = 0;
  /** Set while models wait. */
  #ticks: Disposable | null = null;

  constructor(options: MemoryGateOptions) {
    this.#options = options;
  }

  /** Number of models that were unloaded for others. */
  get swaps(): number {
    return this.#swaps;
  }

  add(model: GateModel): void {
    this.#models.add(model);
  }

  remove(model: GateModel): void {
    this.#models.delete(model);
  }

  /** See `EmbeddedOptions.reserve`. */
  async reserve(model: GateModel, request: MemoryRequest): Promise<MemoryGrant | null> {
    const { signal } = request;
    const read = this.#readFootprints(model);
    const earlier = this.#arrivals;
    this.#arrivals = Promise.allSettled([earlier, read]);
    await earlier;
    const footprint = await read;
    signal.throwIfAborted();
    if (footprint === null) return { bytes: 0, planBytes: null, [Symbol.dispose]() {} };
    const waiter: Waiter = {
      model,
      footprint,
      request,
      grant: Promise.withResolvers(),
      overtakers: new Set(),
    };
    const onAbort = () => {
      this.#waiting.delete(waiter);
      waiter.grant.reject(signal.reason);
    };
    signal.addEventListener('abort', onAbort);
    this.#waiting.add(waiter);
    this.#ticks ??= tickEvery(TICK_MS, () => this.tick());
    this.tick();
    try {
      return await waiter.grant.promise;
    } finally {
      signal.removeEventListener('abort', onAbort);
      if (this.#waiting.size === 0) this.#stopTicks();
    }
  }

  /**
   * Returns the memory that a model could get, in bytes: what is available, and what the models have that may be
   * unloaded.
   */
  possibleBytes(
    { inMachineMemory }: Pick<Footprint, 'inMachineMemory'>,
    model: GateModel | null = null,
  ): number {
    const movable = this.#others(model).filter((other) => other.leaving || !other.keep);
    return this.#freeBytes(inMachineMemory) + sumOf(movable);
  }

  #stopTicks(): void {
    this.#ticks?.[Symbol.dispose]();
    this.#ticks = null;
  }

  /** Returns the footprint of a model. Also reads the unknown ones of models that could be loaded beside it. */
  async #readFootprints(model: GateModel): Promise<Footprint | null> {
    const unknown = [...this.#models].filter(
      (other) => other !== model && other.pending && !this.#footprints.has(other),
    );
    const read = async (each: GateModel): Promise<Footprint | null> => {
      const footprint = await each.footprint();
      if (footprint === null) this.#footprints.delete(each);
      else this.#footprints.set(each, footprint);
      return footprint;
    };
    // A model that cannot be read has no share, and reports the error when it is loaded.
    const [own] = await Promise.all([read(model), ...unknown.map((other) => read(other).catch(() => null))]);
    return own;
  }

  /** Starts at most one load or one unload. */
  tick(): void {
    if (this.#loading !== null) {
      for (const { request } of this.#waiting) request.onWait(`waiting for \`${this.#loading.id}\` to load`);
      return;
    }
    for (const waiter of this.#waiting) if (this.#advanceOne(waiter)) return;
  }

  /** Returns whether the others have to wait, because a model is being loaded or unloaded. */
  #advanceOne(waiter: Waiter): boolean {
    const { model, footprint, request, grant } = waiter;
    const cause = request.cause();
    if (cause === 'request' && !model.busy) return this.#stayIdle(waiter);
    const freeBytes = this.#freeBytes(footprint.inMachineMemory);
    const possibleBytes = this.possibleBytes(footprint, model);
    if (possibleBytes < footprint.minBytes) {
      this.#waiting.delete(waiter);
      grant.reject(noRoom(footprint, possibleBytes));
      return false;
    }
    const neededBytes = neededOf(footprint, possibleBytes);
    const { room, reservedFor } = this.#roomFor(waiter, freeBytes);
    if (Math.min(freeBytes, room) >= neededBytes) return this.#load(waiter, Math.min(freeBytes, room));
    if (cause === 'room') return this.#stayIdle(waiter);
    if (reservedFor !== null && room < neededBytes) {
      request.onWait(`waiting for \`${reservedFor.id}\` to load`);
      return false;
    }
    return this.#makeRoom(waiter, neededBytes - freeBytes, cause);
  }

  /**
   * Returns the memory that a model may use beside the models that have waited longer, in bytes, and the model that leaves
   * the least. Models that were loaded while one waited may stay in use, so it does not count on their memory.
   */
  #roomFor(waiter: Waiter, freeBytes: number): { room: number; reservedFor: GateModel | null } {
    let least: { room: number; reservedFor: GateModel | null } = { room: Infinity, reservedFor: null };
    // Only its engine can measure its memory, which others do not share.
    if (freeBytes === Infinity) return least;
    for (const { model, footprint, overtakers } of this.#waiting) {
      if (model === waiter.model) break;
      const possibleBytes = this.possibleBytes(footprint, model);
      const movable = this.#others(model).filter((other) => overtakers.has(other) && !other.keep);
      const room = possibleBytes - sumOf(movable) - neededOf(footprint, possibleBytes);
      if (room < least.room) least = { room, reservedFor: model };
    }
    return least;
  }

  #stayIdle(waiter: Waiter): false {
    this.#waiting.delete(waiter);
    waiter.request.stayIdle();
    waiter.grant.resolve(null);
    return false;
  }

  #load(waiter: Waiter, freeBytes: number): true {
    const { model, footprint, grant } = waiter;
    const sinceMs = this.#options.now();
    for (const other of this.#waiting) {
      if (other === waiter) break;
      other.overtakers.add(model);
    }
    this.#waiting.delete(waiter);
    this.#loading = model;
    const planBytes = this.#planBytes(model, footprint, freeBytes);
    const isBounded = Number.isFinite(planBytes);
    grant.resolve({
      bytes: isBounded ? footprint.planned(planBytes).bytes : 0,
      planBytes: isBounded ? planBytes : null,
      [Symbol.dispose]: () => {
        this.#loading = null;
        const nowMs = this.#options.now();
        this.#stays.set(model, nowMs + Math.max(this.#options.minStayMs, nowMs - sinceMs));
        this.tick();
      },
    });
    return true;
  }

  /** Returns whether the memory of an engine that exits is awaited. */
  #makeRoom({ model, request }: Waiter, missingBytes: number, cause: LoadCause): boolean {
    const others = this.#others(model).filter((other) => other.leaving || !other.keep);
    const leaving = others.find((other) => other.leaving);
    if (leaving) {
      request.onWait(`waiting for \`${leaving.id}\` to exit`);
      return true;
    }
    const nowMs = this.#options.now();
    const isStaying = (other: GateModel): boolean => nowMs < (this.#stays.get(other) ?? -Infinity);
    const [victim] = victimsOf(
      others.filter((other) => !other.busy && !isStaying(other)),
      missingBytes,
    );
    if (victim) {
      this.#unload(victim, model, cause);
      request.onWait(`waiting for \`${victim.id}\` to exit`);
      return true;
    }
    const busy = others.find((other) => other.busy);
    const staying = others.find(isStaying);
    if (busy) request.onWait(`waiting for the requests of \`${busy.id}\` to end`);
    else if (staying) request.onWait(`waiting for \`${staying.id}\`, which was loaded a moment ago`);
    return false;
  }

  #unload(victim: GateModel, model: GateModel, cause: LoadCause): void {
    this.#swaps++;
    this.#options.log.info('unloading a model to load another one', {
      model: victim.id,
      next: model.id,
      cause,
    });
    void victim.sleep().then(() => this.tick());
  }

  #others(model: GateModel | null): GateModel[] {
    return [...this.#models].filter((other) => other !== model && other.reservedBytes > 0);
  }

  /**
   * Returns the memory for another engine, in bytes; can be negative, or infinite if only the engine can measure it. What
   * was planned for an engine and is not counted as used yet is not free: the system counts the file of a model as cache
   * although each step reads it, and a crashed engine restarts.
   */
  #freeBytes(inMachineMemory: boolean): number {
    const engines = this.#others(null);
    const budget = (this.#options.maxBytes ?? Infinity) - sumOf(engines);
    if (!inMachineMemory) return budget;
    const promised = engines.reduce(
      (sum, { reservedBytes, usedBytes }) => sum + Math.max(0, reservedBytes - usedBytes),
      0,
    );
    return Math.min(budget, this.#options.availableBytes() - promised);
  }

  /**
   * Returns the maximum memory of a model's plan, in bytes. The models that are not loaded and fit beside it get equal
   * shares of what is left, so that a context of the maximum length does not make them take turns.
   */
  #planBytes(model: GateModel, { usefulBytes }: Footprint, freeBytes: number): number {
    let rest = freeBytes - usefulBytes;
    if (rest <= 0) return freeBytes;
    const others = [...this.#models].flatMap((other) =>
      other !== model && other.pending ? (this.#footprints.get(other)?.usefulBytes ?? []) : [],
    );
    let sharing = 1;
    for (const bytes of others.toSorted((a, b) => a - b)) {
      if (bytes > rest) break;
      rest -= bytes;
      sharing++;
    }
    return usefulBytes + Math.floor(rest / sharing);
  }
}

/** Returns the memory to load a model with, in bytes: without a useful context only if no more can become available. */
function neededOf({ minBytes, usefulBytes }: Footprint, possibleBytes: number): number {
  return possibleBytes < usefulBytes ? minBytes : usefulBytes;
}

/** Returns the models to unload, least recently used first; none if all of them have less than `missingBytes`. */
function victimsOf(models: readonly GateModel[], missingBytes: number): GateModel[] {
  const chosen: GateModel[] = [];
  let bytes = 0;
  for (const model of models.toSorted((a, b) => b.idleMs - a.idleMs)) {
    if (bytes >= missingBytes) break;
    chosen.push(model);
    bytes += model.reservedBytes;
  }
  if (bytes < missingBytes) return [];
  // A small model need not be unloaded if a later one alone is enough.
  return chosen.filter(({ reservedBytes }) => {
    if (bytes - reservedBytes < missingBytes) return true;
    bytes -= reservedBytes;
    return false;
  });
}

function sumOf(models: readonly GateModel[]): number {
  return models.reduce((sum, { reservedBytes }) => sum + reservedBytes, 0);
}

function noRoom({ minBytes: neededBytes, explanation }: Footprint, possibleBytes: number): NoRoom {
  const availableBytes = Math.max(0, possibleBytes);
  const numbers = `the model needs ${megabytes(neededBytes)}, but only ${megabytes(availableBytes)} are available`;
  return new NoRoom(`Not enough memory: ${numbers}.${explanation}`, { neededBytes, availableBytes });
}

/**
 * Returns the memory of a process that the system does not count as available, in bytes; null: unknown. The files that it
 * has mapped, such as its model, are counted as available.
 */
export function anonymousBytes(pid: number): number | null {
  try {
    const status = readFileSync(`/proc/${pid}/status`, 'utf8');
    const kilobytes = /^RssAnon:\s+(\d+) kB$/m.exec(status)?.[1];
    return kilobytes === undefined ? null : Number(kilobytes) * 1024;
  } catch {
    return null; // Another operating system, or the process has exited.
  }
}
