/** Dialogs that are interrupted: double clicks, the Back button, late responses, reloads, and other tabs. */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { Locator, Page } from 'playwright-core';
import { createAccount } from '../../src/accounts/accounts.ts';
import { createUser } from '../../src/accounts/users.ts';
import { openDatabase } from '../../src/database/database.ts';
import { scripted } from '../support/scripted-engine/directive.ts';
import { MODEL } from '../harness.ts';
import { OPERATOR } from '../operator.ts';
import { holdResponse, WITH_BROWSER } from './browser.ts';
import { post, signIn } from './service.ts';
import { newKey, openStage, type Stage } from './stage.ts';

const OTHER = 'test/other';
const TWO_MODELS = `models:
  - {id: ${MODEL}, engine: {file: 'scripted:{}'}}
  - {id: ${OTHER}, engine: {file: 'scripted:{}'}}
`;

describe('interrupted dialogs', WITH_BROWSER, () => {
  let stage: Stage;
  let page: Page;
  before(async () => {
    stage = await openStage(TWO_MODELS);
    ({ page } = stage.operator);
    for (const name of ['alpha', 'beta', 'gamma']) await newKey(stage.service, name);
    await using database = await openDatabase({ home: stage.service.home, url: null });
    const by = { id: 'service', ip: null };
    for (const name of ['Mia', 'Noor'])
      await createUser(database, { name, email: `${name.toLowerCase()}@acme.example` }, by);
    for (const name of ['First', 'Second']) await createAccount(database, { name }, by);
  });
  after(() => stage[Symbol.asyncDispose]());

  const main = () => page.getByRole('main');
  const dialog = (name: string) => page.getByRole('dialog', { name, exact: true });
  const question = () => page.getByRole('alertdialog');
  const openKey = (name: string) =>
    page
      .getByRole('row', { name: new RegExp(name) })
      .getByRole('link')
      .first()
      .click();

  /** Counts the requests to this path that a double click sends before `shown` appears. */
  async function doubleClick(button: Locator, path: string, shown: Locator): Promise<number> {
    let count = 0;
    const note = (request: { url(): string; method(): string }) => {
      if (request.method() === 'POST' && new URL(request.url()).pathname === path) count++;
    };
    page.on('request', note);
    await button.dblclick();
    await shown.waitFor();
    page.off('request', note);
    return count;
  }

  test('a double click creates one key, one invitation and one account', async () => {
    await page.goto('/keys?create=1');
    let form = dialog('Create API key');
    await form.getByLabel('Name').fill('clicked twice');
    const createKey = form.getByRole('button', { name: 'Create key' });
    assert.equal(await doubleClick(createKey, '/api/keys', dialog('API key clicked twice')), 1);
    await page.goto('/members');
    await main().getByRole('button', { name: 'Invite member' }).click();
    form = page.getByRole('dialog', { name: 'Invite a member' });
    await form.getByLabel('Email').fill('twice@acme.example');
    const invite = form.getByRole('button', { name: 'Create invitation' });
    assert.equal(await doubleClick(invite, '/api/invitations', dialog('Invitation link')), 1);
    await page.goto('/operator/accounts');
    await main().getByRole('button', { name: 'Create account' }).click();
    form = dialog('Create account');
    await form.getByLabel('Name').fill('Clicked twice');
    const create = form.getByRole('button', { name: 'Create account' });
    const invitation = dialog('Invite a member to Clicked twice');
    assert.equal(await doubleClick(create, '/api/accounts', invitation), 1);
  });

  test('the second click of a double click on Send does not stop the response', async () => {
    await page.goto('/playground');
    await page.getByLabel('Message', { exact: true }).fill(scripted({ text: 'the whole response' }));
    await page.getByRole('button', { name: 'Send', exact: true }).dblclick();
    await page.getByRole('article', { name: 'Assistant' }).getByText('the whole response').waitFor();
  });

  for (const { path, first, second, ask } of [
    { path: '/keys', first: 'alpha', second: 'beta', ask: 'Revoke key' },
    { path: '/models', first: MODEL, second: OTHER, ask: 'Unload' },
    { path: '/operator/operations', first: MODEL, second: OTHER, ask: 'Drain' },
  ]) {
    test(`${path}: Back withdraws a question, which is not asked about the next one`, async () => {
      await page.goto(path);
      const open = (name: string) =>
        path === '/keys' ? openKey(name) : main().getByRole('button', { name, exact: true }).click();
      await open(first);
      await dialog(first).getByRole('button', { name: ask }).click();
      await question().waitFor();
      await page.goBack();
      await question().waitFor({ state: 'detached' });
      await dialog(first).waitFor({ state: 'detached' });
      await open(second);
      await dialog(second).getByRole('button', { name: ask }).click({ trial: true });
      assert.equal(await question().count(), 0);
    });
  }

  test('the late response to the deletion of one user names that user, and keeps the question about another', async () => {
    await page.goto('/operator/accounts?tab=users');
    const ask = async (name: string) => {
      await main()
        .getByRole('button', { name: `Actions for ${name}` })
        .click();
      await page.getByRole('menuitem', { name: 'Delete', exact: true }).click();
      await page.getByRole('alertdialog', { name: `Delete ${name}?` }).waitFor();
    };
    const deleted = await holdResponse(page, '**/api/users/*', 'DELETE');
    await ask('Mia');
    await question().getByRole('button', { name: 'Delete user' }).click();
    await deleted.arrived;
    await question().getByRole('button', { name: 'Cancel' }).click();
    await ask('Noor');
    await deleted.release();
    await page.getByText('Deleted Mia', { exact: true }).waitFor();
    await page
      .getByRole('alertdialog', { name: 'Delete Noor?' })
      .getByRole('button', { name: 'Cancel' })
      .click();
    await main().getByText('noor@acme.example').waitFor();
  });

  test('an account whose form was closed before the response is created, but not opened', async () => {
    await page.goto('/operator/accounts');
    await main().getByRole('button', { name: 'Create account' }).click();
    await dialog('Create account').getByLabel('Name').fill('Created late');
    const created = await holdResponse(page, '**/api/accounts');
    await dialog('Create account').getByRole('button', { name: 'Create account' }).click();
    await created.arrived;
    await page.keyboard.press('Escape');
    await dialog('Create account').waitFor({ state: 'detached' });
    await created.release();
    await page.getByText('Account Created late created').waitFor();
    await main().getByRole('link', { name: 'Created late' }).waitFor();
    assert.equal(new URL(page.url()).pathname, '/operator/accounts');
  });

  test('Back to another account closes a form, which would rename that account', async () => {
    await page.goto('/operator/accounts');
    const link = (name: string) => main().getByRole('link', { name, exact: true });
    const toSecond = await link('Second').getAttribute('href');
    await link('First').click();
    const title = (name: string) => main().getByRole('heading', { level: 1, name });
    await title('First').waitFor();
    // Without loading the page again, as a link does.
    await page.evaluate(`history.pushState(null, '', ${JSON.stringify(toSecond)})`);
    await title('Second').waitFor();
    await main().getByRole('button', { name: 'Actions' }).click();
    await page.getByRole('menuitem', { name: 'Rename' }).click();
    await page.getByRole('dialog').waitFor();
    await page.goBack();
    await page.locator('h1', { hasText: 'First' }).waitFor();
    assert.equal(await page.getByRole('dialog').count(), 0);
  });

  test('the late response to a change of one key keeps the form of another key open', async () => {
    await page.goto('/keys');
    await openKey('alpha');
    await page.getByRole('dialog').getByRole('button', { name: 'Edit' }).click();
    await dialog('Edit alpha').getByLabel('Name').fill('alpha renamed');
    const saved = await holdResponse(page, '**/api/keys/*', 'PATCH');
    await dialog('Edit alpha').getByRole('button', { name: 'Save' }).click();
    await saved.arrived;
    await page.goBack();
    await page.goBack();
    await page.getByRole('dialog').waitFor({ state: 'detached' });
    await openKey('beta');
    await page.getByRole('dialog').getByRole('button', { name: 'Edit' }).click();
    const form = dialog('Edit beta');
    await form.getByLabel('Name').fill('beta being edited');
    await saved.release();
    await page.getByText('Key alpha renamed updated').waitFor();
    assert.equal(await form.getByLabel('Name').inputValue(), 'beta being edited');
  });

  test('a change of a key that was revoked in another tab says why it was not saved', async () => {
    await page.goto('/keys');
    await openKey('gamma');
    await page.getByRole('dialog').getByRole('button', { name: 'Edit' }).click();
    await dialog('Edit gamma').getByLabel('Name').fill('gamma changed');
    const id = new URL(page.url()).searchParams.get('key');
    await post(stage.operator.context, stage.service.url, `/api/keys/${id}/revoke`, {});
    await dialog('Edit gamma').getByRole('button', { name: 'Save' }).click();
    await dialog('Edit gamma').getByText('cannot be changed').waitFor();
  });

  test('a lost response of a rotation says that the key may have a secret that nobody has seen', async () => {
    const path = '**/api/keys/*/rotate';
    await page.route(path, async (route) => {
      await route.fetch();
      await route.abort();
    });
    await page.goto('/keys');
    await main().getByRole('button', { name: 'Actions for alpha' }).click();
    await page.getByRole('menuitem', { name: 'Rotate' }).click();
    await question().getByRole('button', { name: 'Create new secret' }).click();
    await page
      .getByText(/may have a new secret that nobody has seen/)
      .first()
      .waitFor();
    await page.unroute(path);
    await question().getByRole('button', { name: 'Cancel' }).click();
  });

  test('a reload asks first while a new key is not copied', async () => {
    await page.goto('/keys?create=1');
    await dialog('Create API key').getByLabel('Name').fill('not copied');
    await dialog('Create API key').getByRole('button', { name: 'Create key' }).click();
    const shown = dialog('API key not copied');
    await shown.waitFor();
    const asked = page.waitForEvent('dialog');
    await page.evaluate('setTimeout(() => location.reload())');
    const leave = await asked;
    assert.equal(leave.type(), 'beforeunload');
    await leave.dismiss();
    await shown.getByRole('button', { name: 'Copy key' }).click();
    await page.reload();
    await main()
      .getByRole('row', { name: /not copied/ })
      .waitFor();
  });

  test('signing out closes the pages of all tabs, but keeps an invitation that is open', async () => {
    await page.goto('/members');
    await main().getByRole('button', { name: 'Invite member' }).click();
    await page.getByRole('dialog').getByLabel('Email').fill('invited@acme.example');
    await page.getByRole('dialog').getByRole('button', { name: 'Create invitation' }).click();
    const link = await dialog('Invitation link').getByRole('region').innerText();
    await using other = await stage.stranger();
    await signIn(other.context, stage.service.url);
    const [keys, invitation, leaving] = [
      other.page,
      await other.context.newPage(),
      await other.context.newPage(),
    ];
    await invitation.goto(link.trim());
    await invitation.getByText('This invitation is for another user').waitFor();
    await keys.goto('/keys?create=1');
    await keys.getByRole('dialog').getByLabel('Name').fill('shown');
    await keys.getByRole('dialog').getByRole('button', { name: 'Create key' }).click();
    await keys.getByRole('dialog', { name: 'API key shown' }).waitFor();
    await leaving.goto('/keys');
    await leaving.getByRole('button', { name: new RegExp(OPERATOR.email) }).click();
    await leaving.getByRole('menuitem', { name: 'Sign out' }).click();
    for (const tab of [leaving, keys]) await tab.waitForURL('**/sign-in');
    await invitation.bringToFront();
    await invitation.getByRole('heading', { name: /^Join / }).waitFor();
  });
});
