import { createRequire } from 'node:module';

/** The version in `package.json`, one folder above both `src/` and `dist/`. */
export const VERSION: string = read();

function read(): string {
  const found: unknown = createRequire(import.meta.url)('../package.json');
  return typeof found === 'object' && found !== null && 'version' in found
    ? String(found.version)
    : 'unknown';
}
