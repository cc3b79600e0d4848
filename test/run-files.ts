import { join } from 'node:path';
import { after, suite } from 'node:test';
import { measure } from './measure.ts';
import { ROOT } from './reached.ts';

/**
 * Runs test files in this process, one after another. Each is a suite, so that its hooks run only for its tests. A failed
 * test is reported with its own file.
 */
export async function runFiles(files: readonly string[]): Promise<void> {
  for (const file of files) await runFile(file);
}

function runFile(file: string): Promise<void> {
  return new Promise((resolve) => {
    suite(file, async () => {
      try {
        await import(join(ROOT, file));
      } finally {
        // The last hook of the suite, so that the next file is loaded when this one has cleaned up.
        after(() => {
          measure(file);
          resolve();
        });
      }
    });
  });
}
