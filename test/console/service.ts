/** A real service with its console, and signed-in users. */
import assert from 'node:assert/strict';
import type { BrowserContext } from 'playwright-core';
import { openDatabase } from '../../src/database/database.ts';
import { openService, until, type OpenedService } from '../harness.ts';
import { FakeHub } from '../models/fake-hub.ts';
import { OPERATOR, setupToken } from '../operator.ts';
import { buildConsole } from './build.ts';
import type { TestBrowser } from './browser.ts';
import { DOWNLOAD, SEED_MODELS, seedYaml } from './seed-models.ts';
import { seed } from './seed.ts';

/** Opens a service on a new data directory with the current console. Models may still be loading. */
export function openConsole(yaml?: string, env: NodeJS.ProcessEnv = {}): Promise<OpenedService> {
  buildConsole();
  return openService(yaml, env);
}

/** A seeded service with a signed-in operator. */
export interface SeededService extends OpenedService {
  /** Cookies of the operator's session. */
  cookies: Awaited<ReturnType<BrowserContext['cookies']>>;
}

/** Opens a service with weeks of usage, models in every state, and a signed-in operator. */
export async function openSeededService(browser: TestBrowser, requests?: number): Promise<SeededService> {
  await using owned = new AsyncDisposableStack();
  const hub = owned.use(await stallingHub());
  const service = owned.use(await openConsole(seedYaml(), { HF_ENDPOINT: hub.endpoint }));
  await using operator = await browser.visit(service.url);
  const operatorId = await setUp(operator.context, service);
  {
    await using database = await openDatabase({ home: service.home, url: null });
    await seed(database, { operatorId, requests });
  }
  const ready = SEED_MODELS.filter(({ state }) => state === 'ready').length;
  await until(() => service.service.router.cards().length >= ready);
  const cookies = await operator.context.cookies();
  const kept = owned.move();
  return { ...service, cookies, [Symbol.asyncDispose]: () => kept.disposeAsync() };
}

/** Opens a hub that sends part of the file and then stalls. */
async function stallingHub(): Promise<FakeHub> {
  const hub = await FakeHub.open();
  const { name, totalBytes, receivedBytes } = DOWNLOAD;
  hub.files.set(name, Buffer.alloc(receivedBytes));
  hub.linkedSha256 = '0'.repeat(64);
  hub.linkedSize = totalBytes;
  hub.script = [{ contentLength: totalBytes, stallAfter: receivedBytes, dripMs: 5000 }];
  return hub;
}

/** Creates the first operator, signed in to this context. Resolves with the user id. */
export async function setUp(
  context: BrowserContext,
  service: Pick<OpenedService, 'home' | 'url'>,
  user = OPERATOR,
): Promise<string> {
  const token = await setupToken(service);
  await post(context, service.url, '/api/setup', { token, ...user });
  return await userId(context, service.url);
}

/** Signs a user in to this context. */
export async function signIn(context: BrowserContext, url: string, user = OPERATOR): Promise<void> {
  const { email, password } = user;
  const { status } = await post(context, url, '/api/sign-in', { email, password });
  assert.equal(status, 'signed_in');
}

/** Sends a POST request with the cookies of this context and resolves with the response body. Only 2xx is accepted. */
export async function post(
  context: BrowserContext,
  url: string,
  path: string,
  data: object,
): Promise<Record<string, unknown>> {
  const response = await context.request.post(url + path, { data, headers: { origin: url } });
  assert.ok(response.ok(), `POST ${path}: ${response.status()} ${await response.text()}`);
  // All responses of the management API are objects.
  return (await response.json()) as Record<string, unknown>;
}

/** Returns the ID of the user who is signed in to this context. */
export async function userId(context: BrowserContext, url: string): Promise<string> {
  const response = await context.request.get(`${url}/api/session`);
  // According to the contract.
  const { user } = (await response.json()) as { user: { id: string } | null };
  assert.ok(user, 'no user is signed in');
  return user.id;
}
