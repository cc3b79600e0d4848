/** Navigation: back, forward, reload, shared links, sign-in redirects and error pages. */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { WITH_BROWSER } from './browser.ts';
import { openStage, signInOn, type Stage } from './stage.ts';

describe('navigation', WITH_BROWSER, () => {
  let stage: Stage;
  before(async () => {
    stage = await openStage();
  });
  after(() => stage[Symbol.asyncDispose]());

  test('a shared link leads through sign-in to its page, including filters', async () => {
    await using visitor = await stage.stranger();
    await visitor.page.goto('/requests?status=failed&range=7d');
    await visitor.page.waitForURL('**/sign-in?to=**');
    await signInOn(visitor.page);
    await visitor.page.waitForURL('**/requests?status=failed&range=7d');
    await visitor.page.getByRole('heading', { name: 'Requests', level: 1 }).waitFor();
  });

  test('sign-in never redirects to another site', async () => {
    for (const to of [
      '//evil.test',
      'https://evil.test/',
      '/\\evil.test',
      '/%09/evil.test',
      'javascript:alert(1)',
    ]) {
      await using visitor = await stage.stranger();
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

  test('the home page is the keys page, and unknown paths show an error page', async () => {
    const { page } = stage.operator;
    await page.goto('/');
    await page.waitForURL('**/keys');
    await page.goto('/nothing/of/the/kind');
    await page.getByText('This page does not exist').waitFor();
  });

  test('signing out leads to the sign-in page, and back navigation shows no data', async () => {
    await using visitor = await stage.stranger();
    const { page } = visitor;
    await page.goto('/sign-in');
    await signInOn(page);
    await page.waitForURL('**/keys');
    await page.getByRole('button', { name: /Zoë/ }).click();
    await page.getByRole('menuitem', { name: 'Sign out' }).click();
    await page.waitForURL('**/sign-in');
    await page.goBack();
    await page.waitForURL('**/sign-in**');
    await page.getByLabel('Email').waitFor();
  });

  test('a page that fails to render is logged and offers a reload, and the other pages work', async () => {
    await using visitor = await stage.stranger();
    await visitor.context.addCookies(await stage.operator.context.cookies());
    const { page } = visitor;
    const models = '**/api/models*';
    await page.route(models, (route) => route.fulfill({ json: { data: [{}] } }));
    await page.goto('/models');
    const alert = page.getByRole('alert').filter({ hasText: 'This page failed to load' });
    await alert.waitFor();
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
  });

  test('the chosen color scheme applies from the first paint after a reload', async () => {
    await using visitor = await stage.stranger();
    await visitor.context.addCookies(await stage.operator.context.cookies());
    const { page } = visitor;
    const background = () =>
      page.evaluate<string>('getComputedStyle(document.documentElement).backgroundColor');
    await page.goto('/settings?tab=appearance');
    await page.getByRole('radio', { name: 'Light' }).click();
    const light = await background();
    await page.getByRole('radio', { name: 'Dark' }).click();
    await page.locator('html[data-theme="dark"]').waitFor();
    // Blocks all scripts except the one that sets the color scheme.
    await page.route('**/assets/**.js', (route) => route.abort());
    await page.reload();
    assert.equal(await page.locator('html').getAttribute('data-theme'), 'dark');
    assert.notEqual(await background(), light);
  });
});
