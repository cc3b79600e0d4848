/** The timeline of requests: refused requests among the others, folded errors, the histogram, and the receipt beside it. */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { Page } from 'playwright-core';
import { MODEL, scriptedYaml, until } from '../harness.ts';
import { scripted } from '../support/scripted-engine/directive.ts';
import { axe, SCHEMES, setView, sidewaysScroll, textOf, WITH_BROWSER } from './browser.ts';
import { open } from './pages.ts';
import { newKey, openStage, type Stage } from './stage.ts';

const DESKTOP = { width: 1440, height: 900 };
const PHONE = { width: 390, height: 844 };

describe('the timeline of requests', WITH_BROWSER, () => {
  let stage: Stage;
  let page: Page;
  let key: string;
  /** IDs of the requests, in the order of the list. */
  let ids: string[];
  before(async () => {
    stage = await openStage(scriptedYaml({ tokens: 3 }));
    ({ page } = stage.operator);
    ({ key } = await newKey(stage.service, 'app'));
    await newKey(stage.service, 'unused');
    const tooLong = scripted({ error: 'context_length_exceeded' });
    const sent = [await ask('first')];
    // Only one, because two could be refused in different hours.
    await ask('unknown', 'acme/missing');
    for (const content of ['second', tooLong, tooLong, tooLong, 'last']) sent.push(await ask(content));
    ids = sent.toReversed();
  });
  after(() => stage[Symbol.asyncDispose]());

  /** Resolves with the request ID. */
  async function ask(content: string, model: string = MODEL): Promise<string> {
    const response = await fetch(`${stage.service.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}` },
      body: JSON.stringify({ model, messages: [{ role: 'user', content }] }),
    });
    await response.text();
    return response.headers.get('x-request-id') ?? '';
  }

  const table = () => page.getByRole('table', { name: 'Requests', exact: true });
  const rows = () => table().locator('tbody tr');
  const texts = async () =>
    (await rows().locator('td:nth-child(3)').allInnerTexts()).map((text) => text.split('\n').join(', '));
  const fold = (isOpen: boolean) => rows().getByRole('button', { expanded: isOpen });
  const receipt = () => page.getByRole('region', { name: 'Request', exact: true });
  const isAt = (index: number) => page.waitForURL(({ pathname }) => pathname === `/requests/${ids[index]}`);
  const ERROR = '400 context_length_exceeded';
  const FOLDED = [
    'Completed',
    `${ERROR}, 3 requests`,
    'Completed',
    'model_not_found · model, 1 refused',
    'Completed',
  ];

  test('refused requests are among the others, and adjacent errors are one row that opens', async () => {
    await page.setViewportSize(DESKTOP);
    await page.goto('/requests');
    await rows().nth(4).waitFor();
    assert.deepEqual(await texts(), FOLDED);
    await page.getByText('7 requests', { exact: true }).waitFor();
    await fold(false).press('Enter');
    await rows().nth(7).waitFor();
    assert.deepEqual((await texts()).slice(1, 5), [`${ERROR}, 3 requests`, ERROR, ERROR, ERROR]);
    await fold(true).press('Enter');
    await until(async () => (await rows().count()) === 5);
    await table().getByRole('button', { name: 'Table options' }).click();
    await page.getByRole('menuitemcheckbox', { name: 'Requests' }).click();
    const [download] = await Promise.all([
      page.waitForEvent('download'),
      page.getByRole('menuitem', { name: 'Download CSV' }).click(),
    ]);
    const lines = (await textOf(download)).trim().split('\n');
    assert.equal(lines.length, 8);
    assert.match(lines[6] ?? '', /refused: model_not_found.*,1\r?$/);
    await page.keyboard.press('Escape');
  });

  test('a refused row opens what is known of it', async () => {
    await page
      .getByRole('row', { name: /model_not_found/ })
      .getByRole('link')
      .press('Enter');
    const details = page.getByRole('region', { name: 'Refused requests' });
    await details.getByText('The model acme/missing does not exist').waitFor();
    await page.reload();
    await details.getByText('The model acme/missing does not exist').waitFor();
    await details.getByRole('button', { name: 'Close' }).click();
    await details.waitFor({ state: 'detached' });
    assert.equal(new URL(page.url()).pathname, '/requests');
  });

  test('the status shows only what completed, failed or was refused, with counts of each choice', async () => {
    const option = (name: RegExp) => page.getByRole('option', { name });
    await open(page, { path: '/requests' });
    await page.getByRole('combobox', { name: 'Status' }).click();
    for (const name of [/^Completed\s*3$/, /^Failed.*\s*3$/, /^Refused.*\s*1$/, /^Interrupted.*\s*0$/])
      await option(name).waitFor();
    await option(/^Refused/).click();
    await page.waitForURL(/status=refused/);
    await until(async () => (await texts()).join() === FOLDED[3]);
    for (const [status, shown] of [
      ['completed', ['Completed', 'Completed', 'Completed']],
      ['error', [`${ERROR}, 3 requests`]],
      ['model_not_found', [FOLDED[3]]],
    ] as const) {
      await page.goto(`/requests?status=${status}`);
      await until(async () => (await texts()).join() === shown.join());
    }
    await open(page, { path: '/requests' });
    await page.getByRole('combobox', { name: 'Model' }).click();
    await option(new RegExp(`^${MODEL}\\s*6$`)).waitFor();
    await page.keyboard.press('Escape');
    await page.getByRole('combobox', { name: 'Key' }).click();
    await option(/^app\s*6$/).waitFor();
    await option(/^unused\s*0$/).click();
    await page.getByText('No matching requests').waitFor();
    await page.getByRole('combobox', { name: 'Model' }).click();
    await option(/^All models$/).waitFor();
    assert.equal(await page.getByRole('option').count(), 1);
    await page.keyboard.press('Escape');
  });

  /** Drags from the last bar but one to the last bar of the chart, which has this number of bars. */
  async function dragOverLastTwo(count: number): Promise<URLSearchParams> {
    const chart = page.locator('.uplot');
    // Its size is read when it no longer moves.
    await chart.hover({ trial: true });
    const box = await chart.boundingBox();
    assert.ok(box);
    // Besides the bars are the value axis and the padding.
    const width = (box.width - 56) / count;
    const [right, y] = [box.x + box.width - 8, box.y + box.height / 2];
    const before = page.url();
    await page.mouse.move(right - 1.5 * width, y);
    await page.mouse.down();
    await page.mouse.move(right - 0.5 * width, y, { steps: 3 });
    await page.mouse.up();
    await page.waitForURL((url) => url.href !== before);
    return new URL(page.url()).searchParams;
  }

  test('a drag over the bars shows the requests of their time, and so does the time filter', async () => {
    await page.goto('/requests?from=2025-01-01T00:00:00Z&to=2025-01-01T04:00:00Z');
    await page.getByText('No matching requests').waitFor();
    const hours = await dragOverLastTwo(4);
    assert.deepEqual([hours.get('from'), hours.get('to')], ['2025-01-01T02:00:00Z', '2025-01-01T04:00:00Z']);
    await page.goto('/requests?range=7d');
    await rows().nth(4).waitFor();
    const days = await dragOverLastTwo(7);
    const [from, to] = [days.get('from') ?? '', days.get('to') ?? ''];
    assert.match(from, /^\d{4}-\d\d-\d\d$/);
    assert.equal(Date.parse(to) - Date.parse(from), 2 * 86_400_000);
    assert.equal(days.get('range'), null);
    await page.reload();
    await rows().nth(4).waitFor();
    await page.goto('/requests?from=2025-01-01&to=2025-01-02');
    await page.getByText('No matching requests').waitFor();
    await page.getByRole('button', { name: /Time range/ }).press('Enter');
    await page.getByRole('button', { name: 'Last 7 days' }).press('Enter');
    await page.waitForURL(/range=7d/);
    await rows().nth(4).waitFor();
  });

  test('on a desktop the receipt is beside the list, and j and k move in it', async () => {
    await page.goto('/requests');
    await rows().nth(4).waitFor();
    await page.keyboard.press('j');
    await isAt(0);
    await receipt().getByText('What the model was given').waitFor();
    assert.equal(await page.getByRole('dialog').count(), 0);
    assert.equal(await page.locator('tr[aria-current]').count(), 1);
    await page.keyboard.press('j');
    await isAt(1);
    // The row that has the request is a folded one.
    await page.locator('tr[aria-current]', { hasText: '3 requests' }).waitFor();
    await page.keyboard.press('k');
    await isAt(0);
    // Another row replaces the receipt, and one step back closes it.
    await rows().last().getByRole('link').click();
    await isAt(5);
    await page.keyboard.press('k');
    await page.getByRole('region', { name: 'Refused requests' }).waitFor();
    await page.keyboard.press('k');
    await isAt(4);
    await page.goBack();
    await receipt().waitFor({ state: 'detached' });
    await rows().last().getByRole('link').press('Enter');
    await receipt().and(page.locator(':focus')).waitFor();
    await page.keyboard.press('Escape');
    await receipt().waitFor({ state: 'detached' });
    await rows().last().locator('a:focus').waitFor();
    // Not while text is typed.
    await page.getByRole('searchbox').pressSequentially('j');
    assert.equal(new URL(page.url()).pathname, '/requests');
  });

  test('on a phone the receipt is a dialog', async () => {
    await page.setViewportSize(PHONE);
    await page.goto('/requests');
    await rows().last().getByRole('link').click();
    const dialog = page.getByRole('dialog', { name: 'Request', exact: true });
    await dialog.getByText('What the model was given').waitFor();
    assert.equal(await receipt().count(), 0);
    await page.keyboard.press('k');
    await page.getByRole('dialog', { name: 'Refused requests' }).waitFor();
    await page.keyboard.press('j');
    await isAt(5);
    await page.keyboard.press('Escape');
    await dialog.waitFor({ state: 'detached' });
    assert.equal(new URL(page.url()).pathname, '/requests');
  });

  test('has no axe violations, and no sideways scrolling', async () => {
    for (const path of ['/requests', `/requests/${ids[0]}`]) {
      await setView(page, { width: 1440, scheme: 'light' });
      await open(page, { path });
      for (const width of [1440, 360] as const) {
        for (const scheme of SCHEMES) {
          await setView(page, { width, scheme });
          assert.equal(await sidewaysScroll(page), 0);
          assert.deepEqual(await axe(page), []);
        }
      }
    }
  });
});
