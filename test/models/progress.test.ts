import assert from 'node:assert/strict';
import { describe, it, mock } from 'node:test';
import { describeProgress, formatBytes, ProgressBar } from '../../src/commands/progress-bar.ts';
import { terminal } from '../commands/terminals.ts';
import { ProgressMeter, type PullProgress } from '../../src/models/progress.ts';

describe('the progress of a pull', () => {
  it('has the speed over the last seconds, and the time left at that speed', () => {
    let now = 0;
    const reports: PullProgress[] = [];
    using meter = new ProgressMeter({
      file: 'f',
      source: 's',
      now: () => now,
      onProgress: (progress) => reports.push(progress),
    });
    meter.begin('downloading', 0, 100_000);
    for (let second = 1; second <= 20; second++) {
      now = second * 1000;
      meter.update(second < 10 ? 0 : (second - 9) * 1000);
    }
    const last = reports.at(-1);
    assert.deepEqual([last?.bytesPerSecond, last?.secondsLeft], [1000, 89]);
  });

  it('is limited to ten reports a second, except for the end', () => {
    mock.timers.enable({ apis: ['setTimeout'] });
    try {
      let now = 0;
      const reported: number[] = [];
      using meter = new ProgressMeter({
        file: 'f',
        source: 's',
        now: () => now,
        onProgress: ({ receivedBytes }) => reported.push(receivedBytes),
      });
      meter.begin('downloading', 0, 10);
      meter.update(1);
      meter.update(2);
      assert.deepEqual(reported, [0]);
      now = 100;
      mock.timers.tick(100);
      assert.deepEqual(reported, [0, 2]);
      meter.update(3);
      meter.update(10);
      assert.deepEqual(reported, [0, 2, 10]);
      meter.begin('checking', 0, 10);
      meter.update(5);
      meter[Symbol.dispose]();
      now = 1000;
      mock.timers.tick(1000);
      assert.deepEqual(reported, [0, 2, 10, 0]);
    } finally {
      mock.timers.reset();
    }
  });
});

function progressAt(receivedBytes: number, changes: Partial<PullProgress> = {}): PullProgress {
  return {
    file: 'tiny.gguf',
    source: 'hf:o/r/tiny.gguf',
    phase: 'downloading',
    receivedBytes,
    totalBytes: 100e6,
    bytesPerSecond: 2e6,
    secondsLeft: (100e6 - receivedBytes) / 2e6,
    note: null,
    ...changes,
  };
}

describe('a progress bar', () => {
  it('without a terminal, reports the start of each phase, and then every ten seconds', () => {
    let now = 0;
    const lines: string[] = [];
    using bar = new ProgressBar({
      terminal: null,
      onMilestone: (progress) => lines.push(describeProgress(progress)),
      now: () => now,
    });
    for (let percent = 0; percent <= 100; percent++) {
      now = percent * 250;
      bar.update(progressAt(percent * 1e6));
    }
    bar.update(progressAt(0, { phase: 'checking' }));
    assert.deepEqual(lines, [
      'Downloading tiny.gguf from hf:o/r/tiny.gguf, 0 bytes of 100 MB, 2.0 MB/s, 50 s left',
      'Downloading tiny.gguf, 40 MB of 100 MB, 2.0 MB/s, 30 s left',
      'Downloading tiny.gguf, 80 MB of 100 MB, 2.0 MB/s, 10 s left',
      'Verifying tiny.gguf from hf:o/r/tiny.gguf, 0 bytes of 100 MB, 2.0 MB/s, 50 s left',
    ]);
  });

  it('reports a failed source once', () => {
    const notes: string[] = [];
    using bar = new ProgressBar({
      terminal: null,
      onMilestone: () => {},
      onNote: (note) => notes.push(note),
    });
    const note = 'hf:o/r/tiny.gguf: no network';
    for (const received of [0, 1, 2]) bar.update(progressAt(received, { phase: 'unpacking', note }));
    assert.deepEqual(notes, [note]);
  });

  it('shows bytes, speed and time left on a terminal, and is erased at the end', () => {
    const written: string[] = [];
    {
      using bar = new ProgressBar({ terminal: terminal(written), onMilestone: () => assert.fail() });
      bar.update(progressAt(50e6));
    }
    assert.deepEqual(written, [
      '\r\x1b[2KDownloading tiny.gguf  [████████████░░░░░░░░░░░░]  50 MB of 100 MB  2.0 MB/s  25 s left',
      '\r\x1b[2K',
    ]);
  });

  it('has decimal units', () => {
    assert.deepEqual([999, 1000, 98_362_432, 1.32e9].map(formatBytes), [
      '999 bytes',
      '1 kB',
      '98 MB',
      '1.32 GB',
    ]);
  });
});
