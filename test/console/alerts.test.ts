/** The Alerts page of operators. */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { Page } from 'playwright-core';
import { SECRET } from '../alerts/fixture.ts';
import { startWebhookReceiver, type WebhookReceiver } from '../support/webhook-receiver.ts';
import { scriptedYaml, until } from '../harness.ts';
import { axe, setView, sidewaysScroll, WITH_BROWSER } from './browser.ts';
import { openStage, type Stage } from './stage.ts';

describe('the Alerts page', WITH_BROWSER, () => {
  let stage: Stage;
  let page: Page;
  let good: WebhookReceiver;
  let broken: WebhookReceiver;
  const owned = new AsyncDisposableStack();
  before(async () => {
    good = owned.use(await startWebhookReceiver());
    broken = owned.use(await startWebhookReceiver());
    broken.respond = (response) => response.writeHead(500).end();
    const alerts = `
alerts:
  diskFreeBytes: ${Number.MAX_SAFE_INTEGER}
  disabled: [backup_late]
  webhooks:
    - { name: good, url: '${good.url}', secretEnv: WEBHOOK_SECRET }
    - { name: broken, url: '${broken.url}', format: slack }
`;
    stage = owned.use(await openStage(scriptedYaml() + alerts, { WEBHOOK_SECRET: SECRET }));
    ({ page } = stage.operator);
    await until(() => good.received.length > 0 && broken.received.length > 0);
  });
  after(() => owned.disposeAsync());

  const main = () => page.getByRole('main');

  test('it lists alerts, whose details show the messages, and the sidebar counts those that fire', async () => {
    await page.goto('/operator/alerts');
    const row = main().getByRole('row', { name: /^Only .* are free on the disk/ });
    await row.getByText('Firing').waitFor();
    await row.getByText('Retrying').waitFor();
    await page.getByRole('link', { name: 'Alerts 1 firing' }).waitFor();
    await row.getByRole('button').click();
    const details = page.getByRole('dialog', { name: /^Only / });
    await details.getByText('the server responded with status 500').waitFor();
    await details.getByText('webhook:good').waitFor();
    assert.deepEqual(await axe(page), []);
    await details.getByRole('button', { name: 'Silence' }).click();
    await page.getByRole('menuitem', { name: 'Silence for 1 hour' }).click();
    await details.getByText('Silenced until').waitFor();
    await details.getByRole('button', { name: 'Close' }).click();
    await row.getByText('Silenced').waitFor();
  });

  test('a test shows the result of each channel', async () => {
    await main().getByRole('button', { name: 'Send test' }).click();
    const results = page.getByRole('dialog', { name: 'Some test messages were not sent' });
    const item = (name: string) => results.getByRole('listitem').filter({ hasText: name });
    await item('webhook:good').getByText('Sent', { exact: true }).waitFor();
    await item('webhook:broken').getByText('the server responded with status 500').waitFor();
    await results.getByRole('button', { name: 'Done' }).click();
    await results.waitFor({ state: 'detached' });
  });

  test('a type is silenced until a time, and unsilenced', async () => {
    const row = main().getByRole('listitem').filter({ hasText: 'Disk low' });
    await row.getByRole('button', { name: 'Silence Disk low' }).click();
    await page.getByRole('menuitem', { name: 'Silence until …' }).click();
    const dialog = page.getByRole('dialog', { name: 'Silence Disk low' });
    assert.match(await dialog.getByLabel('Until').inputValue(), /^\d{4}-\d\d-\d\dT\d\d:\d\d$/);
    await dialog.getByRole('button', { name: 'Silence' }).click();
    await row.getByText('Silenced').waitFor();
    await row.getByRole('button', { name: 'Silence Disk low' }).click();
    await page.getByRole('menuitem', { name: 'End silence' }).click();
    await row.getByText('On', { exact: true }).waitFor();
    await main().getByRole('listitem').filter({ hasText: 'Backup late' }).getByText('Off').waitFor();
  });

  test('it fits a phone, and the list and the settings fail on their own', async () => {
    assert.deepEqual(await axe(page), []);
    await setView(page, { width: 360, scheme: 'dark' });
    assert.equal(await sidewaysScroll(page), 0);
    assert.deepEqual(await axe(page), []);
    await page.setViewportSize({ width: 390, height: 800 });
    assert.equal(await sidewaysScroll(page), 0);
    await page.route('**/api/alerts?*', (route) => route.fulfill({ status: 500, body: '{}' }));
    await page.reload();
    await main().getByText('Could not load this data').waitFor();
    await main().getByRole('heading', { name: 'Thresholds' }).waitFor();
    await page.unroute('**/api/alerts?*');
    await main().getByRole('button', { name: 'Try again' }).click();
    await main().getByRole('table', { name: 'Alerts' }).waitFor();
  });
});
