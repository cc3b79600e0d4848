import { extname } from 'node:path';

/** The command that users type: `npx sluice` in a clone, whose sources are TypeScript, else `sluice`. */
export const PROGRAM = extname(import.meta.filename) === '.ts' ? 'npx sluice' : 'sluice';
