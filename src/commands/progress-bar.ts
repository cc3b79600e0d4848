import type { PullPhase, PullProgress } from '../models/progress.ts';

const LINE_EVERY_MS = 10_000;

const VERBS: Readonly<Record<PullPhase, string>> = {
  connecting: 'Requesting',
  downloading: 'Downloading',
  unpacking: 'Extracting',
  checking: 'Verifying',
  waiting: 'Another process is downloading',
};

interface ProgressOutput {
  /** Null if the output is not a terminal. */
  terminal: Terminal | null;
  /** Called if there is no terminal: when the phase, file or source changes, and every ten seconds. */
  onMilestone(progress: PullProgress): void;
  /** Called once with each reason why a source failed. */
  onNote?: (note: string) => void;
  /** Monotonic milliseconds. */
  now?: () => number;
}

/** Shows a download: on a terminal as a bar with bytes, speed and time left, otherwise as a line at each milestone. */
export class ProgressBar implements Disposable {
  readonly #output: ProgressOutput;
  readonly #now: () => number;
  readonly #notes = new Set<string>();
  #key = '';
  #milestoneAtMs = 0;

  constructor(output: ProgressOutput) {
    this.#output = output;
    this.#now = output.now ?? (() => performance.now());
  }

  /** Shows the progress. Pass this as `onProgress`. */
  readonly update = (progress: PullProgress): void => {
    const { note } = progress;
    if (note !== null && !this.#notes.has(note)) {
      this.#notes.add(note);
      this.#output.onNote?.(note);
    }
    if (this.#output.terminal) this.#output.terminal.setStatus(barOf(progress));
    else if (this.#isDue(progress)) this.#output.onMilestone(progress);
  };

  /** Removes the bar. */
  [Symbol.dispose](): void {
    this.#output.terminal?.setStatus('');
  }

  #isDue(progress: PullProgress): boolean {
    const now = this.#now();
    const key = `${progress.phase} ${progress.file} ${progress.source}`;
    if (key === this.#key && now - this.#milestoneAtMs < LINE_EVERY_MS) return false;
    this.#key = key;
    this.#milestoneAtMs = now;
    return true;
  }
}

/** Describes the progress in one line. */
export function describeProgress(progress: PullProgress): string {
  const { bytes, speed, left } = formatAmounts(progress);
  const from = progress.receivedBytes === 0 ? ` from ${progress.source}` : '';
  return [`${VERBS[progress.phase]} ${progress.file}${from}`, bytes, speed, left]
    .filter((part) => part !== '')
    .join(', ');
}

/** Formats bytes in decimal units, such as `98 MB` or `1.32 GB`. */
export function formatBytes(bytes: number): string {
  if (bytes >= 1e9) return `${(bytes / 1e9).toFixed(2)} GB`;
  if (bytes >= 1e7) return `${(bytes / 1e6).toFixed(0)} MB`;
  if (bytes >= 1e6) return `${(bytes / 1e6).toFixed(1)} MB`;
  if (bytes >= 1e3) return `${(bytes / 1e3).toFixed(0)} kB`;
  return `${bytes} bytes`;
}

const BAR_WIDTH = 24;

/** Formats a line such as `Downloading model.gguf  [████░░░░]  49 MB of 98 MB  2.0 MB/s  25 s left`. */
function barOf(progress: PullProgress): string {
  const { receivedBytes, totalBytes, phase, file } = progress;
  const { bytes, speed, left } = formatAmounts(progress);
  const fraction = totalBytes === null ? 0 : Math.min(1, receivedBytes / Math.max(1, totalBytes));
  const parts = [`${VERBS[phase]} ${file}`, totalBytes === null ? '' : bar(fraction), bytes, speed, left];
  return parts.filter((part) => part !== '').join('  ');
}

/** Draws a fraction from 0 to 1. */
export function bar(fraction: number): string {
  const full = Math.round(fraction * BAR_WIDTH);
  return `[${'█'.repeat(full)}${'░'.repeat(BAR_WIDTH - full)}]`;
}

function formatAmounts(progress: PullProgress): { bytes: string; speed: string; left: string } {
  const { receivedBytes, totalBytes, bytesPerSecond, secondsLeft } = progress;
  const total = totalBytes === null ? '' : ` of ${formatBytes(totalBytes)}`;
  return {
    bytes: receivedBytes === 0 && totalBytes === null ? '' : `${formatBytes(receivedBytes)}${total}`,
    speed: bytesPerSecond > 0 ? `${formatBytes(bytesPerSecond)}/s` : '',
    left: secondsLeft === null ? '' : `${formatSeconds(secondsLeft)} left`,
  };
}

/** Formats a duration, such as `25 s` or `2 min 5 s`. */
export function formatSeconds(seconds: number): string {
  const whole = Math.ceil(seconds);
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
  return `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} min`;
}

/** A terminal whose printed lines scroll above one line that is redrawn in place, such as a progress bar. */
export class Terminal {
  readonly #stream: NodeJS.WriteStream;
  #status = '';

  constructor(stream: NodeJS.WriteStream) {
    this.#stream = stream;
  }

  /** Returns null if the stream is not a terminal. */
  static of(stream: NodeJS.WriteStream): Terminal | null {
    return stream.isTTY ? new Terminal(stream) : null;
  }

  /** Prints lines above the status line. */
  print(text: string): void {
    this.#stream.write(this.#status === '' ? `${text}\n` : `${ERASE}${text}\n${this.#status}`);
  }

  /** Replaces the status line, cut to the width of the terminal. The empty string removes it. */
  setStatus(text: string): void {
    const status = text.slice(0, Math.max(0, (this.#stream.columns || 80) - 1));
    if (status === this.#status) return;
    this.#status = status;
    this.#stream.write(`${ERASE}${status}`);
  }
}

/** Returns to the start of the line and erases it. */
const ERASE = '\r\x1b[2K';
