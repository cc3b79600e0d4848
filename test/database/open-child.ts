/** Opens the database of the folder given, once it is told to. */
import { once } from 'node:events';
import { argv } from 'node:process';
import { openDatabase } from '../../src/database/database.ts';

const go = once(process, 'message');
process.send?.('ready');
await go;
await using _database = await openDatabase({ home: argv[2] ?? '', url: null });
process.disconnect?.();
