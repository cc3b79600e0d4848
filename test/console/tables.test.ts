/** Filters, saved views and the menu of tables, on desktops and phones. */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { Page } from 'playwright-core';
import { scripted } from '../support/scripted-engine/directive.ts';
import { MODEL, scriptedYaml, until } from '../harness.ts';
import { OPERATOR } from '../operator.ts';
import { axe, sidewaysScroll, WITH_BROWSER } from './browser.ts';
import { newKey, openStage, type Stage } from './stage.ts';

const DESKTOP = { width: 1440, height: 900 };
const PHONES = [
  { width: 360, height: 740 },
  { width: 390, height: 844 },
];

describe('tables', WITH_BROWSER, () => {
  let stage: Stage;
  let page: Page;
  before(async () => {
    stage = await openStage(
      scriptedYaml(
        { tokens: 12 },
        `    pricing: {prompt: '2', completion: '10', input_cache_read: '0.25'}
  - {id: test/down, pricing: {prompt: '3.5', completion: '0'}, replicas: [{url: 'http://127.0.0.1:9', dialect: vllm}]}
`,
      ),
    );
    ({ page } = stage.operator);
    const { key } = await newKey(stage.service, 'beta');
    await newKey(stage.service, 'alpha');
    for (const [content, maxTokens] of [
      ['short', 100],
      ['cut off', 5],
      [`long ${scripted({ tokens: 40 })}`, 100],
    ] as const) {
      const response = await fetch(`${stage.service.url}/v1/chat/completions`, {
        method: 'POST',
        headers: { authorization: `Bearer ${key}`, 'x-client-request-id': 'same' },
        body: JSON.stringify({
          model: MODEL,
          messages: [{ role: 'user', content }],
          max_tokens: maxTokens,
        }),
      });
      assert.equal(response.status, 200, await response.text());
    }
  });
  after(() => stage[Symbol.asyncDispose]());

  const rows = () => page.getByRole('table', { name: 'Requests' }).locator('tbody tr');
  const more = () => page.getByRole('button', { name: 'More filters' });
  const chip = (text: string) => page.getByRole('button', { name: `Remove filter: ${text}` });

  test('the log is filtered by duration, tokens, cost and note with the keyboard, and the URL has the filters', async () => {
    await page.goto('/requests');
    await rows().nth(2).waitFor();
    await rows().getByText('Truncated').waitFor();
    await more().press('Enter');
    const form = page.getByRole('dialog', { name: 'More filters' });
    const slower = form.getByLabel('Slower than (s)');
    await form.locator('input[name="duration"]:focus').waitFor();
    await page.keyboard.type('1,5');
    await page.keyboard.press('Enter');
    await form.getByText('Enter 0.001 to 86,400 seconds.').waitFor();
    assert.deepEqual(await axe(page), []);
    await slower.fill('86400');
    await slower.press('Enter');
    await form.waitFor({ state: 'detached' });
    await page.waitForURL(/[?&]duration=86400/);
    await page.getByText('No matching requests').waitFor();
    await chip('Slower than 86400 s').press('Enter');
    await rows().nth(2).waitFor();
    await page.locator('button:focus', { hasText: 'More filters' }).waitFor();

    await more().click();
    await form.getByLabel('At least (tokens)').fill('5');
    await form.getByLabel('Costs at least (USD)').fill('$0.000001');
    await form.getByRole('combobox', { name: 'Client' }).click();
    await page.getByRole('option', { name: 'Node.js' }).click();
    await form.getByRole('combobox', { name: 'Note' }).click();
    await page.getByRole('option', { name: /^Truncated/ }).click();
    await form.getByRole('button', { name: 'Apply' }).click();
    await page.waitForURL(/note=truncated/);
    await until(async () => (await rows().count()) === 1);
    await page.reload();
    await until(async () => (await rows().count()) === 1);
    for (const text of [
      'Client: Node.js',
      'At least 5 tokens',
      'Costs at least $0.000001',
      'Note: Truncated',
    ])
      await chip(text).waitFor();
    await page.getByRole('button', { name: 'Clear filters' }).click();
    await rows().nth(2).waitFor();
    assert.equal(new URL(page.url()).search, '');
    await page.goto('/requests?duration=x&tokens=-1&cost=1e3&note=toString&ttft=0');
    await rows().nth(2).waitFor();
    assert.equal(await page.getByRole('button', { name: /^Remove filter/ }).count(), 0);
    // Several requests with one client request ID are listed.
    await page.goto('/requests?find=same');
    await rows().nth(2).waitFor();
    // A filter ends the search, whose result is not filtered.
    await page.getByRole('combobox', { name: 'Status' }).click();
    await page.getByRole('option', { name: 'Completed' }).click();
    await page.waitForURL((url) => url.search === '?status=completed');
    // Parameters without a value are as if they were not in the URL.
    await page.goto('/requests?find=&model=&account=&from=2026-02-30T00:00:00Z');
    await rows().nth(2).waitFor();
    await page.goto('/keys?key=&tag=&account=');
    await page.getByRole('table', { name: 'API keys' }).getByText('alpha').waitFor();
    assert.equal(await page.getByRole('dialog').count(), 0);
    for (const size of PHONES) {
      await page.setViewportSize(size);
      await page.goto('/requests?tokens=1&cost=0.000001&duration=0.001&note=truncated');
      await chip('Note: Truncated').waitFor();
      assert.equal(await sidewaysScroll(page), 0);
      await more().click();
      await form.waitFor();
      assert.equal(await sidewaysScroll(page), 0);
    }
    assert.deepEqual(await axe(page), []);
    await page.setViewportSize(DESKTOP);
  });

  test('a phone shows fixed columns, without a menu', async () => {
    const table = page.getByRole('table', { name: 'API keys' });
    await page.goto('/keys?sort=name');
    const options = table.getByRole('button', { name: 'Table options' });
    await options.waitFor();
    for (const size of PHONES) {
      await page.setViewportSize(size);
      await options.waitFor({ state: 'detached' });
      assert.match(await table.locator('tbody tr').first().innerText(), /^alpha/);
      assert.equal(await table.getByRole('columnheader', { name: 'Status' }).isVisible(), false);
      assert.equal(await sidewaysScroll(page), 0);
      assert.deepEqual(await axe(page), []);
    }
    await page.setViewportSize(DESKTOP);
  });

  test('the age of a list is shown, it is loaded again, and a failure of that is reported', async () => {
    const table = page.getByRole('table', { name: 'API keys' });
    const refresh = page.getByRole('button', { name: 'Refresh' });
    await page.goto('/keys');
    await page.getByText(/^Updated (?:just now|\d)/).waitFor();
    await newKey(stage.service, 'gamma');
    await refresh.click();
    await table.getByText('gamma').waitFor();
    const error = { message: 'Not now.', code: 'internal_error', type: 'server_error' };
    await page.route('**/api/keys?*', (route) => route.fulfill({ status: 500, json: { error } }));
    await refresh.click();
    await page.getByText('Could not refresh: Not now.').waitFor();
    await table.getByText('gamma').waitFor();
    await page.unrouteAll();
    for (const path of ['/usage', '/operator/audit', '/operator/accounts', '/operator/plans']) {
      await page.goto(path);
      await page.getByText(/^Updated (?:just now|\d)/).waitFor();
      await refresh.click();
      assert.equal(await sidewaysScroll(page), 0);
    }
  });

  test('a page that cannot be loaded is not requested again until the user tries again', async () => {
    const failures = new Map<string, number>();
    let fails = true;
    // Each list has a further page.
    await page.route(/\/api\/(audit|accounts|requests)\?/, async (route) => {
      const { pathname, searchParams } = new URL(route.request().url());
      if (!searchParams.has('cursor')) {
        const response = await route.fetch();
        const body = (await response.json()) as object;
        const cursor = '00000000-0000-7000-8000-000000000000';
        return route.fulfill({ response, json: { ...body, next_cursor: cursor } });
      }
      if (!fails) return route.fulfill({ json: { data: [], next_cursor: null } });
      failures.set(pathname, (failures.get(pathname) ?? 0) + 1);
      return route.fulfill({
        status: 500,
        json: { error: { message: 'Out of order.', code: 'internal_error' } },
      });
    });
    const error = page.getByText('Could not load more: Out of order.');
    const retry = page.locator('footer').getByRole('button', { name: 'Try again' });
    for (const [path, url] of [
      // The entry is older than the first page.
      ['/api/audit', '/operator/audit?entry=00000000-0000-7000-8000-000000000001'],
      ['/api/accounts', '/operator/accounts?sort=account'],
      ['/api/accounts', '/operator/accounts?q=nothing'],
      // The log loads enough rows to fill the window.
      ['/api/requests', '/requests'],
    ] as const) {
      failures.clear();
      fails = true;
      await page.goto(url);
      await error.waitFor();
      // A second failure is shown after the requests that the first one could cause.
      const failedAgain = page.waitForResponse((response) => response.status() === 500);
      await retry.click();
      await failedAgain;
      await retry.and(page.locator(':not([disabled])')).waitFor();
      assert.deepEqual([...failures], [[path, 2]], url);
      fails = false;
      await retry.click();
      await error.waitFor({ state: 'detached' });
    }
    await page.unroute(/\/api\/(audit|accounts|requests)\?/);
  });

  test('the table of models sorts and has further columns', async () => {
    const table = page.getByRole('table', { name: 'Models', exact: true });
    const ids = async () => await table.locator('tbody tr td:first-child button').allInnerTexts();
    await page.goto('/models');
    await table.getByRole('cell', { name: '$3.50' }).waitFor();
    await table.getByRole('cell', { name: 'Free' }).waitFor();
    await table.getByRole('button', { name: 'Prompt', exact: true }).click();
    await page.waitForURL(/sort=-prompt/);
    assert.deepEqual(await ids(), ['test/down', MODEL]);
    await table.getByRole('button', { name: 'Prompt', exact: true }).click();
    await page.waitForURL(/sort=prompt/);
    assert.deepEqual(await ids(), [MODEL, 'test/down']);
    const cached = table.getByRole('columnheader', { name: 'Prompt (cached)' });
    assert.equal(await cached.count(), 0);
    await table.getByRole('button', { name: 'Table options' }).click();
    await page.getByRole('menuitemcheckbox', { name: 'Prompt (cached)' }).click();
    await cached.waitFor();
    await table.getByRole('cell', { name: '$0.25' }).waitFor();
    await page.getByRole('menuitem', { name: 'Reset columns' }).click();
    await cached.waitFor({ state: 'detached' });
    await table.getByRole('button', { name: 'Actions for test/down' }).click();
    const blocked = page.getByRole('menuitem', { name: 'Try in playground: the model is down' });
    assert.equal(await blocked.getAttribute('aria-disabled'), 'true');
    await page.getByRole('menuitem', { name: 'Connect' }).click();
    const connect = page.getByRole('dialog', { name: 'Connect an app' });
    await connect.getByText('"model": "test/down"').waitFor();
    await page.keyboard.press('Escape');
    await connect.waitFor({ state: 'hidden' });
    const dialog = page.getByRole('dialog', { name: 'test/down', exact: true });
    await table.getByRole('button', { name: 'test/down', exact: true }).click();
    await dialog.getByText('Aliases').waitFor();
    await page.keyboard.press('Escape');
    await page.getByRole('searchbox', { name: 'Search models' }).fill('nothing');
    await page.getByText('No model ID contains “nothing”.').waitFor();
    await page.getByRole('button', { name: 'Clear search' }).click();
    for (const size of [...PHONES, DESKTOP]) {
      await page.setViewportSize(size);
      assert.equal(await sidewaysScroll(page), 0);
      assert.deepEqual(await axe(page), []);
    }
  });

  test('signing out deletes the chosen columns', async () => {
    const items = () => page.evaluate<string[]>('Object.keys(localStorage)');
    const isOfTable = (name: string) => name.includes('.columns.');
    await page.setViewportSize(DESKTOP);
    await page.goto('/keys');
    await page.getByRole('button', { name: 'Table options' }).click();
    await page.getByRole('menuitemcheckbox', { name: 'Status' }).click();
    await until(async () => (await items()).filter(isOfTable).length === 1);
    await page.keyboard.press('Escape');
    await page.getByRole('button', { name: new RegExp(OPERATOR.email) }).click();
    await page.getByRole('menuitem', { name: 'Sign out' }).click();
    await page.getByRole('button', { name: 'Sign in' }).waitFor();
    assert.deepEqual((await items()).filter(isOfTable), []);
  });
});
