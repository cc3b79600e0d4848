import { API_PATHS } from './api/endpoints.ts';

/** The paths and methods of all endpoints except the management API. `*` matches the rest of a path. */
export const PATHS = [
  ['/v1/chat/completions', ['POST']],
  ['/v1/completions', ['POST']],
  ['/v1/models', ['GET', 'HEAD']],
  ['/v1/models/*', ['GET', 'HEAD']],
  ['/healthz', ['GET', 'HEAD']],
  ['/readyz', ['GET', 'HEAD']],
  ['/openapi.json', ['GET', 'HEAD']],
] as const satisfies readonly (readonly [path: string, methods: readonly string[]])[];

/** Returns the methods that a path supports; null: unknown path. */
export function methodsOf(path: string): readonly string[] | null {
  const trimmed = path.length > 1 && path.endsWith('/') ? path.slice(0, -1) : path;
  for (const [pattern, methods] of PATHS) {
    if (pattern === trimmed) return methods;
    if (pattern.endsWith('*') && trimmed.startsWith(pattern.slice(0, -1))) return methods;
  }
  const endpoint = API_PATHS.find(([pattern]) => matches(trimmed.split('/'), pattern.split('/')));
  return endpoint?.[1] ?? null;
}

/** Compares a path with a pattern, whose names in braces match any text. */
function matches(path: readonly string[], pattern: readonly string[]): boolean {
  return (
    path.length === pattern.length &&
    pattern.every((part, index) => (part.startsWith('{') ? path[index] !== '' : part === path[index]))
  );
}
