import { extname } from 'node:path';

/** How users call the program, for messages: `npx sluice` in a clone, whose sources are TypeScript, else `sluice`. */
export const PROGRAM = extname(import.meta.filename) === '.ts' ? 'npx sluice' : 'sluice';
