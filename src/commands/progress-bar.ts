import { Presets, SingleBar } from 'cli-progress';
import type { PullPhase, PullProgress } from '../models/progress.ts';

const LINE_EVERY_MS = 10_000;

const VERBS: Readonly<Record<PullPhase, string>> = {
  connecting: 'Requesting',
  downloading: 'Downloading',
  unpacking: 'Extracting',
  checking: 'Verifying',
  waiting: 'Another process is downloading',
};

/**
 * Shows the progress of a download: a bar on a terminal, else a line for each 10% and every ten seconds. Disposing
 * ends the bar and its line.
 */
export class ProgressBar implements Disposable {
  readonly #stream: NodeJS.WriteStream;
  readonly #now: () => number;
  #bar: SingleBar | null = null;
  #note: string | null = null;
  #lineKey = '';
  #lineAtMs = 0;
  #lineTenths = 0;

  constructor(stream: NodeJS.WriteStream, now: () => number = () => performance.now()) {
    this.#stream = stream;
    this.#now = now;
  }

  /** For `onProgress`. */
  readonly update = (progress: PullProgress): void => {
    if (progress.note !== null && progress.note !== this.#note) {
      this.#endBar();
      this.#stream.write(`Could not download from ${progress.note}\n`);
      this.#note = progress.note;
    }
    if (this.#stream.isTTY) this.#draw(progress);
    else this.#line(progress);
  };

  [Symbol.dispose](): void {
    this.#endBar();
  }

  #draw(progress: PullProgress): void {
    const total = progress.totalBytes ?? Math.max(1, progress.receivedBytes);
    const payload = { what: `${VERBS[progress.phase]} ${progress.file}`, ...formatAmounts(progress) };
    const key = `${progress.phase} ${progress.file} ${progress.source}`;
    if (this.#bar === null || key !== this.#lineKey) {
      this.#endBar();
      this.#lineKey = key;
      this.#bar = new SingleBar(
        {
          stream: this.#stream,
          format: '{what} [{bar}] {bytes} {speed} {left}',
          barsize: 24,
          hideCursor: true,
        },
        Presets.shades_classic,
      );
      this.#bar.start(total, progress.receivedBytes, payload);
    }
    this.#bar.setTotal(total);
    this.#bar.update(progress.receivedBytes, payload);
  }

  #endBar(): void {
    this.#bar?.stop();
    this.#bar = null;
  }

  #line(progress: PullProgress): void {
    const now = this.#now();
    const { receivedBytes, totalBytes } = progress;
    const tenths = totalBytes === null ? 0 : Math.floor((10 * receivedBytes) / Math.max(1, totalBytes));
    const key = `${progress.phase} ${progress.file} ${progress.source}`;
    const due = now - this.#lineAtMs >= LINE_EVERY_MS || tenths > this.#lineTenths;
    if (key === this.#lineKey && !due) return;
    this.#lineKey = key;
    this.#lineAtMs = now;
    this.#lineTenths = tenths;
    this.#stream.write(`${describeProgress(progress)}\n`);
  }
}

function describeProgress(progress: PullProgress): string {
  const { bytes, speed, left } = formatAmounts(progress);
  const from = progress.receivedBytes === 0 ? ` from ${progress.source}` : '';
  return [`${VERBS[progress.phase]} ${progress.file}${from}`, bytes, speed, left]
    .filter((part) => part !== '')
    .join(', ');
}

/** Formats bytes in decimal units, such as `98.4 MB` or `1.32 GB`. */
export function formatBytes(bytes: number): string {
  if (bytes >= 1e9) return `${(bytes / 1e9).toFixed(2)} GB`;
  if (bytes >= 1e6) return `${(bytes / 1e6).toFixed(1)} MB`;
  if (bytes >= 1e3) return `${(bytes / 1e3).toFixed(0)} kB`;
  return `${bytes} bytes`;
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

function formatSeconds(seconds: number): string {
  const whole = Math.ceil(seconds);
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
  return `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} min`;
}
