/** Charts that open requests by pointer, touch and keyboard, and the live request log. */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { Page } from 'playwright-core';
import { MODEL, scriptedYaml, until } from '../harness.ts';
import { axe, sidewaysScroll, WITH_BROWSER } from './browser.ts';
import { startAtNoon } from '../support/noon.ts';
import { open } from './pages.ts';
import { newKey, openStage, type Stage } from './stage.ts';

const DAY = /[?&]from=\d{4}-\d\d-\d\d&to=\d{4}-\d\d-\d\d(?:&|$)/;
const HOUR = /[?&]from=\d{4}-\d\d-\d\dT\d\d%3A00%3A00Z&to=/;

describe('charts and the live log', WITH_BROWSER, () => {
  let stage: Stage;
  let page: Page;
  let key: string;
  before(async () => {
    startAtNoon();
    stage = await openStage(scriptedYaml({ tokens: 12 }, `    pricing: {prompt: '2', completion: '10'}\n`));
    ({ page } = stage.operator);
    ({ key } = await newKey(stage.service));
    await generate();
  });
  after(() => stage[Symbol.asyncDispose]());

  async function generate(): Promise<void> {
    const response = await fetch(`${stage.service.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}` },
      body: JSON.stringify({ model: MODEL, messages: [{ role: 'user', content: 'Hello' }] }),
    });
    await response.text();
  }

  /**
   * Returns the first chart and the position of today's bar in it, the last column. Its size is read when the chart no
   * longer moves: with that of a page that still loads, the position may be in another column.
   */
  async function lastColumn(on: Page) {
    const chart = on.locator('.uplot').first();
    await chart.hover({ trial: true });
    const box = await chart.boundingBox();
    assert.ok(box);
    return { chart, at: { position: { x: box.width - 14, y: box.height / 2 } } };
  }

  test('hovering a bar shows a tooltip without layout shift, and a click opens its requests', async () => {
    // The other charts must have loaded, because they change the height.
    await open(page, { path: '/usage' });
    const { chart, at } = await lastColumn(page);
    const height = () => page.evaluate<number>('document.documentElement.scrollHeight');
    const before = await height();
    await chart.hover(at);
    await page.getByText('Total', { exact: true }).waitFor();
    assert.equal(await height(), before);
    await chart.click(at);
    await page.waitForURL('**/requests?*');
    assert.match(page.url(), DAY);
    assert.equal(new URL(page.url()).searchParams.get('from'), new Date().toISOString().slice(0, 10));
    await page.getByRole('table', { name: 'Requests' }).getByRole('row').nth(1).waitFor();
    await page.goBack();
    await page.waitForURL('**/usage');
  });

  test('neither a right click nor a drag on a chart opens requests', async () => {
    await page.goto('/usage');
    const { chart, at } = await lastColumn(page);
    await chart.click({ ...at, button: 'right' });
    const box = await chart.boundingBox();
    assert.ok(box);
    const [x, y] = [box.x + at.position.x, box.y + at.position.y];
    await page.mouse.move(x - 40, y);
    await page.mouse.down();
    await page.mouse.move(x, y, { steps: 3 });
    await page.mouse.up();
    await page.getByText('Total', { exact: true }).waitFor();
    assert.match(page.url(), /\/usage$/);
    await chart.click(at);
    await page.waitForURL('**/requests?*');
  });

  test('the parts of a grouped chart are read again with their total', async () => {
    await using visitor = await stage.stranger({});
    await visitor.context.addCookies(await stage.operator.context.cookies());
    const on = visitor.page;
    await on.clock.install();
    await on.goto('/usage?split=model');
    await on.getByRole('figure').first().waitFor();
    const read = on.waitForRequest((request) => {
      const { searchParams: query } = new URL(request.url());
      return query.get('by') === 'day' && query.has('model');
    });
    await on.clock.fastForward(61_000);
    await read;
  });

  test('the table of a chart links to the requests, by hour if the range is a day', async () => {
    await page.goto('/usage?range=today');
    await page.getByRole('button', { name: 'Show Tokens as table' }).click();
    const table = page.getByRole('region', { name: 'Tokens by hour' });
    await table.getByRole('link').nth(3).press('Enter');
    await page.waitForURL('**/requests?*');
    assert.match(page.url(), HOUR);
  });

  test('the first tap shows the tooltip, the second tap opens the requests', async () => {
    await using phone = await stage.stranger({ width: 360 });
    await phone.context.addCookies(await stage.operator.context.cookies());
    await phone.page.goto('/usage');
    const { chart, at } = await lastColumn(phone.page);
    await chart.tap(at);
    await phone.page.getByText('Total', { exact: true }).waitFor();
    assert.match(phone.page.url(), /\/usage$/);
    await chart.tap(at);
    await phone.page.waitForURL('**/requests?*');
    assert.deepEqual(phone.faults, []);
  });

  test('grouping and comparison are part of the URL', async () => {
    await page.goto('/usage');
    await page.getByRole('button', { name: 'Model', exact: true }).first().click();
    await page.getByRole('switch', { name: 'Compare to previous period' }).click();
    await page.waitForURL(/split=model.*compare=1/);
    await page.reload();
    const chart = page.getByRole('figure').first();
    await chart.getByText('Previous period').first().waitFor();
  });

  test('charts redraw in the colors of the dark scheme', async () => {
    await page.goto('/usage');
    await page.locator('canvas').first().waitFor();
    // The page detects the new scheme when it renders a frame, and a busy browser may not render one without a change.
    const pixels = () =>
      page.evaluate<string | undefined>(
        "new Promise((resolve) => requestAnimationFrame(() => resolve(document.querySelector('canvas')?.toDataURL())))",
      );
    const light = await pixels();
    await page.emulateMedia({ colorScheme: 'dark' });
    await until(async () => ((await pixels()) ?? light) !== light);
    await page.emulateMedia({ colorScheme: 'light' });
  });

  test('charts follow the width of the window, in both directions', async () => {
    await page.goto('/usage');
    const chart = page.locator('canvas').first();
    await chart.waitFor();
    const width = async () => (await chart.boundingBox())?.width ?? 0;
    const wide = await width();
    await page.setViewportSize({ width: 768, height: 1024 });
    await until(async () => (await width()) < 768);
    assert.equal(await sidewaysScroll(page), 0);
    await page.setViewportSize({ width: 1440, height: 900 });
    await until(async () => (await width()) === wide);
  });

  test('days can be selected in a calendar, which has no axe violations', async () => {
    await page.goto('/usage');
    await page.getByRole('button', { name: /Time range/ }).click();
    await page.getByRole('button', { name: 'Custom range' }).click();
    const show = page.getByRole('button', { name: 'Apply' });
    await show.waitFor();
    assert.deepEqual(await axe(page), []);
    const first = page
      .getByRole('button', {
        name: /\b1(?:st)? (?:January|February|March|April|May|June|July|August|September|October|November|December)\b/,
      })
      .first();
    await first.click();
    await first.click();
    await show.click();
    await page.waitForURL(/from=\d{4}-\d\d-01&to=\d{4}-\d\d-02/);
  });

  test('the live log adds new requests on top, and filters apply', async () => {
    await page.goto('/requests?live=1');
    const rows = page.getByRole('table', { name: 'Requests' }).getByRole('row');
    await rows.nth(1).waitFor();
    const count = await rows.count();
    await generate();
    await rows.nth(count).waitFor();
    await page.goto('/requests?status=error');
    await page.getByText('No matching requests').waitFor();
    await page.getByRole('button', { name: 'Clear filters' }).first().click();
    await rows.nth(1).waitFor();
    assert.match(page.url(), /\/requests$/);
  });
});
