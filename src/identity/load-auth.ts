import { setImmediate } from 'node:timers/promises';

/**
 * Parts of better-auth, each of which takes at most about 30 ms to compile and run. Imported at once, they block the
 * event loop, and with it every stream, for more than 100 ms.
 */
const PARTS: readonly (() => Promise<unknown>)[] = [
  () => import('better-auth/crypto'),
  () => import('better-auth/adapters'),
  () => import('better-auth/social-providers'),
  () => import('better-auth/oauth2'),
  () => import('better-auth/db'),
  () => import('better-auth/api'),
  () => import('better-auth/minimal'),
  () => import('better-auth/plugins/generic-oauth'),
];

/** Imports better-auth part by part, and returns the modules that use it. Other work runs between two parts. */
export async function loadAuth() {
  for (const part of PARTS) {
    await part();
    await setImmediate();
  }
  const { openAuth } = await import('./auth.ts');
  const { providerAuth } = await import('./providers.ts');
  return { openAuth, providerAuth };
}
