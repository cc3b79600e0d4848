/** The shortest way through the console: sign in, create a key, call a model with it, and open each page. */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { Page } from 'playwright-core';
import { MODEL, until } from '../harness.ts';
import { WITH_BROWSER, type Visitor } from './browser.ts';
import { openStage, signInOn, type Stage } from './stage.ts';

describe('the console', WITH_BROWSER, () => {
  let stage: Stage;
  let visitor: Visitor;
  let page: Page;
  before(async () => {
    stage = await openStage();
    visitor = await stage.stranger();
    ({ page } = visitor);
  });
  after(() => stage[Symbol.asyncDispose]());

  test('a shared link opens its page after sign-in, including filters', async () => {
    await page.goto('/requests?status=failed&range=7d');
    await page.waitForURL('**/sign-in?to=**');
    await signInOn(page);
    await page.waitForURL('**/requests?status=failed&range=7d');
    await page.getByRole('heading', { name: 'Requests', level: 1 }).waitFor();
  });

  test('a key is created by keyboard, and calls a model', async () => {
    await page.locator('nav a[href="/keys"]').click();
    await page.getByText('Create your first API key').waitFor();
    await page.getByRole('button', { name: 'Create key' }).press('Enter');
    await page.locator('[role="dialog"] input:focus').waitFor();
    await page.keyboard.type('by hand');
    await page.keyboard.press('Enter');
    const shown = page.getByRole('dialog', { name: 'API key by hand' });
    const key = (await shown.getByRole('region', { name: 'API key' }).innerText()).trim();
    const response = await fetch(`${stage.service.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}` },
      body: JSON.stringify({ model: MODEL, messages: [{ role: 'user', content: 'Hello' }] }),
    });
    assert.equal(response.status, 200, await response.text());
    await shown.getByRole('button', { name: 'Copy key' }).click();
    await shown.getByRole('button', { name: 'Done' }).click();
    await page.getByRole('row', { name: /by hand/ }).waitFor();
  });

  test('every page of the menu has a title, at the same left edge', async () => {
    const links = page.getByRole('navigation', { name: 'Pages' }).getByRole('link');
    const edges = new Map<string, number>();
    for (const link of await links.all()) {
      await link.click();
      const title = page.getByRole('heading', { level: 1 });
      await until(async () => {
        // Null while the page replaces its placeholder. The page before stays until this one is loaded.
        const [name, box] = [await title.innerText(), await title.boundingBox()];
        if (box === null || edges.has(name)) return false;
        edges.set(name, box.x);
        return true;
      });
    }
    assert.ok(edges.size > 13, [...edges.keys()].join(', '));
    assert.ok(!edges.has('Page not found'));
    assert.equal(new Set(edges.values()).size, 1, JSON.stringify([...edges]));
  });
});
