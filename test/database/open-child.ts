/** Waits for a message, then opens the database that the environment names. */
import { once } from 'node:events';
import { databaseOf } from '../../src/config/load.ts';
import { openDatabase } from '../../src/database/database.ts';

const go = once(process, 'message');
process.send?.('ready');
await go;
await using _database = await openDatabase(databaseOf(process.env));
process.disconnect?.();
