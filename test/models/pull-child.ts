import { SILENT } from '../../src/log.ts';
import { ModelStore } from '../../src/models/store.ts';

/** Pulls a model in a process of its own and prints how many bytes it has, for tests that kill it. */
const [home = '', name = ''] = process.argv.slice(2);
const store = new ModelStore({ home, log: SILENT, env: process.env });
await store.pull(name, { onProgress: ({ receivedBytes }) => process.stdout.write(`${receivedBytes}\n`) });
