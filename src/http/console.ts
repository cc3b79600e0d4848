import { existsSync } from 'node:fs';
import { join } from 'node:path';
import fastifyStatic from '@fastify/static';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';

/** Where the built console stands, in a clone and in the installed package alike. */
const CONSOLE_FOLDER = join(import.meta.dirname, '..', '..', 'console', 'dist');

/** Whether the console is built. */
export function consoleIsBuilt(): boolean {
  return existsSync(join(CONSOLE_FOLDER, 'index.html'));
}

/** Nothing but what comes from here as a file: no inline script or style, no frame, no other place to send to. */
const POLICY = [
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
  'content-security-policy': POLICY,
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
  'referrer-policy': 'no-referrer',
  'cross-origin-opener-policy': 'same-origin',
  'permissions-policy': 'camera=(), microphone=(), geolocation=(), payment=()',
};

/** Names of these files change with what is in them. */
const FOR_EVER = 'public, max-age=31536000, immutable';

/** Serves the files of the console; its pages are all one file, which `answerPage` sends. */
export function registerConsole(app: FastifyInstance): void {
  if (!consoleIsBuilt()) return;
  app.register(fastifyStatic, {
    root: CONSOLE_FOLDER,
    index: false,
    wildcard: false,
    preCompressed: true,
    cacheControl: false,
    setHeaders: (reply, path) => {
      for (const [name, value] of Object.entries(HEADERS)) reply.header(name, value);
      reply.header('cache-control', path.includes('/assets/') ? FOR_EVER : 'no-cache');
    },
  });
}

/** Paths that are no pages: what is asked of them is asked by programs. */
const INTERFACES = /^\/(?:v1|api|assets)(?:\/|$)|^\/(?:healthz|readyz|metrics|openapi\.json)$/;

/** Whether somebody asks for a page of the console: whoever opens an address in a browser says that it takes HTML. */
export function asksForPage(request: FastifyRequest): boolean {
  const path = (request.raw.url ?? '').split('?', 1)[0] ?? '';
  if (request.method !== 'GET' && request.method !== 'HEAD') return false;
  if (path !== '/' && !(request.headers.accept ?? '').includes('text/html')) return false;
  return !INTERFACES.test(path);
}

/** Sends the console's one page, which finds by the address what to show; or says that it is not built. */
export async function answerPage(reply: FastifyReply): Promise<void> {
  if (consoleIsBuilt()) {
    await reply.sendFile('index.html');
    return;
  }
  await reply
    .code(503)
    .headers({ ...HEADERS, 'content-type': 'text/plain; charset=utf-8' })
    .send('The console is not built. Run `npm run build:console`, then restart the service.\n');
}
