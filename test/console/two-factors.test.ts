/** A second factor: turned on with an app, asked for at the door, replaced by a recovery code, turned off. */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { Page } from 'playwright-core';
import { appCode } from '../identity/browser.ts';
import { OPERATOR } from '../operator.ts';
import { WITH_BROWSER } from './browser.ts';
import { openStage, signInOn, type Stage } from './stage.ts';

describe('two factors', WITH_BROWSER, () => {
  let stage: Stage;
  let page: Page;
  let uri: string;
  let recovery: string[];
  before(async () => {
    stage = await openStage();
    ({ page } = stage.operator);
  });
  after(() => stage[Symbol.asyncDispose]());

  const type = (on: Page, code: string) =>
    on.getByLabel('Digit 2 of 6').locator('..').locator('input').first().pressSequentially(code);

  test('are turned on with the password and a code of the app, and the recovery codes are shown once', async () => {
    await page.goto('/settings?tab=security');
    await page.getByRole('button', { name: 'Turn on two factors' }).click();
    const password = page.getByRole('dialog', { name: 'Turn on two factors' });
    await password.getByLabel('Your password', { exact: true }).fill(OPERATOR.password);
    await password.getByRole('button', { name: 'Go on' }).click();
    const enrolment = page.getByRole('dialog', { name: 'Add it to your authenticator app' });
    await enrolment.getByRole('img', { name: 'QR code of the secret' }).waitFor();
    const secret = (await enrolment.locator('code').innerText()).replaceAll(/\s/g, '');
    uri = `otpauth://totp/Sluice?secret=${secret}`;
    await type(page, appCode(uri));
    const codes = page.getByRole('dialog', { name: 'Keep your recovery codes' });
    const items = codes.getByRole('list', { name: 'Recovery codes' }).getByRole('listitem');
    await items.first().waitFor();
    recovery = await items.allInnerTexts();
    assert.ok(recovery.length >= 8);
    await codes.getByRole('button', { name: 'I have kept them' }).click();
    await page.getByText('Turn off', { exact: true }).waitFor();
    assert.ok(!(await page.content()).includes(secret));
  });

  test('a password alone opens nothing', async () => {
    await using visitor = await stage.stranger();
    await visitor.page.goto('/sign-in');
    await signInOn(visitor.page);
    await visitor.page.getByRole('heading', { name: 'Second factor' }).waitFor();
    await visitor.page.goto('/keys');
    await visitor.page.waitForURL('**/sign-in**');
    const answer = await visitor.context.request.get(`${stage.service.url}/api/accounts`);
    assert.equal(answer.status(), 401);
  });

  test('a code of the app lets in, and the same code does not twice', async () => {
    // The one of the next step: that of this one was taken when the factor was turned on.
    const code = appCode(uri, 1);
    await using first = await stage.stranger();
    await first.page.goto('/sign-in?to=/usage');
    await signInOn(first.page);
    await first.page.getByRole('heading', { name: 'Second factor' }).waitFor();
    await type(first.page, code);
    await first.page.waitForURL('**/usage');
    await using second = await stage.stranger();
    await second.page.goto('/sign-in');
    await signInOn(second.page);
    await second.page.getByRole('heading', { name: 'Second factor' }).waitFor();
    await type(second.page, code);
    await second.page.getByRole('alert').waitFor();
    assert.equal(new URL(second.page.url()).pathname, '/sign-in');
  });

  test('a recovery code lets in once', async () => {
    const [code = ''] = recovery;
    for (const works of [true, false]) {
      await using visitor = await stage.stranger();
      await visitor.page.goto('/sign-in');
      await signInOn(visitor.page);
      await visitor.page.getByRole('button', { name: 'Use a recovery code' }).click();
      await visitor.page.getByLabel('Recovery code').fill(code);
      await visitor.page.getByRole('button', { name: 'Sign in', exact: true }).click();
      if (works) await visitor.page.waitForURL('**/keys');
      else await visitor.page.getByRole('alert').waitFor();
    }
  });

  test('are turned off with the password', async () => {
    await page.getByRole('button', { name: 'Turn off' }).click();
    const dialog = page.getByRole('dialog', { name: 'Turn off two factors?' });
    await dialog.getByLabel('Your password', { exact: true }).fill(OPERATOR.password);
    await dialog.getByRole('button', { name: 'Turn off' }).click();
    await page.getByRole('button', { name: 'Turn on two factors' }).waitFor();
    await using visitor = await stage.stranger();
    await visitor.page.goto('/sign-in');
    await signInOn(visitor.page);
    await visitor.page.waitForURL('**/keys');
  });

  test('nothing on the way has broken the policy or thrown', () => {
    assert.deepEqual(stage.operator.faults, []);
  });
});
