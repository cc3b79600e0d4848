/** Setup of a new service: first user, first key and first request; then the lifecycle of that key. */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import OpenAI, { AuthenticationError } from 'openai';
import type { Page } from 'playwright-core';
import { DEFAULT_MODEL_ID } from '../../src/config/schema.ts';
import { until, type OpenedService } from '../harness.ts';
import { WITH_MODEL } from '../outside/clients/fixture.ts';
import { ONE_WORD } from '../support/default-model.ts';
import { OPERATOR, setupLink } from '../operator.ts';
import { axe, openBrowser, WITH_BROWSER, type TestBrowser, type Visitor } from './browser.ts';
import { openConsole, post } from './service.ts';

const SKIP = { skip: WITH_BROWSER.skip || WITH_MODEL.skip };

describe('the first run', SKIP, () => {
  let browser: TestBrowser;
  let service: OpenedService;
  let visitor: Visitor;
  let page: Page;
  let link: string;
  let key: string;
  before(async () => {
    const engine = { file: process.env.SLUICE_TEST_MODEL, slots: 2, contextTokens: 1024, threads: 1 };
    service = await openConsole(JSON.stringify({ models: [{ id: DEFAULT_MODEL_ID, engine }] }));
    browser = await openBrowser();
    visitor = await browser.visit(service.url);
    page = visitor.page;
    link = await setupLink(service);
  });
  after(async () => {
    await browser[Symbol.asyncDispose]();
    await service[Symbol.asyncDispose]();
  });

  test('setup needs the link', async () => {
    await using stranger = await browser.visit(service.url);
    await stranger.page.goto('/setup');
    await stranger.page.getByText('setup-link').first().waitFor();
    assert.equal(await stranger.page.getByLabel('Password').count(), 0);
    await stranger.page.goto('/');
    await stranger.page.waitForURL('**/sign-in');
    await stranger.page.getByText('Sluice is not set up yet').waitFor();
  });

  test('an invalid link is reported at once', async () => {
    await using stranger = await browser.visit(service.url);
    await stranger.page.goto(`/setup#${'x'.repeat(43)}`);
    await stranger.page.getByRole('heading', { name: 'This setup link is not valid' }).waitFor();
    await stranger.page.getByText('setup-link').first().waitFor();
    assert.equal(await stranger.page.getByLabel('Password').count(), 0);
    assert.deepEqual(await axe(stranger.page), []);
  });

  test('the link creates the first user, and the token is removed from the URL', async () => {
    await page.goto(link);
    await page.getByLabel('Name').waitFor();
    assert.deepEqual(await axe(page), []);
    await page.getByLabel('Name').fill(OPERATOR.name);
    await page.getByLabel('Email').fill(OPERATOR.email);
    await page.getByLabel('Password', { exact: true }).fill(OPERATOR.password);
    assert.equal(new URL(page.url()).hash, '');
    await page.getByRole('button', { name: 'Continue' }).click();
    await page.getByRole('heading', { name: 'Your first API key' }).waitFor();
  });

  test('the first key is shown with a notice that it is shown only once', async () => {
    key = (
      await page
        .getByText(/^sk-sluice-\w{49}$/)
        .first()
        .innerText()
    ).trim();
    await page.getByText('It is shown only once.').waitFor();
    // The files of a run share a clipboard, so another one can have copied something in between.
    await until(async () => {
      await page.getByRole('button', { name: 'Copy key' }).click();
      return (await page.evaluate('navigator.clipboard.readText()')) === key;
    });
    assert.deepEqual(await axe(page), []);
  });

  test('a reload in the middle of the setup, and the link in this or a new tab, keep the key and the step', async () => {
    await page.reload();
    assert.equal(await page.getByRole('region', { name: 'API key' }).innerText(), key);
    await page.goto(link);
    assert.equal(await page.getByRole('region', { name: 'API key' }).innerText(), key);
    // A terminal opens the link in a new tab.
    const other = await visitor.context.newPage();
    await other.goto(link);
    assert.equal(await other.getByRole('region', { name: 'API key' }).innerText(), key);
    await other.close();
    await page.getByRole('button', { name: 'Continue' }).click();
    await page.getByRole('heading', { name: 'Send your first request' }).waitFor();
    await page.reload();
    await page.getByRole('heading', { name: 'Send your first request' }).waitFor();
  });

  test('the curl, Python and TypeScript samples contain the key, the base URL and the model', async () => {
    for (const language of ['curl', 'Python', 'TypeScript']) {
      await page.getByRole('tab', { name: language }).click();
      const code = await page.getByRole('tabpanel', { name: language }).innerText();
      for (const part of [key, `${service.url}/v1`, DEFAULT_MODEL_ID])
        assert.ok(code.includes(part), `${language}: ${code}`);
    }
  });

  test('an unloaded model gets no request, and the page links to where it is loaded', async () => {
    const send = page.getByRole('button', { name: 'Send request' });
    await post(visitor.context, service.url, '/api/models/unload', { model: DEFAULT_MODEL_ID });
    await page.getByText(`${DEFAULT_MODEL_ID} is not loaded`).waitFor();
    assert.equal(await send.isDisabled(), true);
    const link = page.getByRole('region', { name: 'Response' }).getByRole('link', { name: 'Models page' });
    const href = `/models?model=${encodeURIComponent(DEFAULT_MODEL_ID)}`;
    assert.equal(await link.getAttribute('href'), href);
    await post(visitor.context, service.url, '/api/models/load', { model: DEFAULT_MODEL_ID });
    await page.getByText('The model is ready.').waitFor();
    assert.equal(await send.isDisabled(), false);
  });

  test('the request is sent from the browser and its response is shown', async () => {
    // Changes the page's request to make the completion the same on every machine.
    await page.route('**/v1/chat/completions', (route, request) =>
      route.continue({
        postData: JSON.stringify({
          ...(request.postDataJSON() as object),
          max_tokens: 4,
          logit_bias: ONE_WORD,
        }),
      }),
    );
    await page.getByRole('button', { name: 'Send request' }).click();
    // Generation can take long on a busy machine.
    await page.getByRole('link', { name: 'Open console' }).waitFor({ timeout: 180_000 });
    const response = page.getByRole('region', { name: 'Response' });
    assert.equal(await response.locator('p').first().textContent(), ' the the the the');
    await response.getByText(/\d+ in, 4 out/).waitFor();
    assert.deepEqual(await axe(page), []);
  });

  test('the console lists the key, and the browser stores neither key nor token', async () => {
    await page.getByRole('link', { name: 'Open console' }).click();
    await page.waitForURL(({ pathname }) => pathname === '/');
    await page.getByRole('heading', { name: 'Overview', level: 1 }).waitFor();
    await page.goto('/keys');
    await page.getByRole('row', { name: /First key/ }).waitFor();
    const stored = await page.evaluate<string>(
      'JSON.stringify([{ ...localStorage }, { ...sessionStorage }, document.documentElement.outerHTML])',
    );
    assert.ok(!stored.includes(key));
    assert.ok(!stored.includes(new URL(link).hash.slice(1)));
  });

  test('the key works with the OpenAI client', async () => {
    const client = new OpenAI({ apiKey: key, baseURL: `${service.url}/v1`, maxRetries: 0 });
    const response = await client.chat.completions.create({
      model: DEFAULT_MODEL_ID,
      messages: [{ role: 'user', content: 'Say hello.' }],
      max_tokens: 8,
      logit_bias: ONE_WORD,
    });
    assert.equal(response.choices[0]?.message.content, ' the'.repeat(8));
  });

  test('the link works only once', async () => {
    await using stranger = await browser.visit(service.url);
    await stranger.page.goto(link);
    await stranger.page.getByText('Sluice is already set up').waitFor();
    const response = await fetch(`${service.url}/api/setup`, {
      method: 'POST',
      headers: { origin: service.url },
      body: JSON.stringify({ token: new URL(link).hash.slice(1), ...OPERATOR }),
    });
    assert.ok(response.status >= 400 && response.status < 500, await response.text());
  });

  test('a revoked key is refused from the next request', async () => {
    await page.getByRole('button', { name: 'Actions for First key' }).click();
    await page.getByRole('menuitem', { name: /Revoke/ }).click();
    const question = page.getByRole('alertdialog');
    await question.getByText(/used/i).first().waitFor();
    await question.getByRole('button', { name: /Revoke/ }).click();
    await question.waitFor({ state: 'hidden' });
    const client = new OpenAI({ apiKey: key, baseURL: `${service.url}/v1`, maxRetries: 0 });
    await assert.rejects(
      client.chat.completions.create({
        model: DEFAULT_MODEL_ID,
        messages: [{ role: 'user', content: 'hi' }],
      }),
      (error) => error instanceof AuthenticationError && error.code === 'invalid_api_key',
    );
  });

  test('no page violated the Content-Security-Policy or threw', () => {
    assert.deepEqual(visitor.faults, []);
  });

  test('the log contains no token, key or password', () => {
    for (const secret of [key, new URL(link).hash.slice(1), OPERATOR.password]) {
      assert.ok(!service.log().includes(secret));
    }
  });
});
