/** The other ways in, as somebody at a browser goes them: a provider, and a link to a new password. */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { scriptedYaml } from '../harness.ts';
import { linkIn, startMailServer, type MailServer } from '../identity/mail-server.ts';
import { startOidcProvider, type OidcServer } from '../identity/oidc-provider.ts';
import { OPERATOR } from '../operator.ts';
import { axe, WITH_BROWSER } from './browser.ts';
import { post } from './service.ts';
import { openStage, signInOn, type Stage } from './stage.ts';

describe('the ways in', WITH_BROWSER, () => {
  let company: OidcServer;
  let mail: MailServer;
  let stage: Stage;
  before(async () => {
    company = await startOidcProvider();
    mail = await startMailServer();
    stage = await openStage(scriptedYaml({}, company.yaml() + mail.yaml), { ...company.env, ...mail.env });
    // Until here the provider has taken connections and answered none: whoever has a password waited for nothing.
    company.serve(`${stage.service.url}/api/auth/callback/company`);
  });
  after(async () => {
    await stage[Symbol.asyncDispose]();
    await mail[Symbol.asyncDispose]();
    await company[Symbol.asyncDispose]();
  });

  test('a provider lets in nobody who is not invited, and the page says so', async () => {
    await using visitor = await stage.stranger();
    await visitor.page.goto('/sign-in');
    await visitor.page.getByRole('button', { name: 'Continue with Company' }).click();
    await visitor.page.getByText('Nobody has invited this address yet.').waitFor();
    assert.deepEqual(await axe(visitor.page), []);
    assert.deepEqual(visitor.faults, []);
  });

  test('it lets in who is invited, to the page that they wanted', async () => {
    const invited = { account_id: 'default', email: company.person.email, role: 'member' };
    await post(stage.operator.context, stage.service.url, '/api/invitations', invited);
    await mail.next(company.person.email);
    await using visitor = await stage.stranger();
    await visitor.page.goto('/usage?range=7d');
    await visitor.page.getByRole('button', { name: 'Continue with Company' }).click();
    await visitor.page.waitForURL('**/usage?range=7d');
    await visitor.page.getByRole('heading', { name: 'Usage', level: 1 }).waitFor();
    await visitor.page.goto('/settings?tab=security');
    await visitor.page.getByRole('button', { name: 'Set password' }).waitFor();
    assert.deepEqual(visitor.faults, []);
  });

  test('a sign-in that is cancelled there ends at the door, with a word why', async () => {
    company.refuses = true;
    await using visitor = await stage.stranger();
    await visitor.page.goto('/sign-in');
    await visitor.page.getByRole('button', { name: 'Continue with Company' }).click();
    await visitor.page.getByRole('alert').getByText('cancelled').waitFor();
    company.refuses = false;
  });

  test('a forgotten password is replaced with the link of a mail, and every session ends', async () => {
    await using visitor = await stage.stranger();
    const { page } = visitor;
    await page.goto('/sign-in');
    await page.getByRole('button', { name: 'Forgot password?' }).click();
    await page.getByLabel('E-mail').fill(OPERATOR.email);
    await page.getByRole('button', { name: 'Send the link' }).click();
    await page.getByText('Look into your mail').waitFor();
    const link = linkIn(await mail.next(OPERATOR.email));
    await page.goto(link);
    await page.getByLabel('New password', { exact: true }).waitFor();
    assert.equal(new URL(page.url()).hash, '');
    assert.deepEqual(await axe(page), []);
    const password = 'an even better horse battery';
    await page.getByLabel('New password', { exact: true }).fill(password);
    await page.getByRole('button', { name: 'Set the password' }).click();
    await page.getByRole('link', { name: 'Sign in' }).click();
    await signInOn(page, { ...OPERATOR, password });
    await page.waitForURL('**/keys');
    await stage.operator.page.goto('/keys');
    await stage.operator.page.waitForURL('**/sign-in**');
    await using second = await stage.stranger();
    await second.page.goto(link);
    await second.page.getByLabel('New password', { exact: true }).fill(password);
    await second.page.getByRole('button', { name: 'Set the password' }).click();
    await second.page.getByText('This link works no more').waitFor();
    assert.ok(!stage.service.log().includes(new URL(link).hash.slice(1)));
    assert.deepEqual(visitor.faults, []);
  });
});
