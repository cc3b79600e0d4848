import { SILENT } from '../../src/support/log.ts';
import { ModelStore } from '../../src/models/store.ts';

/** Pulls a model and prints the received bytes, for tests that kill this process. */
const [home = '', name = ''] = process.argv.slice(2);
const store = new ModelStore({ home, log: SILENT, env: process.env });
await store.pull(name, { onProgress: ({ receivedBytes }) => process.stdout.write(`${receivedBytes}\n`) });
