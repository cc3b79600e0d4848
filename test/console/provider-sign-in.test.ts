/** Sign-in with a provider, and password reset, in the browser. */
import assert from 'node:assert/strict';
import { after, before, beforeEach, describe, test } from 'node:test';
import { scriptedYaml } from '../harness.ts';
import { linkIn, startMailServer, type MailServer } from '../identity/mail-server.ts';
import { startOidcProvider, type OidcServer } from '../identity/oidc-provider.ts';
import { OPERATOR } from '../operator.ts';
import { axe, forgetSession, WITH_BROWSER, type Visitor } from './browser.ts';
import { post } from './service.ts';
import { openStage, signInOn, type Stage } from './stage.ts';

describe('sign-in with a provider, and password reset', WITH_BROWSER, () => {
  let company: OidcServer;
  let mail: MailServer;
  let stage: Stage;
  /** Signed out before each test. */
  let visitor: Visitor;
  before(async () => {
    company = await startOidcProvider();
    mail = await startMailServer();
    stage = await openStage(scriptedYaml({}, company.yaml() + mail.yaml), { ...company.env, ...mail.env });
    // Until here the provider accepted connections without responding, which must not delay password sign-in.
    company.serve(`${stage.service.url}/api/auth/callback/company`);
    visitor = await stage.stranger();
  });
  beforeEach(() => forgetSession(visitor));
  after(async () => {
    await stage[Symbol.asyncDispose]();
    await mail[Symbol.asyncDispose]();
    await company[Symbol.asyncDispose]();
  });

  test('a user without an invitation cannot sign in with a provider and sees why', async () => {
    await visitor.page.goto('/sign-in');
    await visitor.page.getByRole('button', { name: 'Continue with Company' }).click();
    await visitor.page.getByText('This email has not been invited.').waitFor();
    assert.deepEqual(await axe(visitor.page), []);
    assert.deepEqual(visitor.faults, []);
  });

  test('an invited user signs in with a provider and gets to the requested page', async () => {
    const invited = { account_id: 'default', email: company.user.email, role: 'member' };
    await post(stage.operator.context, stage.service.url, '/api/invitations', invited);
    await mail.next(company.user.email);
    await visitor.page.goto('/usage?range=7d');
    await visitor.page.getByRole('button', { name: 'Continue with Company' }).click();
    await visitor.page.waitForURL('**/usage?range=7d');
    await visitor.page.getByRole('heading', { name: 'Usage', level: 1 }).waitFor();
    await visitor.page.goto('/settings?tab=security');
    await visitor.page.getByRole('button', { name: 'Set password' }).waitFor();
    assert.deepEqual(visitor.faults, []);
  });

  test('a sign-in canceled at the provider returns to the sign-in page with an error', async () => {
    company.refuses = true;
    await visitor.page.goto('/sign-in');
    await visitor.page.getByRole('button', { name: 'Continue with Company' }).click();
    await visitor.page.getByRole('alert').getByText('canceled').waitFor();
    company.refuses = false;
  });

  test('a password is reset with the emailed link, which ends all sessions', async () => {
    const { page } = visitor;
    await page.goto('/sign-in');
    await page.getByRole('button', { name: 'Forgot password?' }).click();
    await page.getByLabel('Email').fill(OPERATOR.email);
    await page.getByRole('button', { name: 'Send reset link' }).click();
    await page.getByText('Check your email').waitFor();
    const link = linkIn(await mail.next(OPERATOR.email));
    await page.goto(link);
    await page.getByLabel('New password', { exact: true }).waitFor();
    assert.equal(new URL(page.url()).hash, '');
    assert.deepEqual(await axe(page), []);
    const password = 'an even better horse battery';
    await page.getByLabel('New password', { exact: true }).fill(password);
    await page.getByRole('button', { name: 'Set password' }).click();
    await page.getByRole('link', { name: 'Sign in' }).click();
    await signInOn(page, { ...OPERATOR, password });
    await page.waitForURL(({ pathname }) => pathname === '/');
    await stage.operator.page.goto('/keys');
    await stage.operator.page.waitForURL('**/sign-in**');
    await page.goto(link);
    await page.getByLabel('New password', { exact: true }).fill(password);
    await page.getByRole('button', { name: 'Set password' }).click();
    await page.getByText('This link is no longer valid').waitFor();
    assert.ok(!stage.service.log().includes(new URL(link).hash.slice(1)));
    assert.deepEqual(visitor.faults, []);
  });
});
