/** From a chart to the requests behind it, by pointer, by touch and by keyboard; and the log while it is live. */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { Page } from 'playwright-core';
import { MODEL, scriptedYaml, until } from '../harness.ts';
import { axe, WITH_BROWSER } from './browser.ts';
import { newKey, openStage, type Stage } from './stage.ts';

const DAY = /[?&]from=\d{4}-\d\d-\d\d&to=\d{4}-\d\d-\d\d(?:&|$)/;
const HOUR = /[?&]from=\d{4}-\d\d-\d\dT\d\d%3A00%3A00Z&to=/;

describe('charts and the live log', WITH_BROWSER, () => {
  let stage: Stage;
  let page: Page;
  let key: string;
  before(async () => {
    stage = await openStage(scriptedYaml({ tokens: 12 }, `    pricing: {prompt: '2', completion: '10'}\n`));
    ({ page } = stage.operator);
    ({ key } = await newKey(stage.service));
    await generate();
  });
  after(() => stage[Symbol.asyncDispose]());

  async function generate(): Promise<void> {
    const answer = await fetch(`${stage.service.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}` },
      body: JSON.stringify({ model: MODEL, messages: [{ role: 'user', content: 'Hello' }] }),
    });
    await answer.text();
  }

  /** Where today's bar of the first chart is: the last column. */
  async function lastColumn(on: Page): Promise<{ x: number; y: number }> {
    const canvas = on.locator('canvas').first();
    await canvas.scrollIntoViewIfNeeded();
    const box = await canvas.boundingBox();
    assert.ok(box);
    return { x: box.x + box.width - 14, y: box.y + box.height / 2 };
  }

  test('what is pointed at is read out without moving the page, and a click opens its requests', async () => {
    await page.goto('/usage');
    const { x, y } = await lastColumn(page);
    const height = () => page.evaluate<number>('document.documentElement.scrollHeight');
    const still = await height();
    await page.mouse.move(x, y);
    await page.getByText('Together').waitFor();
    assert.equal(await height(), still);
    await page.mouse.click(x, y);
    await page.waitForURL('**/requests?*');
    assert.match(page.url(), DAY);
    await page.getByRole('table', { name: 'Requests' }).getByRole('row').nth(1).waitFor();
    await page.goBack();
    await page.waitForURL('**/usage');
  });

  test('the table behind a chart leads there too, by the hour where the range is a day', async () => {
    await page.goto('/usage?range=today');
    await page.getByRole('button', { name: 'Tokens as a table' }).click();
    const table = page.getByRole('region', { name: 'Tokens by hour' });
    await table.getByRole('link').nth(3).focus();
    await page.keyboard.press('Enter');
    await page.waitForURL('**/requests?*');
    assert.match(page.url(), HOUR);
  });

  test('a first touch reads out, a second one of the same place opens', async () => {
    await using phone = await stage.stranger({ width: 360 });
    await phone.context.addCookies(await stage.operator.context.cookies());
    await phone.page.goto('/usage');
    const { x, y } = await lastColumn(phone.page);
    await phone.page.touchscreen.tap(x, y);
    await phone.page.getByText('Together').waitFor();
    assert.match(phone.page.url(), /\/usage$/);
    await phone.page.touchscreen.tap(x, y);
    await phone.page.waitForURL('**/requests?*');
    assert.deepEqual(phone.faults, []);
  });

  test('what is split, compared and broken down stands in the address', async () => {
    await page.goto('/usage');
    await page.getByRole('button', { name: 'Model', exact: true }).first().click();
    await page.getByRole('switch', { name: 'Draw the period before' }).click();
    await page.waitForURL(/split=model.*compare=1/);
    await page.reload();
    const chart = page.getByRole('figure').first();
    await chart.getByText('Before').first().waitFor();
    await page.getByRole('link', { name: MODEL }).first().click();
    await page.waitForURL(`**/requests?model=${encodeURIComponent(MODEL)}&from=*`);
  });

  test('the same charts are drawn anew in the colours of the dark', async () => {
    await page.goto('/usage');
    await page.locator('canvas').first().waitFor();
    const pixels = () => page.evaluate<string | undefined>("document.querySelector('canvas')?.toDataURL()");
    const light = await pixels();
    await page.emulateMedia({ colorScheme: 'dark' });
    await until(async () => ((await pixels()) ?? light) !== light);
    await page.emulateMedia({ colorScheme: 'light' });
  });

  test('days are chosen in a calendar, whose page axe finds nothing on', async () => {
    await page.goto('/usage');
    await page.getByRole('button', { name: /Time range/ }).click();
    await page.getByRole('button', { name: 'Other days' }).click();
    const show = page.getByRole('button', { name: 'Show these days' });
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

  test('a live log has what comes on top, and its filters leave out the rest', async () => {
    await page.goto('/requests?live=1');
    const rows = page.getByRole('table', { name: 'Requests' }).getByRole('row');
    await rows.nth(1).waitFor();
    const count = await rows.count();
    await generate();
    await rows.nth(count).waitFor();
    await page.goto('/requests?status=error');
    await page.getByText('No request passes these filters').waitFor();
    await page.getByRole('button', { name: 'Clear filters' }).first().click();
    await rows.nth(1).waitFor();
    assert.match(page.url(), /\/requests$/);
  });

  test('nothing on the way has broken the policy or thrown', () => {
    assert.deepEqual(stage.operator.faults, []);
  });
});
