/**
 * Runs the test files in `SLUICE_TEST_PURE` in this process, because starting a process and loading the sources costs more than
 * most of them. A failed test is reported with its own file.
 */
import { join } from 'node:path';
import { ROOT } from './reached.ts';

for (const file of (process.env.SLUICE_TEST_PURE ?? '').split('\n')) await import(join(ROOT, file));
