/** Navigation: back, forward, reload, shared links, sign-in redirects and error pages. */
import assert from 'node:assert/strict';
import { after, before, beforeEach, describe, test } from 'node:test';
import type { Page } from 'playwright-core';
import { until } from '../harness.ts';
import { forgetSession, WITH_BROWSER, type Visitor } from './browser.ts';
import { OPERATOR } from '../operator.ts';
import { post, userId } from './service.ts';
import { newKey, openStage, signInOn, type Stage } from './stage.ts';

describe('navigation', WITH_BROWSER, () => {
  let stage: Stage;
  /** Signed out before each test. */
  let visitor: Visitor;
  before(async () => {
    stage = await openStage();
    visitor = await stage.stranger();
  });
  beforeEach(() => forgetSession(visitor));
  after(() => stage[Symbol.asyncDispose]());

  /** Creates an account of which the operator is a member. Resolves with its ID. */
  async function newAccount(name: string): Promise<string> {
    const { context } = stage.operator;
    const { url } = stage.service;
    const { id } = await post(context, url, '/api/accounts', { name });
    const user = await userId(context, url);
    const path = `${url}/api/accounts/${String(id)}/members/${user}`;
    const response = await context.request.put(path, { data: { role: 'owner' }, headers: { origin: url } });
    assert.ok(response.ok(), await response.text());
    return String(id);
  }

  test('without email, the sign-in page names the command that resets a password', async () => {
    await visitor.page.goto('/sign-in');
    await visitor.page.getByRole('button', { name: 'Forgot password?' }).click();
    await visitor.page.getByText('npx sluice users password-link').waitFor();
    await visitor.page.getByRole('button', { name: 'Back to sign-in' }).click();
    await visitor.page.getByLabel('Email').waitFor();
  });

  test('sign-in never redirects to another site', async () => {
    for (const to of ['//evil.test', 'javascript:alert(1)']) {
      await forgetSession(visitor);
      await visitor.page.goto(`/sign-in?to=${encodeURIComponent(to)}`);
      await signInOn(visitor.page);
      await visitor.page.getByRole('navigation').first().waitFor();
      assert.equal(new URL(visitor.page.url()).origin, stage.service.url, to);
    }
  });

  test('back and forward change page, title and heading', async () => {
    const { page } = stage.operator;
    await page.goto('/keys');
    const nav = page.getByRole('navigation').first();
    const heading = (name: string) => page.getByRole('heading', { name, level: 1 });
    await nav.getByRole('link', { name: 'Usage' }).click();
    await heading('Usage').waitFor();
    await nav.getByRole('link', { name: 'Models' }).click();
    await heading('Models').waitFor();
    assert.match(await page.title(), /^Models/);
    await page.goBack();
    await heading('Usage').waitFor();
    assert.match(await page.title(), /^Usage/);
    await page.goBack();
    await heading('API keys').waitFor();
    await page.goForward();
    await heading('Usage').waitFor();
    await page.reload();
    await heading('Usage').waitFor();
  });

  test('the home page is the overview, and unknown paths show an error page', async () => {
    const { page } = stage.operator;
    await page.goto('/');
    await page.getByRole('heading', { name: 'Overview', level: 1 }).waitFor();
    await page.getByText('Nothing needs your attention').waitFor();
    await page.getByRole('link', { name: 'Create key' }).waitFor();
    await page.goto('/nothing/of/the/kind');
    await page.getByText('This page does not exist').waitFor();
  });

  test('a drawer covers the full height and reaches the right edge of the window', async () => {
    const { page } = stage.operator;
    const { id } = await newKey(stage.service, 'in a drawer');
    await page.goto(`/keys?key=${id}`);
    const drawer = page.getByRole('dialog', { name: 'in a drawer' });
    await drawer.waitFor();
    const size = page.viewportSize();
    await until(async () => {
      const box = await drawer.boundingBox();
      return box !== null && box.y === 0 && box.height === size?.height && box.x + box.width === size.width;
    });
    await page.keyboard.press('Escape');
    await drawer.waitFor({ state: 'hidden' });
  });

  test('every operation has a page with a title and its full URL', async () => {
    const { page } = stage.operator;
    await page.goto('/docs');
    await page.getByRole('main').getByRole('link', { name: 'Create chat completion' }).last().click();
    await page.waitForURL('**/docs/createChatCompletion');
    await page.getByRole('heading', { name: 'Create chat completion', level: 1 }).waitFor();
    await page.getByText(`${stage.service.url}/v1/chat/completions`, { exact: true }).waitFor();
    const code = page.getByRole('region', { name: 'Example in curl' });
    await code.locator('.code-string').first().waitFor();
    const isCut = `(() => {
      const { scrollWidth, clientWidth } = document.querySelector('[aria-label="Example in curl"]');
      return scrollWidth > clientWidth;
    })()`;
    assert.equal(await page.evaluate<boolean>(isCut), false);
    await page.getByRole('navigation', { name: 'Breadcrumb' }).getByRole('link').click();
    await page.waitForURL('**/docs');
    await page.goto('/keys');
    await page.goto('/docs#createKey');
    await page.waitForURL('**/docs/createKey');
    await page.goto('/docs/noSuchOperation');
    await page.getByText('This operation does not exist').waitFor();
  });

  test('the guides are pages of the console, and their links stay in it', async () => {
    const { page } = stage.operator;
    await page.goto('/operator/plans');
    await page.getByRole('main').getByRole('link', { name: 'Plans and limits' }).first().click();
    await page.waitForURL('**/docs/guide/limits');
    await page.getByRole('heading', { name: 'Plans and limits', level: 1 }).waitFor();
    await page.locator('.guide').getByRole('link').first().waitFor();
    await page.goto('/docs/guide/console');
    await page.locator('.guide').getByRole('link', { name: 'Sign-in' }).click();
    await page.getByRole('heading', { name: 'Sign-in', level: 1 }).waitFor();
    await page.goto('/docs/guide/limits#50%');
    await page.locator('.guide').getByRole('link').first().waitFor();
    // In the URL of an old bookmark.
    await page.goto('/docs/createKey?try=1');
    await page.getByRole('heading', { name: 'Create key', level: 1 }).waitFor();
    await page.goto('/docs/guide/no-such-guide');
    await page.getByText('This guide does not exist').waitFor();
  });

  test('an account page has a breadcrumb to the accounts', async () => {
    const { page } = stage.operator;
    await page.goto('/operator/accounts/default');
    await page
      .getByRole('navigation', { name: 'Breadcrumb' })
      .getByRole('link', { name: 'Accounts' })
      .click();
    await page.waitForURL('**/operator/accounts');
  });

  test('signing out leads to the sign-in page, and back navigation shows no data', async () => {
    const { page } = visitor;
    await page.goto('/sign-in');
    await signInOn(page);
    await page.waitForURL(({ pathname }) => pathname === '/');
    await page.getByRole('button', { name: /Zoë/ }).click();
    await page.getByRole('menuitem', { name: 'Sign out' }).click();
    await page.waitForURL('**/sign-in');
    await page.goBack();
    await page.waitForURL('**/sign-in**');
    await page.getByLabel('Email').waitFor();
  });

  test('another tab that switches the account does not change the account of this tab', async () => {
    const { context, page } = stage.operator;
    await newAccount('Second account');
    await page.goto('/usage');
    const account = (tab: Page) => tab.getByRole('button', { name: /^Account: / }).first();
    await account(page).waitFor();
    const first = await account(page).innerText();
    const other = await context.newPage();
    await other.goto('/usage');
    await account(other).click();
    await other.getByRole('menuitemradio', { name: 'Second account' }).click();
    await account(other).getByText('Second account').waitFor();
    await other.close();
    await page.getByRole('navigation').first().getByRole('link', { name: 'API keys' }).click();
    await page.getByRole('button', { name: 'Create key' }).first().click();
    const form = page.getByRole('dialog', { name: 'Create API key' });
    await form.getByText('charged to the account Default').waitFor();
    await form.getByLabel('Name').fill('of the first account');
    await form.getByRole('button', { name: 'Create key' }).click();
    await page.getByRole('button', { name: 'Copy key' }).click();
    await page.getByRole('button', { name: 'Done' }).click();
    await page.getByRole('row', { name: /of the first account/ }).waitFor();
    assert.equal(await account(page).innerText(), first);
    await page.reload();
    await page.getByRole('row', { name: /of the first account/ }).waitFor();
  });

  test('a key that belongs to another account opens in that account', async () => {
    const { context, page } = stage.operator;
    const id = await newAccount('Third account');
    const key = await post(context, stage.service.url, '/api/keys', { account_id: id, name: 'third' });
    await page.goto(`/keys?account=default&key=${String(key['id'])}`);
    await page.getByRole('dialog', { name: 'third' }).waitFor();
    assert.equal(new URL(page.url()).searchParams.get('account'), id);
  });

  test('an account in the URL that the user cannot access is not replaced by another one', async () => {
    const { context, page } = stage.operator;
    for (const path of ['/', '/keys', '/usage', '/requests', '/members', '/playground']) {
      await page.goto(`${path}?account=acc_missing`);
      await page.getByRole('main').getByText('Account not found').waitFor();
      assert.doesNotMatch(await page.getByRole('main').innerText(), /All accounts|Last 24 hours/);
    }
    await page.getByRole('link', { name: /^Show / }).click();
    await page.waitForURL('**/playground?account=default');
    // Not an operator, and a member of another account only.
    const id = await newAccount('Fourth account');
    const url = stage.service.url;
    const mia = { name: 'Mia', email: 'mia@acme.example', password: 'a password of mias own' };
    const invitation = { account_id: id, email: mia.email, role: 'member' };
    const { link } = await post(context, url, '/api/invitations', invitation);
    const { email: _, ...user } = mia;
    const token = new URL(String(link)).hash.slice(1);
    await post(visitor.context, url, '/api/invitations/accept', { token, ...user });
    await visitor.page.goto('/usage?account=default');
    await visitor.page.getByText(', or you are not a member of it').waitFor();
    await visitor.page.goto('/usage');
    await visitor.page
      .getByRole('button', { name: /^Account: Fourth account/ })
      .first()
      .waitFor();
  });

  test('a page that fails to render is logged and offers a reload, and the other pages work', async () => {
    await visitor.context.addCookies(await stage.operator.context.cookies());
    const { page } = visitor;
    const models = '**/api/models*';
    await page.route(models, (route) => route.fulfill({ json: { data: [{}] } }));
    await page.goto('/models');
    const alert = page.getByRole('alert').filter({ hasText: 'This page failed to load' });
    await alert.waitFor();
    await until(() => visitor.faults.length > 0);
    const [logged, ...more] = visitor.faults.splice(0);
    assert.match(logged ?? '', /^The page failed to render: TypeError/);
    assert.deepEqual(more, []);
    await page.getByRole('navigation').first().getByRole('link', { name: 'API keys' }).click();
    await page.getByRole('heading', { name: 'API keys', level: 1 }).waitFor();
    assert.equal(await alert.count(), 0);
    await page.goBack();
    await alert.waitFor();
    await page.unroute(models);
    await alert.getByRole('button', { name: 'Reload page' }).click();
    await page.getByRole('heading', { name: 'Models', level: 1 }).waitFor();
    assert.equal(await alert.count(), 0);
    // Logged again by the way back.
    visitor.faults.length = 0;
  });

  test('the chosen color scheme applies from the first paint after a reload', async () => {
    await visitor.context.addCookies(await stage.operator.context.cookies());
    const { page } = visitor;
    const background = () =>
      page.evaluate<string>('getComputedStyle(document.documentElement).backgroundColor');
    const choose = async (next: string) => {
      await page.getByRole('button', { name: new RegExp(OPERATOR.email) }).click();
      await page.getByRole('menuitem', { name: /^Appearance/ }).click();
      await page.locator(`html[data-theme="${next}"]`).waitFor();
    };
    await page.goto('/members');
    // From the scheme of the device.
    await choose('light');
    const light = await background();
    await choose('dark');
    // Blocks all scripts except the one that sets the color scheme.
    await page.route('**/assets/**.js', (route) => route.abort());
    await page.reload();
    assert.equal(await page.locator('html').getAttribute('data-theme'), 'dark');
    assert.notEqual(await background(), light);
  });
});
