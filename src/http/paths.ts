import { API_PATHS } from './api/endpoints.ts';
import { COUNT_PATH } from '../protocols/anthropic/count.ts';
import { didYouMean } from '../support/nearest.ts';
import { pathsOf, PROTOCOLS } from './protocols.ts';

/** The paths and methods of all endpoints except the management API. `*` matches the rest of a path. */
export const PATHS = [
  ...PROTOCOLS.flatMap(pathsOf).map((path) => [path, ['POST']] as const),
  [COUNT_PATH, ['POST']],
  ['/v1/models', ['GET', 'HEAD']],
  ['/v1/models/*', ['GET', 'HEAD']],
  ['/healthz', ['GET', 'HEAD']],
  ['/readyz', ['GET', 'HEAD']],
  ['/metrics', ['GET', 'HEAD']],
  ['/openapi.json', ['GET', 'HEAD']],
] as const satisfies readonly (readonly [path: string, methods: readonly string[]])[];

const PATTERNS = [...PATHS, ...API_PATHS].map(([path, methods]) => {
  const pattern = path
    .replace('.', String.raw`\.`)
    .replace('*', '.*')
    .replaceAll(/\{\w+\}/g, '[^/]+');
  return { pattern: new RegExp(`^${pattern}/?$`), methods };
});

/** Returns the methods that a path supports; null: unknown path. */
export function methodsOf(path: string): readonly string[] | null {
  return PATTERNS.find(({ pattern }) => pattern.test(path))?.methods ?? null;
}

/** Maximum length of a path that a hint repeats. */
const MAX_HINT = 200;

/** Returns ` Did you mean …?` for a path with a missing, repeated or wrong prefix, or a spelling error; empty if none is near. */
export function hintFor(path: string): string {
  if (path.startsWith('/v1/responses/')) {
    return ' Responses are not stored: keep the items of `output`, and send them in `input`.';
  }
  const candidates = [`/v1${path}`, path.slice(path.lastIndexOf('/v1/'))];
  const right = candidates.find((candidate) => candidate.startsWith('/v1/') && methodsOf(candidate));
  if (right !== undefined && right.length <= MAX_HINT) return ` Did you mean \`${right}\`?`;
  return didYouMean(
    path,
    PROTOCOLS.map((protocol) => protocol.path),
  );
}
