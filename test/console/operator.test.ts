/** Operator pages: accounts, users, audit log, plans, and live pages. */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { Page } from 'playwright-core';
import { createUser } from '../../src/accounts/users.ts';
import { openDatabase } from '../../src/database/database.ts';
import { MODEL, ready, scriptedYaml, until } from '../harness.ts';
import { holdResponse, sidewaysScroll, textOf, WITH_BROWSER } from './browser.ts';
import { openStage, type Stage } from './stage.ts';

const PLANS = `
plans:
  standard: {}
  free:
    requestsPerMinute: 20
    usdPerMonth: '5'
    models:
      ${MODEL}: { requestsInFlight: 2 }
`;

describe('operator pages', WITH_BROWSER, () => {
  let stage: Stage;
  let page: Page;
  let key: string;
  before(async () => {
    stage = await openStage(scriptedYaml() + PLANS);
    ({ page } = stage.operator);
    await using database = await openDatabase({ home: stage.service.home, url: null });
    const by = { id: 'service', ip: null };
    await createUser(database, { name: 'Mia Larsen', email: 'mia@acme.example' }, by);
  });
  after(() => stage[Symbol.asyncDispose]());

  const menu = async (button: string, item: string) => {
    await page.getByRole('main').getByRole('button', { name: button }).click();
    await page.getByRole('menuitem', { name: item }).click();
  };

  test('after an account is created, its owner can be invited', async () => {
    await page.goto('/operator/accounts');
    await page.getByRole('button', { name: 'Create account' }).click();
    const creating = page.getByRole('dialog', { name: 'Create account' });
    await creating.getByLabel('Name').fill('Northwind Labs');
    await creating.getByRole('combobox', { name: 'Plan' }).click();
    await page.getByRole('option', { name: /^free/ }).click();
    await creating.getByRole('button', { name: 'Create account' }).click();
    const inviting = page.getByRole('dialog', { name: 'Invite a member to Northwind Labs' });
    await inviting.getByLabel('Email').fill('aiko@northwind.example');
    await inviting.getByRole('button', { name: 'Create invitation' }).click();
    const invitation = page.getByRole('dialog', { name: 'Invitation link' });
    assert.match(await invitation.getByRole('region', { name: 'Invitation link' }).innerText(), /#.{40,}/);
    await invitation.getByRole('button', { name: 'Copy link' }).click();
    await invitation.getByRole('button', { name: 'Done' }).click();
    const pending = page.getByRole('table', { name: 'Pending invitations' });
    await pending.getByText('aiko@northwind.example').waitFor();
    await pending.getByText('Owner').waitFor();
  });

  test('an invitation is withdrawn', async () => {
    await page.getByRole('button', { name: 'Withdraw invitation for aiko@northwind.example' }).click();
    await page.getByRole('alertdialog').getByRole('button', { name: 'Withdraw' }).click();
    await page.getByRole('table', { name: 'Pending invitations' }).waitFor({ state: 'detached' });
  });

  test('an account page shows usage and limits of the plan, including model limits', async () => {
    const left = page.getByRole('meter', { name: 'Requests per minute' });
    assert.equal(await left.getAttribute('aria-valuetext'), '0 of 20');
    await page.getByText('$5.00 left').waitFor();
    await page.getByText('2 left', { exact: true }).waitFor();
  });

  test('an account is renamed and its plan changed', async () => {
    await menu('Actions', 'Rename');
    await page.getByRole('dialog').getByLabel('Name').fill('Northwind');
    await page.getByRole('dialog').getByRole('button', { name: 'Rename' }).click();
    await page.getByRole('heading', { level: 1, name: 'Northwind' }).waitFor();
    await menu('Actions', 'Change plan');
    await page.getByRole('dialog').getByRole('combobox', { name: 'Plan' }).click();
    await page.getByRole('option', { name: /^Default plan/ }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Change plan' }).click();
    await page.getByText('No overall limits').waitFor();
  });

  test('the limits of an account are changed, and undone', async () => {
    await page.getByRole('button', { name: 'Edit limits' }).click();
    const dialog = page.getByRole('dialog', { name: 'Edit limits of Northwind' });
    await dialog.getByLabel('Spend per month').fill('much');
    await dialog.getByRole('button', { name: 'Save' }).click();
    await dialog.getByText('Enter an amount in USD').waitFor();
    await dialog.getByLabel('Spend per month').fill('12.50');
    await page.keyboard.press('Escape');
    await page.getByRole('alertdialog').getByRole('button', { name: 'Cancel' }).click();
    await dialog.getByRole('button', { name: 'Save' }).click();
    await page.getByText('$12.50 left').waitFor();
    await page.getByRole('button', { name: 'Undo' }).click();
    await page.getByText('Limits of Northwind restored').waitFor();
    await page.getByText('No overall limits').waitFor();
  });

  test('requests of a suspended account are refused until it is resumed', async () => {
    const accountId = new URL(page.url()).pathname.split('/').at(-1);
    ({ key } = await createKey(stage, accountId));
    await until(async () => (await chat(stage, key)) === 200);
    await page.reload();
    await menu('Actions', 'Suspend');
    const dialog = page.getByRole('alertdialog', { name: 'Suspend Northwind?' });
    await dialog.getByText('Its active key stops working').waitFor();
    await dialog.getByRole('button', { name: 'Suspend' }).click();
    await page.getByText('This account is suspended').waitFor();
    await until(async () => (await chat(stage, key)) === 401);
    await menu('Actions', 'Resume');
    await page.getByRole('alertdialog').getByRole('button', { name: 'Resume' }).click();
    await page.getByText('This account is suspended').waitFor({ state: 'detached' });
    await until(async () => (await chat(stage, key)) === 200);
  });

  test('a closed account has no actions and is listed as closed', async () => {
    await menu('Actions', 'Close account');
    await page.getByRole('alertdialog').getByRole('button', { name: 'Close account' }).click();
    await page.getByText('This account is permanently closed').waitFor();
    assert.equal(await page.getByRole('main').getByRole('button', { name: 'Actions' }).count(), 0);
    await until(async () => (await chat(stage, key)) === 401);
    await page.goto('/operator/accounts?status=closed');
    await page.getByRole('row', { name: /Northwind.*Closed/ }).waitFor();
    await page.getByLabel('Search by name or ID').fill('acme');
    await page.getByText('No matching accounts').waitFor();
    assert.equal(new URL(page.url()).searchParams.get('q'), 'acme');
    await page.getByRole('button', { name: 'Clear filters' }).click();
    await page.getByRole('row', { name: /Northwind/ }).waitFor();
  });

  test('the operator role is granted and removed, except from the last operator', async () => {
    await page.goto('/operator/accounts?tab=users');
    await menu('Actions for Mia Larsen', 'Make operator');
    const dialog = page.getByRole('alertdialog');
    await dialog.getByText('has not enabled two-factor authentication').waitFor();
    await dialog.getByRole('button', { name: 'Make operator' }).click();
    await page.getByText('Mia Larsen is now an operator').waitFor();
    await menu('Actions for Mia Larsen', 'Remove operator role');
    await page.getByRole('alertdialog').getByRole('button', { name: 'Remove operator role' }).click();
    await page.getByText('Mia Larsen is no longer an operator').waitFor();
    await page.getByRole('button', { name: /^Actions for Zoë/ }).click();
    const last = page.getByRole('menuitem', { name: 'Cannot remove the last operator' });
    assert.equal(await last.getAttribute('aria-disabled'), 'true');
    await page.keyboard.press('Escape');
  });

  test('the audit log shows changes with their old values, and its filters are part of the URL', async () => {
    await page.goto('/operator/audit?action=account.rename');
    const entries = page.getByRole('table', { name: 'Audit log' });
    await entries.getByRole('button', { name: 'Renamed account' }).click();
    const details = page.getByRole('dialog');
    await details.getByText('Northwind Labs').waitFor();
    // An open entry has its own URL.
    await page.reload();
    await details.getByText('Northwind Labs').waitFor();
    await page.keyboard.press('Escape');
    await details.waitFor({ state: 'detached' });
    await page.getByRole('combobox', { name: 'Event', exact: true }).click();
    const search = page.getByRole('combobox', { name: 'Search: Event' });
    await search.fill('suspended');
    await page.getByRole('option').first().filter({ hasText: 'Suspended account' }).waitFor();
    await search.press('Enter');
    await entries.getByRole('button', { name: 'Suspended account' }).waitFor();
    assert.equal(new URL(page.url()).searchParams.get('action'), 'account.suspend');
    await page.goBack();
    await entries.getByRole('button', { name: 'Renamed account' }).waitFor();
    await page.getByRole('button', { name: 'Time range: Any time' }).click();
    await page.getByRole('button', { name: 'Last month' }).click();
    await page.getByText('No matching events').waitFor();
    assert.equal(new URL(page.url()).searchParams.get('range'), 'last-month');
    await page.getByRole('button', { name: 'Clear filters' }).click();
    await entries.getByRole('button', { name: 'Suspended account' }).waitFor();
    assert.equal(new URL(page.url()).search, '');
  });

  test('playground keys are folded in the audit log, and its CSV file has all of them', async () => {
    for (let count = 0; count < 3; count++)
      await page.evaluate(() =>
        fetch('/api/playground-keys', {
          method: 'POST',
          headers: { 'content-type': 'application/json' },
          body: JSON.stringify({ account_id: 'default' }),
        }),
      );
    await page.goto('/operator/audit');
    const entries = page.getByRole('table', { name: 'Audit log' });
    const group = entries.getByRole('button', { name: 'Created 3 playground keys' });
    await group.waitFor();
    const single = entries.getByRole('button', { name: 'Created key', exact: true });
    const others = await single.count();
    await entries.getByRole('button', { name: 'Table options' }).click();
    const downloaded = page.waitForEvent('download');
    await page.getByRole('menuitem', { name: 'Download CSV' }).click();
    const file = await textOf(downloaded);
    assert.equal(file.match(/Created key/g)?.length, others + 3);
    await group.click();
    assert.equal(await group.getAttribute('aria-expanded'), 'true');
    assert.equal(await single.count(), others + 3);
    await group.click();
    await until(async () => (await single.count()) === others);
  });

  test('plans show their limits, and who uses them', async () => {
    await page.goto('/operator/plans?plan=free&edit=1');
    const row = page.getByRole('table', { name: 'Plans' }).getByRole('row', { name: /free/ });
    await row.getByText('20 requests per minute').waitFor();
    await row.getByText(`${MODEL}: 2 concurrent requests`).waitFor();
    assert.equal(await page.getByRole('dialog').count(), 0);
    const standard = page.getByRole('table', { name: 'Plans' }).getByRole('row', { name: /standard/ });
    await standard.getByRole('link').first().click();
    await page.getByRole('table', { name: 'Accounts' }).waitFor();
    assert.equal(new URL(page.url()).searchParams.get('plan'), 'standard');
  });

  test('the details of a replica have their own URL', async () => {
    await page.goto('/operator/operations');
    await page.getByRole('table', { name: 'Replicas' }).getByRole('button', { name: MODEL }).click();
    await page.getByRole('dialog', { name: MODEL }).getByText('scripted').first().waitFor();
    await page.goBack();
    await page.getByRole('dialog').waitFor({ state: 'detached' });
    await page.goForward();
    await page.getByRole('dialog', { name: MODEL }).waitFor();
  });

  test('an engine is restarted after confirmation', async () => {
    await page.getByRole('dialog', { name: MODEL }).getByRole('button', { name: 'Restart' }).click();
    const asked = page.getByRole('alertdialog', { name: `Restart the engine of ${MODEL}?` });
    await asked.getByRole('button', { name: 'Restart engine' }).click();
    await page.getByText(`Engine of ${MODEL} is restarting`).waitFor();
    await until(() => stage.service.service.embeddedReplicas[0]?.report().restarts === 1);
    await ready(stage.service.service);
    await page.goto('/operator/audit?action=engine.restart');
    await page
      .getByRole('table', { name: 'Audit log' })
      .getByRole('button', { name: 'Restarted engine of' })
      .waitFor();
  });

  test('a replica is drained after confirmation, and resumed', async () => {
    await page.goto('/operator/operations');
    await page.getByRole('table', { name: 'Replicas' }).getByRole('button', { name: MODEL }).click();
    const dialog = page.getByRole('dialog', { name: MODEL });
    await dialog.getByRole('button', { name: 'Drain' }).click();
    const asked = page.getByRole('alertdialog', { name: `Drain this replica of ${MODEL}?` });
    await asked.getByText('This is the only replica of the model that gets requests.').waitFor();
    await asked.getByRole('button', { name: 'Drain replica' }).click();
    await dialog.getByText('No new requests are sent to this replica').waitFor();
    await dialog.getByText('Drained', { exact: true }).first().waitFor();
    await dialog.getByRole('button', { name: 'Resume' }).click();
    await dialog.getByRole('button', { name: 'Drain' }).waitFor();
    await dialog.getByText('Ready', { exact: true }).first().waitFor();
  });

  test('queue, speed and memory of replicas are also shown on a phone', async () => {
    await using phone = await stage.stranger({ width: 360 });
    await phone.context.addCookies(await stage.operator.context.cookies());
    await phone.page.goto('/operator/operations');
    const row = phone.page.getByRole('table', { name: 'Replicas' }).getByRole('row').nth(1);
    for (const name of ['Queue', 'Tokens/s', 'Memory']) await row.getByText(name, { exact: true }).waitFor();
    assert.equal(await sidewaysScroll(phone.page), 0);
  });

  test('values that cannot be loaded are shown as missing, with a retry, and the rest of the page works', async () => {
    const main = page.getByRole('main');
    const fault = { error: { message: 'Not now.', code: 'internal_error', type: 'server_error' } };
    await page.route(/\/api\/(?:usage|plans|models|users)\b/, (route) =>
      route.fulfill({ status: 500, json: fault }),
    );
    await page.goto('/operator/operations');
    await main.getByText('Could not load the models: Not now.').waitFor();
    await page.goto('/requests');
    await main.getByRole('combobox', { name: 'Model' }).click();
    await page.getByRole('option', { name: 'Could not load the models' }).waitFor();
    await page.goto('/operator/audit');
    await main.getByText('Could not load the names of users: Not now.').waitFor();
    await page.goto('/operator/accounts?plan=unlimited');
    await main.getByRole('alert').filter({ hasText: 'Could not load this data' }).waitFor();
    assert.equal(await main.getByText('No matching accounts').count(), 0);
    await page.goto('/operator/accounts');
    await main.getByText('Could not load the cost of the accounts: Not now.').waitFor();
    await main
      .getByRole('row', { name: /Default/ })
      .getByText('—')
      .first()
      .waitFor();
    assert.equal(await main.locator('[data-skeleton]').count(), 0);
    await main.getByRole('button', { name: 'Create account' }).click();
    const creating = page.getByRole('dialog', { name: 'Create account' });
    await creating.getByText('Could not load the plans: Not now.').waitFor();
    await page.unrouteAll();
    await creating.getByRole('button', { name: 'Try again' }).click();
    await creating.getByRole('combobox', { name: 'Plan' }).waitFor();
    await creating.getByRole('button', { name: 'Cancel' }).click();
    await main.getByRole('button', { name: 'Try again' }).click();
    await main
      .getByRole('row', { name: /Default/ })
      .getByText('$0.00')
      .waitFor();
  });

  test('the Operations page reports that the service does not respond, until it responds again', async () => {
    const held = await holdResponse(page, '**/api/load', 'GET');
    await page.goto('/operator/operations');
    const status = page.getByRole('main').getByRole('status');
    await status.getByText('Connecting', { exact: true }).waitFor();
    await held.release();
    await status.getByText('Live', { exact: true }).waitFor();
    await page.getByText('In flight', { exact: true }).first().waitFor();
    await page.route('**/api/load', (route) => route.abort());
    await status.getByText('No response since').waitFor();
    await page.unroute('**/api/load');
    await status.getByText('Live', { exact: true }).waitFor();
  });

  test('the Operations page shows all checks, those that failed first', async () => {
    await page.goto('/operator/operations');
    for (const name of ['Database', 'Ledger', 'Limits', 'Disk', 'Models', 'Email', 'Sign-in']) {
      await page.getByRole('heading', { name }).waitFor();
    }
    await page.getByText('1 of 1 ready').waitFor();
    const attention = page.getByRole('heading', { name: 'Needs attention' });
    assert.equal(await attention.count(), 0);
    await page.route('**/api/health', async (route) => {
      const health = (await (await route.fetch()).json()) as object;
      await route.fulfill({ json: { ...health, limits_store: { kind: 'valkey', reachable: false } } });
    });
    await attention.waitFor();
    const [first] = await page.getByRole('heading', { level: 3 }).allInnerTexts();
    assert.equal(first, 'Limits');
    await page.getByText('Unreachable').waitFor();
    await page.unroute('**/api/health');
    await attention.waitFor({ state: 'detached' });
  });

  test('the addresses of the pages before lead to the Operations page', async () => {
    for (const old of ['load', 'health']) {
      await page.goto(`/operator/${old}`);
      await page.getByRole('heading', { level: 1, name: 'Operations' }).waitFor();
    }
    await page.goto(`/operator/engines?engine=${encodeURIComponent(`${MODEL} embedded:${MODEL}`)}`);
    await page.getByRole('dialog', { name: MODEL }).waitFor();
    assert.equal(new URL(page.url()).pathname, '/operator/operations');
  });
});

async function createKey({ service }: Stage, accountId: string | undefined): Promise<{ key: string }> {
  assert.ok(accountId);
  const { key } = await service.service.keys.create({ name: 'app', accountId });
  return { key: key.reveal() };
}

/** Returns the HTTP status of a short chat completion with this key. */
async function chat({ service }: Stage, key: string): Promise<number> {
  const response = await fetch(`${service.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}` },
    body: JSON.stringify({ model: MODEL, max_tokens: 1, messages: [{ role: 'user', content: 'Hello' }] }),
  });
  await response.text();
  return response.status;
}
