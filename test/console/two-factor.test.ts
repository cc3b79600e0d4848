/** Two-factor authentication: enable, sign in with a code or a recovery code, disable. */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { Page } from 'playwright-core';
import { appCode } from '../identity/fixture.ts';
import { OPERATOR } from '../operator.ts';
import { forgetSession, holdResponse, WITH_BROWSER, type Visitor } from './browser.ts';
import { openStage, signInOn, type Stage } from './stage.ts';

describe('two-factor authentication', WITH_BROWSER, () => {
  let stage: Stage;
  let page: Page;
  /** Signed out before each use. */
  let visitor: Visitor;
  let uri: string;
  let recovery: string[];
  before(async () => {
    stage = await openStage();
    ({ page } = stage.operator);
    visitor = await stage.stranger();
  });
  after(() => stage[Symbol.asyncDispose]());

  /** Signs in with the password, in a new session. */
  async function enterPassword(path = '/sign-in'): Promise<void> {
    await forgetSession(visitor);
    await visitor.page.goto(path);
    await signInOn(visitor.page);
  }

  const type = (on: Page, code: string) =>
    on.getByLabel('Digit 2 of 6').locator('..').locator('input').first().pressSequentially(code);

  test('is enabled with password and code, and shows recovery codes once', async () => {
    await page.goto('/settings?tab=security');
    await page.getByRole('button', { name: 'Enable two-factor authentication' }).click();
    const password = page.getByRole('dialog', { name: 'Enable two-factor authentication' });
    await password.getByLabel('Password', { exact: true }).fill(OPERATOR.password);
    await password.getByRole('button', { name: 'Continue' }).click();
    const enrollment = page.getByRole('dialog', { name: 'Set up your authenticator app' });
    await enrollment.getByRole('img', { name: 'QR code for your authenticator app' }).waitFor();
    const secret = (await enrollment.locator('code').innerText()).replaceAll(/\s/g, '');
    uri = `otpauth://totp/Sluice?secret=${secret}`;
    await type(page, appCode(uri));
    const codes = page.getByRole('dialog', { name: 'Save your recovery codes' });
    const items = codes.getByRole('list', { name: 'Recovery codes' }).getByRole('listitem');
    await items.first().waitFor();
    recovery = await items.allInnerTexts();
    assert.ok(recovery.length >= 8);
    await page.keyboard.press('Escape');
    await page
      .getByRole('alertdialog', { name: 'Close without copying the codes?' })
      .getByRole('button', { name: 'Cancel' })
      .click();
    await codes.getByRole('button', { name: 'Copy codes' }).click();
    await codes.getByRole('button', { name: 'Done' }).click();
    await page.getByText('Disable', { exact: true }).waitFor();
    assert.ok(!(await page.content()).includes(secret));
  });

  test('new recovery codes are shown although the dialog was closed while they were created', async () => {
    await page.getByRole('button', { name: 'Create new recovery codes' }).click();
    const dialog = page.getByRole('dialog', { name: 'Create new recovery codes?' });
    await dialog.getByLabel('Password', { exact: true }).fill(OPERATOR.password);
    const created = await holdResponse(page, '**/api/me/recovery-codes');
    await dialog.getByRole('button', { name: 'Create codes' }).click();
    await created.arrived;
    await page.keyboard.press('Escape');
    await dialog.waitFor({ state: 'hidden' });
    await created.release();
    const codes = page.getByRole('dialog', { name: 'Save your recovery codes' });
    const items = codes.getByRole('list', { name: 'Recovery codes' }).getByRole('listitem');
    await items.first().waitFor();
    const before = recovery;
    recovery = await items.allInnerTexts();
    assert.ok(recovery.length >= 8 && !before.some((code) => recovery.includes(code)));
    await codes.getByRole('button', { name: 'Copy codes' }).click();
    await codes.getByRole('button', { name: 'Done' }).click();
  });

  test('a password alone does not sign in', async () => {
    await enterPassword();
    await visitor.page.getByRole('heading', { name: 'Two-factor authentication' }).waitFor();
    await visitor.page.goto('/keys');
    await visitor.page.waitForURL('**/sign-in**');
    const response = await visitor.context.request.get(`${stage.service.url}/api/accounts`);
    assert.equal(response.status(), 401);
  });

  test('a code signs in once', async () => {
    // The code of the next time step, because the current one was used to enable two-factor authentication.
    const code = appCode(uri, 1);
    const secondFactor = visitor.page.getByRole('heading', { name: 'Two-factor authentication' });
    await enterPassword('/sign-in?to=/usage');
    await secondFactor.waitFor();
    await type(visitor.page, code);
    await visitor.page.waitForURL('**/usage');
    await enterPassword();
    await secondFactor.waitFor();
    await type(visitor.page, code);
    await visitor.page.getByRole('alert').waitFor();
    assert.equal(new URL(visitor.page.url()).pathname, '/sign-in');
  });

  test('a recovery code signs in once', async () => {
    const [code = ''] = recovery;
    for (const works of [true, false]) {
      await enterPassword();
      await visitor.page.getByRole('button', { name: 'Use a recovery code' }).click();
      await visitor.page.getByLabel('Recovery code').fill(code);
      await visitor.page.getByRole('button', { name: 'Sign in', exact: true }).click();
      if (works) await visitor.page.waitForURL(({ pathname }) => pathname === '/');
      else await visitor.page.getByRole('alert').waitFor();
    }
  });

  test('a lost response with new recovery codes says to create them again', async () => {
    const path = '**/api/me/recovery-codes';
    await page.route(path, async (route) => {
      await route.fetch();
      await route.abort();
    });
    await page.getByRole('button', { name: 'Create new recovery codes' }).click();
    const dialog = page.getByRole('dialog', { name: 'Create new recovery codes?' });
    await dialog.getByLabel('Password', { exact: true }).fill(OPERATOR.password);
    await dialog.getByRole('button', { name: 'Create codes' }).click();
    await dialog.getByText(/may have stopped working. Create new codes again/).waitFor();
    await page.unroute(path);
    await page.keyboard.press('Escape');
    await dialog.waitFor({ state: 'hidden' });
  });

  test('is disabled with the password', async () => {
    await page.getByRole('button', { name: 'Disable' }).click();
    const dialog = page.getByRole('dialog', { name: 'Disable two-factor authentication?' });
    await dialog.getByLabel('Password', { exact: true }).fill(OPERATOR.password);
    await dialog.getByRole('button', { name: 'Disable' }).click();
    await page.getByRole('button', { name: 'Enable two-factor authentication' }).waitFor();
    await enterPassword();
    await visitor.page.waitForURL(({ pathname }) => pathname === '/');
  });
});
