import { API_PATHS } from './api/endpoints.ts';

/** Every endpoint but those of the management interface: its path, where `*` stands for the rest, and its methods. The server's answer to any other. */
export const PATHS = [
  ['/v1/chat/completions', ['POST']],
  ['/v1/completions', ['POST']],
  ['/v1/models', ['GET', 'HEAD']],
  ['/v1/models/*', ['GET', 'HEAD']],
  ['/healthz', ['GET', 'HEAD']],
  ['/readyz', ['GET', 'HEAD']],
  ['/openapi.json', ['GET', 'HEAD']],
] as const satisfies readonly (readonly [path: string, methods: readonly string[]])[];

/** The methods that a path answers; null where no endpoint has it. */
export function methodsOf(path: string): readonly string[] | null {
  const trimmed = path.length > 1 && path.endsWith('/') ? path.slice(0, -1) : path;
  for (const [pattern, methods] of PATHS) {
    if (pattern === trimmed) return methods;
    if (pattern.endsWith('*') && trimmed.startsWith(pattern.slice(0, -1))) return methods;
  }
  const known = API_PATHS.find(([pattern]) => fits(trimmed.split('/'), pattern.split('/')));
  return known?.[1] ?? null;
}

/** Whether each part of a path is that of the pattern, or stands for a name in braces. */
function fits(path: readonly string[], pattern: readonly string[]): boolean {
  return (
    path.length === pattern.length &&
    pattern.every((part, index) => (part.startsWith('{') ? path[index] !== '' : part === path[index]))
  );
}
