/** Every endpoint: its path, where `*` stands for the rest, and its methods. The server's answer to any other. */
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
  return null;
}
