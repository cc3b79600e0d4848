/** Every page whose data is slow, cannot be loaded, or is refused. */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { Page, Route } from 'playwright-core';
import { errorBody } from '../../src/core/error-body.ts';
import { ServiceError } from '../../src/core/errors.ts';
import { DEFAULT_ACCOUNT_ID } from '../../src/database/schema.ts';
import { until } from '../harness.ts';
import { WITH_BROWSER } from './browser.ts';
import { newKey, openStage, type Stage } from './stage.ts';

const FAILURE = new ServiceError('internal_error', 'Out of order.');
const REFUSAL = new ServiceError('admin_required', 'You may not see this.');

/** The pages that show data of the service. `{key}` is the ID of a key. */
const PATHS = [
  '/',
  '/keys',
  '/keys?key={key}',
  '/playground',
  '/models',
  '/members',
  '/usage',
  '/requests',
  '/settings?tab=sessions',
  '/operator/operations',
  '/operator/accounts',
  '/operator/accounts?tab=users',
  `/operator/accounts/${DEFAULT_ACCOUNT_ID}`,
  '/operator/plans',
  '/operator/audit',
  '/operator/alerts',
];

describe('pages without their data', WITH_BROWSER, () => {
  let stage: Stage;
  let page: Page;
  let keyId: string;
  /** Responds to the reads of the page, except those of the session. */
  let respond: (route: Route) => unknown;
  before(async () => {
    stage = await openStage();
    ({ page } = stage.operator);
    ({ id: keyId } = await newKey(stage.service));
    await page.route('**/api/**', (route) => {
      const request = route.request();
      const isRead = request.method() === 'GET' && !request.url().endsWith('/api/session');
      return isRead ? respond(route) : route.continue();
    });
  });
  after(() => stage[Symbol.asyncDispose]());

  const pathOf = (path: string) => path.replace('{key}', keyId);
  // Dialogs hide the page behind them from roles.
  const shown = (text: string) => page.locator('main, [role="dialog"]').getByText(text);
  const fulfill = (route: Route, error: ServiceError) =>
    route.fulfill({ status: error.status, contentType: 'application/json', body: errorBody(error) });

  /** Loads again what the page says it could not load, until it no longer shows this error. */
  const retry = (error: ServiceError) =>
    until(async () => {
      await page.evaluate(TRY_AGAIN);
      return (await shown(error.message).count()) === 0;
    });

  for (const path of PATHS) {
    test(`${path} shows that it loads, that it failed, what is refused, and at last its data`, async () => {
      const held: Route[] = [];
      respond = (route) => held.push(route);
      await page.goto(pathOf(path));
      await until(async () => held.length > 0 && (await page.evaluate<boolean>(LOADS)));
      assert.equal(await page.getByRole('alert').count(), 0);

      respond = (route) => fulfill(route, FAILURE);
      for (const route of held) await fulfill(route, FAILURE);
      await shown(FAILURE.message).first().waitFor();
      await until(async () => !(await page.evaluate<boolean>(LOADS)));

      respond = (route) => fulfill(route, REFUSAL);
      await retry(FAILURE);
      await shown(REFUSAL.message).first().waitFor();

      respond = (route) => route.continue();
      await retry(REFUSAL);
      await until(async () => !(await page.evaluate<boolean>(LOADS)));
      assert.deepEqual(stage.operator.faults.splice(0), []);
    });
  }
});

/** Whether the page shows that something loads. */
const LOADS = `document.querySelector('[aria-busy="true"], [data-skeleton]') !== null
  || [...document.querySelectorAll('[role="status"]')].some(({ textContent }) => textContent === 'Loading')`;

/**
 * Clicks the buttons at once, because one can remove another. A page without a button loads again when the user returns
 * to its tab.
 */
const TRY_AGAIN = `{
  const buttons = [...document.querySelectorAll('button')].filter(({ textContent }) => textContent === 'Try again');
  for (const button of buttons) button.click();
  if (buttons.length === 0) window.dispatchEvent(new Event('visibilitychange'));
}`;
