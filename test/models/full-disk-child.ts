import { stat } from 'node:fs/promises';
import { SILENT } from '../../src/support/log.ts';
import { Layout } from '../../src/models/layout.ts';
import { PullError } from '../../src/models/errors.ts';
import { parseSource } from '../../src/models/source.ts';
import { ModelStore } from '../../src/models/store.ts';

/** Pulls a model to a disk that appears to be large enough but is not, and prints the error as JSON. */
const [home = '', name = ''] = process.argv.slice(2);
const store = new ModelStore({ home, log: SILENT, env: process.env, freeBytes: async () => 1e12 });
try {
  await store.pull(name);
} catch (error) {
  if (!(error instanceof PullError)) throw error;
  const [file = ''] = new Layout(home).files(parseSource(name));
  const { size } = await stat(`${file}.part`);
  process.stdout.write(JSON.stringify({ fault: error.fault, message: error.message, partBytes: size }));
}
