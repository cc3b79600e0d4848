/** The setup of most console tests: a service, a browser, and a signed-in operator. */
import assert from 'node:assert/strict';
import type { Page } from 'playwright-core';
import { ready, scriptedYaml, type OpenedService } from '../harness.ts';
import { OPERATOR } from '../operator.ts';
import { openBrowser, type TestBrowser, type View, type Visitor } from './browser.ts';
import { openConsole, setUp } from './service.ts';

/** Fails when it is disposed if one of its pages violated the Content-Security-Policy, threw, or logged an error. */
export interface Stage extends AsyncDisposable {
  service: OpenedService;
  browser: TestBrowser;
  /** The first operator, signed in. */
  operator: Visitor;
  /** Opens a session without cookies. */
  stranger(view?: View): Promise<Visitor>;
}

/** Opens a service with a scripted model and creates the first operator. */
export async function openStage(yaml: string = scriptedYaml(), env: NodeJS.ProcessEnv = {}): Promise<Stage> {
  await using owned = new AsyncDisposableStack();
  const service = owned.use(await openConsole(yaml, env));
  const browser = owned.use(await openBrowser());
  const visitors: Visitor[] = [];
  const visit = async (view?: View) => {
    const visitor = await browser.visit(service.url, view);
    visitors.push(visitor);
    return visitor;
  };
  const operator = owned.use(await visit());
  await setUp(operator.context, service);
  await ready(service.service);
  const kept = owned.move();
  return {
    service,
    browser,
    operator,
    stranger: visit,
    async [Symbol.asyncDispose]() {
      await kept.disposeAsync();
      assert.deepEqual(
        visitors.flatMap(({ faults }) => faults),
        [],
      );
    },
  };
}

/** Fills in and submits the sign-in form. */
export async function signInOn(page: Page, { email, password } = OPERATOR): Promise<void> {
  await page.getByLabel('Email').fill(email);
  await page.getByLabel('Password', { exact: true }).fill(password);
  await page.getByRole('button', { name: 'Sign in' }).click();
}

/** Creates a key of the default account. */
export async function newKey({ service }: OpenedService, name = 'app'): Promise<{ key: string; id: string }> {
  const { key, record } = await service.keys.create({ name });
  return { key: key.reveal(), id: record.id };
}
