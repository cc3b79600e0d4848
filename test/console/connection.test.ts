/** Pages that are open while the service does not respond, or when the session ends. */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { Page } from 'playwright-core';
import { until } from '../harness.ts';
import { WITH_BROWSER, type Visitor } from './browser.ts';
import { signIn } from './service.ts';
import { openStage, signInOn, type Stage } from './stage.ts';

/** How often the console reads the session, in milliseconds. */
const SESSION_EVERY_MS = 10_000;
/** How long it waits for the response. */
const SESSION_TIMEOUT_MS = 5000;

/** Lets a test fast-forward a visitor's pages, including `AbortSignal.timeout`, which Playwright's clock leaves out. */
async function installClock({ context }: Visitor): Promise<void> {
  await context.clock.install();
  await context.addInitScript(`AbortSignal.timeout = (ms) => {
    const controller = new AbortController();
    setTimeout(() => controller.abort(new DOMException('The operation timed out.', 'TimeoutError')), ms);
    return controller.signal;
  };`);
}

describe('the connection of the console', WITH_BROWSER, () => {
  let stage: Stage;
  let page: Page;
  let visitor: Visitor;
  before(async () => {
    stage = await openStage();
    ({ page } = stage.operator);
    visitor = await stage.stranger();
    for (const one of [stage.operator, visitor]) await installClock(one);
  });
  after(() => stage[Symbol.asyncDispose]());

  const navigate = (name: string) =>
    page.getByRole('navigation').first().getByRole('link', { name, exact: true }).click();
  // Open dialogs hide the banner from roles.
  const banner = (title: string) => page.locator('[role="alert"]').filter({ hasText: title });

  test('while the service does not respond, a banner says so, and no state is shown as healthy', async () => {
    await page.goto('/models');
    const main = page.getByRole('main');
    await main.getByText('Ready', { exact: true }).last().waitFor();
    await navigate('Overview');
    await main.getByText('Nothing needs your attention').waitFor();
    // Requests get no response.
    let asked = false;
    await page.route('**/api/**', (route) => {
      if (route.request().url().endsWith('/api/session')) asked = true;
    });
    await page.clock.fastForward(SESSION_EVERY_MS);
    await until(() => asked);
    await page.clock.fastForward(SESSION_TIMEOUT_MS);
    await banner('The service does not respond').waitFor();
    await main.getByText('Could not check what needs attention').waitFor();
    assert.equal(await main.getByText('Nothing needs your attention').count(), 0);
    await navigate('Models');
    await main.getByText('Unknown', { exact: true }).last().waitFor();
    assert.equal(await main.getByText('Ready', { exact: true }).count(), 0);
    await banner('The service does not respond').getByRole('button', { name: 'Try again' }).waitFor();
    await page.unrouteAll({ behavior: 'ignoreErrors' });
    await page.clock.fastForward(SESSION_EVERY_MS);
    await banner('The service does not respond').waitFor({ state: 'hidden' });
    await main.getByText('Ready', { exact: true }).last().waitFor();
  });

  test('a service that takes longer to respond than the banner waits can be signed in to', async () => {
    await using slow = await stage.stranger();
    // As if every response came after 5 seconds.
    await slow.context.addInitScript(`{
      const timeout = AbortSignal.timeout.bind(AbortSignal);
      AbortSignal.timeout = (ms) => timeout(ms > 5000 ? ms : 0);
    }`);
    await slow.page.goto('/keys');
    await signInOn(slow.page);
    await slow.page.getByRole('heading', { name: 'API keys', level: 1 }).waitFor();
    await slow.page.getByText('The service does not respond', { exact: true }).waitFor();
  });

  test('a sign-in lasts until its session is read, and shows why it cannot be read', async () => {
    await using slow = await stage.stranger();
    const { page } = slow;
    await page.goto('/sign-in');
    await page.getByLabel('Email').waitFor();
    const held = Promise.withResolvers<void>();
    await page.route('**/api/session', async (route) => {
      await held.promise;
      await route.abort();
    });
    const signedIn = page.waitForResponse('**/api/sign-in');
    await signInOn(page);
    await signedIn;
    await page.locator('button[aria-busy="true"]', { hasText: 'Sign in' }).waitFor();
    held.resolve();
    await page.getByText('Could not reach the service').waitFor();
    await page.unrouteAll({ behavior: 'ignoreErrors' });
    await page.getByRole('button', { name: 'Sign in' }).click();
    await page.getByRole('navigation').first().waitFor();
  });

  test('an offline browser is told so, and sends no change later', async () => {
    const { context } = stage.operator;
    await page.goto('/keys?create=1');
    const form = page.getByRole('dialog', { name: 'Create API key' });
    await form.getByLabel('Name').fill('offline');
    await context.setOffline(true);
    await form.getByRole('button', { name: 'Create key' }).click();
    await form.getByText('Could not reach the service').waitFor();
    await banner('The service does not respond').waitFor();
    await context.setOffline(false);
    await banner('The service does not respond').waitFor({ state: 'hidden' });
    const keys = await context.request.get(`${stage.service.url}/api/keys?account_id=default`);
    assert.doesNotMatch(await keys.text(), /offline/);
  });

  test('when the session ends, a banner says so, and the page keeps its input', async () => {
    await signIn(visitor.context, stage.service.url);
    await visitor.page.goto('/keys?create=1');
    const form = visitor.page.getByRole('dialog', { name: 'Create API key' });
    await form.getByLabel('Name').fill('kept input');
    await visitor.context.clearCookies();
    await form.getByRole('button', { name: 'Create key' }).click();
    await form.getByText('Your session has ended. Sign in again.').waitFor();
    const ended = visitor.page.getByText('Your session has ended', { exact: true });
    await ended.waitFor();
    // As in another tab.
    await signIn(visitor.context, stage.service.url);
    await visitor.page.clock.fastForward(SESSION_EVERY_MS);
    await ended.waitFor({ state: 'hidden' });
    assert.equal(await form.getByLabel('Name').inputValue(), 'kept input');
    await form.getByRole('button', { name: 'Create key' }).click();
    await visitor.page.getByRole('dialog', { name: 'API key kept input' }).waitFor();
  });

  test('the banner of an ended session leads to the sign-in page and back', async () => {
    await visitor.page.goto('/usage?range=7d');
    await visitor.page.getByRole('heading', { name: 'Usage', level: 1 }).waitFor();
    await visitor.context.clearCookies();
    await visitor.page.clock.fastForward(SESSION_EVERY_MS);
    await visitor.page.getByRole('alert').getByRole('link', { name: 'Sign in' }).click();
    await signInOn(visitor.page);
    await visitor.page.waitForURL('**/usage?range=7d');
    await visitor.page.getByRole('heading', { name: 'Usage', level: 1 }).waitFor();
  });
});
