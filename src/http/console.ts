import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import fastifyStatic from '@fastify/static';
import type { FastifyError, FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';

/** Directory of the built console, in a clone and in the installed package. */
const CONSOLE_FOLDER = join(import.meta.dirname, '..', '..', 'console', 'dist');

export function consoleIsBuilt(): boolean {
  return existsSync(join(CONSOLE_FOLDER, 'index.html'));
}

/** Allows only files of this service: no inline scripts or styles, no frames, no requests to other origins. */
const CONTENT_SECURITY_POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "font-src 'self'",
  "connect-src 'self'",
  "form-action 'self'",
  "base-uri 'none'",
  "frame-ancestors 'none'",
].join('; ');

const HEADERS = {
  'content-security-policy': CONTENT_SECURITY_POLICY,
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
  'referrer-policy': 'no-referrer',
  'cross-origin-opener-policy': 'same-origin',
  'permissions-policy': 'camera=(), microphone=(), geolocation=(), payment=()',
};

/** For files whose names contain a hash of their content. */
const IMMUTABLE = 'public, max-age=31536000, immutable';

/** Serves the files of the console, except its pages (`sendPage`). */
export function registerConsole(app: FastifyInstance): void {
  if (!consoleIsBuilt()) return;
  app.register(fastifyStatic, {
    root: CONSOLE_FOLDER,
    serve: false,
    preCompressed: true,
    cacheControl: false,
    setHeaders: (reply, path) => {
      for (const [name, value] of Object.entries(HEADERS)) reply.header(name, value);
      reply.header('cache-control', path.includes('/assets/') ? IMMUTABLE : 'no-cache');
    },
  });
  const errorHandler = (error: FastifyError, request: FastifyRequest, reply: FastifyReply): void => {
    // The client disconnected before the end of the file.
    if (error.code === 'ERR_STREAM_PREMATURE_CLOSE') request.raw.destroy();
    else app.errorHandler(error, request, reply);
  };
  // One route for all files. `@fastify/static` would add one per file, and hundreds of routes take most of the startup
  // time.
  const assets = filesOf(join(CONSOLE_FOLDER, 'assets'));
  app.get<{ Params: { name: string } }>('/assets/:name', { errorHandler }, (request, reply) => {
    const { name } = request.params;
    return assets.has(name) ? reply.sendFile(`assets/${name}`) : reply.callNotFound();
  });
  for (const file of filesOf(CONSOLE_FOLDER)) {
    app.get(`/${file}`, { errorHandler }, (_request, reply) => reply.sendFile(file));
  }
}

/** Returns the names of the files in a folder, without their compressed copies. */
function filesOf(folder: string): ReadonlySet<string> {
  const entries = readdirSync(folder, { withFileTypes: true });
  return new Set(
    entries.filter((entry) => entry.isFile() && !/\.(?:br|gz)$/.test(entry.name)).map(({ name }) => name),
  );
}

/** Paths of the API and of assets, which never return a page of the console. */
const API_PATHS = /^\/(?:v1|api|assets)(?:\/|$)|^\/(?:healthz|readyz|metrics|openapi\.json)$/;

/** Whether a browser requests a page of the console. Except for `/`, the request must accept HTML. */
export function isPageRequest(request: FastifyRequest): boolean {
  const path = (request.raw.url ?? '').split('?', 1)[0] ?? '';
  if (request.method !== 'GET' && request.method !== 'HEAD') return false;
  if (path !== '/' && !(request.headers.accept ?? '').includes('text/html')) return false;
  return !API_PATHS.test(path);
}

/** Sends the single page of the console, or an error if the console is not built. */
export async function sendPage(reply: FastifyReply): Promise<void> {
  if (consoleIsBuilt()) {
    await reply.sendFile('index.html');
    return;
  }
  await reply
    .code(503)
    .headers({ ...HEADERS, 'content-type': 'text/plain; charset=utf-8' })
    .send('The console is not built. Run `npm run build:console`, then restart the service.\n');
}
