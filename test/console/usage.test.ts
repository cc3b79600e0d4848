/** Usage page, request log and receipts. */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { Page } from 'playwright-core';
import { scripted } from '../support/scripted-engine/directive.ts';
import { MODEL, scriptedYaml, until } from '../harness.ts';
import { textOf, WITH_BROWSER } from './browser.ts';
import { open } from './pages.ts';
import { startAtNoon } from '../support/noon.ts';
import { newKey, openStage, type Stage } from './stage.ts';

/** Text of the prompts, which no page may show. */
const PROMPT = 'a prompt that must not be shown';

describe('usage, requests and receipts', WITH_BROWSER, () => {
  let stage: Stage;
  let page: Page;
  let key: string;
  const ids: string[] = [];
  before(async () => {
    startAtNoon();
    stage = await openStage(
      scriptedYaml(
        { tokens: 12 },
        `    pricing: {prompt: '2', completion: '10', input_cache_read: '0.25'}\n`,
      ),
    );
    ({ page } = stage.operator);
    ({ key } = await newKey(stage.service));
    for (let call = 0; call < 3; call++) ids.push(await sendRequest(`order-${call}`));
  });
  after(() => stage[Symbol.asyncDispose]());

  /** Resolves with the request ID. */
  async function sendRequest(
    clientRequestId: string,
    content = `${PROMPT} ${scripted({ cachedTokens: 3 })}`,
  ): Promise<string> {
    const response = await fetch(`${stage.service.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'x-client-request-id': clientRequestId },
      body: JSON.stringify({
        model: MODEL,
        messages: [{ role: 'user', content }],
      }),
    });
    await response.text();
    return response.headers.get('x-request-id') ?? '';
  }

  test('the usage page counts the requests', async () => {
    await open(page, { path: '/usage' });
    const text = await page.getByRole('main').innerText();
    assert.match(text, /Requests\s+3\b/);
    assert.match(text, /\$0\.00/);
    assert.match(text, /Default plan\./);
    assert.match(text, /Group by\s+None/);
    assert.doesNotMatch(text, /\b(?:null|undefined|NaN)\b/);
  });

  test('a chart whose usage cannot be loaded shows the error and can be loaded again', async () => {
    const overTime = ({ pathname, searchParams }: URL) =>
      pathname === '/api/usage' && /hour|day/.test(searchParams.get('by') ?? '');
    const error = { message: 'Out of order.', type: 'server_error', code: 'internal_error', param: null };
    await page.route(overTime, (route) => route.fulfill({ status: 500, json: { error } }));
    await page.goto('/usage');
    const chart = page
      .locator('section')
      .filter({ has: page.getByRole('heading', { name: 'Tokens', exact: true }) });
    await chart.getByText('Out of order.').waitFor();
    await page.unroute(overTime);
    await chart.getByRole('button', { name: 'Try again' }).click();
    await chart.locator('canvas').waitFor();
  });

  test('usage is exported as CSV', async () => {
    await page.getByRole('button', { name: 'Export CSV' }).click();
    const [download] = await Promise.all([
      page.waitForEvent('download'),
      page.getByRole('menuitem').first().click(),
    ]);
    assert.match(download.suggestedFilename(), /\.csv$/);
    const csv = await textOf(download);
    assert.match(csv.split('\n', 1)[0] ?? '', /requests/);
    assert.ok(csv.split('\n').length >= 2, csv);
  });

  test('the log lists all requests, and a row opens its receipt', async () => {
    await page.goto('/requests');
    const rows = page.getByRole('table', { name: 'Requests' }).getByRole('row');
    await rows.nth(3).waitFor();
    assert.equal(await rows.count(), 4);
    await rows.nth(1).getByRole('link').first().click();
    const receipt = page.getByRole('region', { name: 'Request', exact: true });
    for (const stage of ['Queue', 'Prefill', 'Decode']) await receipt.getByText(stage).first().waitFor();
    for (const part of [
      'Prompt',
      'Completion',
      'What the model was given',
      'user 1',
      'Cost',
      ids[2] ?? '',
      'order-2',
    ])
      assert.ok((await receipt.innerText()).includes(part), part);
    assert.match(page.url(), new RegExp(`/requests/${ids[2]}`));
  });

  test('buttons and arrow keys of a receipt open the requests next to it in the list', async () => {
    const receipt = page.getByRole('region', { name: 'Request', exact: true });
    const button = (name: string) => receipt.getByRole('button', { name });
    assert.ok(await button('Previous request').isDisabled());
    await button('Next request').click();
    await page.waitForURL(`**/requests/${ids[1]}`);
    await page.keyboard.press('ArrowRight');
    await page.waitForURL(`**/requests/${ids[0]}`);
    assert.ok(await button('Next request').isDisabled());
    await page.keyboard.press('ArrowLeft');
    await page.waitForURL(`**/requests/${ids[1]}`);
    await page.keyboard.press('ArrowLeft');
    await page.waitForURL(`**/requests/${ids[2]}`);
  });

  test('the last receipt of a page has the next one of the following page, and is left like any other', async () => {
    const other = await page.context().newPage();
    const fake = (index: number) => `0199aaaa-0000-7000-8000-0000000000${String(99 - index)}`;
    await other.route(/\/api\/requests\?/, async (route) => {
      const url = new URL(route.request().url());
      const isFirst = !url.searchParams.has('cursor');
      url.searchParams.delete('cursor');
      const response = await route.fetch({ url: String(url) });
      const { data } = (await response.json()) as { data: object[] };
      const indexes = Array.from({ length: 25 }, (_, index) => (isFirst ? index : 25 + index));
      const rows = indexes.map((index) => ({ ...data[0], id: fake(index) }));
      await route.fulfill({ response, json: { data: rows, next_cursor: isFirst ? 'more' : null } });
    });
    await other.goto('/requests');
    const receipt = other.getByRole('region', { name: 'Request', exact: true });
    const open = (index: number) => other.locator(`a[href*="${fake(index)}"]`).click();
    await open(24);
    await receipt.getByRole('button', { name: 'Next request' }).click();
    await other.waitForURL(`**/${fake(25)}`);
    await receipt.getByRole('button', { name: 'Previous request' }).click();
    await other.waitForURL(`**/${fake(24)}`);
    await receipt.getByRole('button', { name: 'Previous request' }).click();
    await other.waitForURL(`**/${fake(23)}`);
    await receipt.getByRole('button', { name: 'Close' }).click();
    await other.waitForURL('**/requests');
    await open(24);
    await other.waitForURL(`**/${fake(24)}`);
    await receipt.waitFor();
    await other.close();
  });

  test('closing a receipt that was opened by a link stays in the console', async () => {
    const other = await page.context().newPage();
    await other.goto(`/requests/${ids[1]}`);
    const receipt = other.getByRole('region', { name: 'Request', exact: true });
    await receipt.waitFor();
    // As a link of the receipt to other requests does.
    await other.evaluate("history.pushState(null, '', '/requests')");
    await receipt.waitFor({ state: 'detached' });
    await other.goBack();
    await receipt.getByRole('button', { name: 'Close' }).click();
    await other.waitForURL(/\/requests\??$/);
    await other.close();
  });

  test('the log says how old it is after a refresh without changes, and why a refresh failed', async () => {
    const other = await page.context().newPage();
    await other.clock.install();
    await other.goto('/requests');
    await other.getByText(/^Updated/).waitFor();
    await other.clock.fastForward(20_000);
    await other.getByText(/^Updated [2-9]\d s ago/).waitFor();
    await other.getByRole('button', { name: 'Refresh' }).click();
    await other.getByText(/^Updated (?:just now|\d s ago)/).waitFor();
    await other.route(/\/api\/(?:requests|refusals)\?/, (route) =>
      route.fulfill({ status: 500, json: { error: { message: 'Out of order.', code: 'internal_error' } } }),
    );
    const alert = other.getByText('Could not refresh: Out of order.');
    await other.getByRole('button', { name: 'Refresh' }).click();
    await alert.waitFor();
    await other.close();
  });

  test('a receipt shows the cached tokens and their price', async () => {
    const receipt = page.getByRole('region', { name: 'Request', exact: true });
    await receipt
      .getByText(ids[2] ?? '')
      .first()
      .waitFor();
    const lines = receipt.getByRole('table', { name: 'Cost breakdown' }).getByRole('row');
    await lines.last().waitFor();
    const texts = await lines.allInnerTexts();
    assert.deepEqual(
      texts.map((line) => line.split('\t')[0]),
      ['Item', 'Prompt (uncached)', 'Prompt (cached)', 'Completion', 'Total'],
    );
    const [, , cached = ''] = texts;
    assert.match(cached, /\t3\t\$0\.25\t\$0\.00000075$/);
  });

  test('a receipt has its own URL, and back navigation leads to the log', async () => {
    await page.reload();
    const receipt = page.getByRole('region', { name: 'Request', exact: true });
    await receipt.getByText('order-2').waitFor();
    await page.goto('/requests');
    await page
      .getByRole('table', { name: 'Requests' })
      .getByRole('row')
      .nth(2)
      .getByRole('link')
      .first()
      .click();
    await receipt.getByText('order-1').waitFor();
    await page.goBack();
    await receipt.waitFor({ state: 'hidden' });
    assert.equal(new URL(page.url()).pathname, '/requests');
    await page.goForward();
    await receipt.getByText('order-1').waitFor();
  });

  test('a request is found by its id and by its client request id', async () => {
    for (const [searched, found] of [
      [ids[0], 'order-0'],
      ['order-1', ids[1]],
    ]) {
      await page.goto('/requests');
      await page.getByRole('searchbox').fill(searched ?? '');
      await page.getByRole('searchbox').press('Enter');
      await page
        .getByRole('region', { name: 'Request', exact: true })
        .getByText(found ?? '')
        .waitFor();
    }
  });

  test('the receipt of a running request does not say that no tokens were generated', async () => {
    const { key } = await newKey(stage.service);
    const caller = new AbortController();
    const body = {
      model: MODEL,
      messages: [{ role: 'user', content: scripted({ prefillMs: 60_000 }) }],
    };
    const response = fetch(`${stage.service.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}` },
      body: JSON.stringify(body),
      signal: caller.signal,
    }).catch(() => null);
    await page.goto('/requests');
    await page
      .getByRole('row', { name: /Running/ })
      .getByRole('link')
      .first()
      .click();
    await page.getByRole('region', { name: 'Request', exact: true }).getByText('No tokens yet').waitFor();
    caller.abort();
    await response;
  });

  test('the log says when it was updated, and loads new requests on demand', async () => {
    await page.goto('/requests');
    const rows = page.getByRole('table', { name: 'Requests' }).getByRole('row');
    await rows.nth(3).waitFor();
    const before = await rows.count();
    await sendRequest('order-new');
    await page.getByText(/^Updated (just now|\d+ s ago)$/).waitFor();
    await page.getByRole('button', { name: 'Refresh' }).click();
    await rows.nth(before).waitFor();
    assert.equal(await rows.count(), before + 1);
    await rows.nth(1).getByRole('link').first().click();
    await page.getByRole('region', { name: 'Request', exact: true }).getByText('order-new').waitFor();
    await page
      .getByRole('region', { name: 'Request', exact: true })
      .getByRole('button', { name: 'Close' })
      .click();
    await fetch(`${stage.service.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}` },
      body: JSON.stringify({ model: 'acme/missing', messages: [{ role: 'user', content: PROMPT }] }),
    });
    await until(async () => {
      await page.getByRole('button', { name: 'Refresh' }).click();
      return (await page.getByText('model_not_found').count()) > 0;
    });
  });

  test('a receipt explains why tokens were computed again, and Spend sums them', async () => {
    const content = 'A long task. '.repeat(280) + scripted({ cachedTokens: 0 });
    let id = '';
    for (let call = 0; call < 2; call++) id = await sendRequest(`long-${call}`, content);
    await page.goto(`/requests/${id}`);
    const note = page.getByRole('region', { name: 'Request', exact: true }).getByRole('note').first();
    await note.getByText(/^The request begins like the one .* before, but the replica computed/).waitFor();
    await page.goto('/spend?by=client');
    const clients = page.getByRole('table', { name: 'Spend by client' });
    await clients.getByRole('button', { name: 'Table options' }).click();
    await page.getByRole('menuitemcheckbox', { name: 'Missed in cache' }).click();
    await page.keyboard.press('Escape');
    await clients.getByRole('columnheader', { name: 'Missed in cache' }).waitFor();
    await clients.getByRole('row', { name: /^Node\.js .* [89]\d\d / }).waitFor();
    await clients.getByRole('link', { name: 'Node.js' }).click();
    await page.getByRole('button', { name: 'Remove filter: Client: Node.js' }).waitFor();
    await page.goto('/usage?split=client');
    await page.getByRole('button', { name: 'Show Tokens as table' }).click();
    const tokens = page.getByRole('region', { name: 'Tokens by day' });
    await tokens.getByRole('columnheader', { name: 'Node.js' }).waitFor();
    await page.getByRole('button', { name: 'Show Time to first token as table' }).click();
    const ttft = page.getByRole('region', { name: 'Time to first token by day' });
    await ttft.getByRole('columnheader', { name: 'p95' }).waitFor();
  });

  test('no page shows prompts', async () => {
    for (const path of ['/usage', '/requests', `/requests/${ids[0]}`]) {
      await open(page, { path });
      assert.ok(!(await page.content()).includes(PROMPT), path);
    }
  });
});
