import assert from 'node:assert/strict';
import { join } from 'node:path';
import { run, type ProcessResult } from '../../harness.ts';

/** An interpreter with the packages in `test/requirements.txt`. */
export const python = process.env.SLUICE_TEST_PYTHON ?? '';

/** Options of tests that need Python. */
export const WITH_PYTHON = { skip: python === '' && 'SLUICE_TEST_PYTHON is not set' };

/** Runs each Python program in its own process, one after another. Returns their results in the same order. */
export async function runPython(
  programs: readonly string[],
  env: NodeJS.ProcessEnv,
): Promise<ProcessResult[]> {
  const script = join(import.meta.dirname, 'run_python.py');
  const { code, stdout, stderr } = await run(python, [script], env, { input: JSON.stringify(programs) });
  assert.equal(code, 0, stderr);
  return JSON.parse(stdout) as ProcessResult[];
}
