/** From a fresh home to a seen answer, and what becomes of the key that was made on the way. */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import OpenAI, { AuthenticationError } from 'openai';
import type { Page } from 'playwright-core';
import { DEFAULT_MODEL_ID } from '../../src/config/schema.ts';
import type { OpenedService } from '../harness.ts';
import { WITH_MODEL } from '../clients/fixture.ts';
import { ONE_WORD } from '../default-model.ts';
import { OPERATOR, setupLink } from '../operator.ts';
import { axe, openBrowser, WITH_BROWSER, type TestBrowser, type Visitor } from './browser.ts';
import { openConsole } from './service.ts';

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

  test('nobody can claim the service without the link', async () => {
    await using stranger = await browser.visit(service.url);
    await stranger.page.goto('/setup');
    await stranger.page.getByText('setup-link').first().waitFor();
    assert.equal(await stranger.page.getByLabel('Password').count(), 0);
    await stranger.page.goto('/');
    await stranger.page.waitForURL('**/sign-in');
    await stranger.page.getByText('Nobody has set this service up yet').waitFor();
  });

  test('the link makes the first operator, and the token leaves the address', async () => {
    await page.goto(link);
    await page.getByLabel('Name').waitFor();
    assert.deepEqual(await axe(page), []);
    await page.getByLabel('Name').fill(OPERATOR.name);
    await page.getByLabel('E-mail').fill(OPERATOR.email);
    await page.getByLabel('Password', { exact: true }).fill(OPERATOR.password);
    assert.equal(new URL(page.url()).hash, '');
    await page.getByRole('button', { name: 'Go on' }).click();
    await page.getByRole('heading', { name: 'Your first API key' }).waitFor();
  });

  test('the first key is shown, with a clear word that it is shown once', async () => {
    key = (
      await page
        .getByText(/^sk-sluice-\w{49}$/)
        .first()
        .innerText()
    ).trim();
    await page.getByText('This is the only time that you see it.').waitFor();
    await page.getByRole('button', { name: 'Copy key' }).click();
    assert.equal(await page.evaluate('navigator.clipboard.readText()'), key);
    assert.deepEqual(await axe(page), []);
    await page.getByRole('button', { name: 'Go on to the first call' }).click();
  });

  test('curl, Python and TypeScript have the key, the address and the model filled in', async () => {
    for (const language of ['curl', 'Python', 'TypeScript']) {
      await page.getByRole('tab', { name: language }).click();
      const code = await page.getByRole('tabpanel').innerText();
      for (const part of [key, `${service.url}/v1`, DEFAULT_MODEL_ID])
        assert.ok(code.includes(part), `${language}: ${code}`);
    }
  });

  test('the call is sent from the browser and its answer arrives', async () => {
    // The page's own request, for a text that is the same on every machine.
    await page.route('**/v1/chat/completions', (route, request) =>
      route.continue({
        postData: JSON.stringify({
          ...(request.postDataJSON() as object),
          max_tokens: 4,
          logit_bias: ONE_WORD,
        }),
      }),
    );
    await page.getByRole('button', { name: 'Send it from here' }).click();
    // A model on a busy machine takes what it takes.
    await page.getByRole('link', { name: 'Open the console' }).waitFor({ timeout: 180_000 });
    const answer = page.getByRole('region', { name: 'Answer' });
    assert.equal(await answer.locator('p').first().textContent(), ' the the the the');
    assert.match(await answer.innerText(), /\d+ in, 4 out/);
    assert.deepEqual(await axe(page), []);
  });

  test('the console opens with the key in its list, and nothing of it is kept in the browser', async () => {
    await page.getByRole('link', { name: 'Open the console' }).click();
    await page.waitForURL('**/keys');
    await page.getByRole('row', { name: /First key/ }).waitFor();
    const kept = await page.evaluate<string>(
      'JSON.stringify([{ ...localStorage }, { ...sessionStorage }, document.documentElement.outerHTML])',
    );
    assert.ok(!kept.includes(key));
    assert.ok(!kept.includes(new URL(link).hash.slice(1)));
  });

  test('the key works with the official client', async () => {
    const client = new OpenAI({ apiKey: key, baseURL: `${service.url}/v1`, maxRetries: 0 });
    const answer = await client.chat.completions.create({
      model: DEFAULT_MODEL_ID,
      messages: [{ role: 'user', content: 'Say hello.' }],
      max_tokens: 8,
      logit_bias: ONE_WORD,
    });
    assert.equal(answer.choices[0]?.message.content, ' the'.repeat(8));
  });

  test('the link has died with its use', async () => {
    await using stranger = await browser.visit(service.url);
    await stranger.page.goto(link);
    await stranger.page.getByText('This service is set up').waitFor();
    const answer = await fetch(`${service.url}/api/setup`, {
      method: 'POST',
      headers: { origin: service.url },
      body: JSON.stringify({ token: new URL(link).hash.slice(1), ...OPERATOR }),
    });
    assert.ok(answer.status >= 400 && answer.status < 500, await answer.text());
  });

  test('revoked, the key opens nothing from the next call on', async () => {
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

  test('no page on the way has broken the policy or thrown', () => {
    assert.deepEqual(visitor.faults, []);
  });

  test('no token or key has reached the log', () => {
    for (const secret of [key, new URL(link).hash.slice(1), OPERATOR.password]) {
      assert.ok(!service.log().includes(secret));
    }
  });
});
