/** What operators do: accounts from their making to their end, people, the audit log, and pages that are live. */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { Page } from 'playwright-core';
import { createPerson } from '../../src/accounts/people.ts';
import { openDatabase } from '../../src/database/database.ts';
import { MODEL, scriptedYaml, until } from '../harness.ts';
import { WITH_BROWSER } from './browser.ts';
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

describe("the operator's pages", WITH_BROWSER, () => {
  let stage: Stage;
  let page: Page;
  let key: string;
  before(async () => {
    stage = await openStage(scriptedYaml() + PLANS);
    ({ page } = stage.operator);
    await using database = await openDatabase({ home: stage.service.home, url: null });
    const by = { id: 'service', ip: null };
    await createPerson(database, { name: 'Mia Larsen', email: 'mia@acme.example' }, by);
  });
  after(() => stage[Symbol.asyncDispose]());

  const menu = async (button: string, item: string) => {
    await page.getByRole('main').getByRole('button', { name: button }).click();
    await page.getByRole('menuitem', { name: item }).click();
  };

  test('an account is made, and its first owner invited right after', async () => {
    await page.goto('/operator/accounts');
    await page.getByRole('button', { name: 'New account' }).click();
    const making = page.getByRole('dialog', { name: 'New account' });
    await making.getByLabel('Name').fill('Northwind Labs');
    await making.getByRole('combobox', { name: 'Plan' }).click();
    await page.getByRole('option', { name: /^free/ }).click();
    await making.getByRole('button', { name: 'Create account' }).click();
    const inviting = page.getByRole('dialog', { name: 'Invite somebody to Northwind Labs' });
    await inviting.getByLabel('E-mail address').fill('aiko@northwind.example');
    await inviting.getByRole('button', { name: 'Make the link' }).click();
    const handing = page.getByRole('dialog', { name: 'Hand on this link' });
    assert.match(
      await handing.getByRole('region', { name: 'Link of the invitation' }).innerText(),
      /#.{40,}/,
    );
    await handing.getByRole('button', { name: 'Done' }).click();
    const pending = page.getByRole('table', { name: 'Pending invitations' });
    await pending.getByText('aiko@northwind.example').waitFor();
    await pending.getByText('Owner').waitFor();
  });

  test('an invitation is withdrawn', async () => {
    await page.getByRole('button', { name: 'Withdraw the invitation of aiko@northwind.example' }).click();
    await page.getByRole('alertdialog').getByRole('button', { name: 'Withdraw' }).click();
    await page.getByRole('table', { name: 'Pending invitations' }).waitFor({ state: 'detached' });
  });

  test("an account shows its plan's limits and what is left of each, for single models too", async () => {
    const left = page.getByRole('meter', { name: 'Requests per minute' });
    assert.equal(await left.getAttribute('aria-valuetext'), '0 of 20');
    await page.getByText('$5.00 left').waitFor();
    await page.getByText('2 left', { exact: true }).waitFor();
  });

  test('an account is renamed and put on another plan', async () => {
    await menu('Change', 'Rename');
    await page.getByRole('dialog').getByLabel('Name').fill('Northwind');
    await page.getByRole('dialog').getByRole('button', { name: 'Rename' }).click();
    await page.getByRole('heading', { level: 1, name: 'Northwind' }).waitFor();
    await menu('Change', 'Change plan');
    await page.getByRole('dialog').getByRole('combobox', { name: 'Plan' }).click();
    await page.getByRole('option', { name: /^Default plan/ }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Change plan' }).click();
    await page.getByText('It sets none for all models together.').waitFor();
  });

  test('a suspended account opens nothing until it is resumed', async () => {
    const accountId = new URL(page.url()).pathname.split('/').at(-1);
    ({ key } = await makeKey(stage, accountId));
    await until(async () => (await chat(stage, key)) === 200);
    await page.reload();
    await menu('Change', 'Suspend');
    const asked = page.getByRole('alertdialog', { name: 'Suspend Northwind?' });
    await asked.getByText('Its live key opens nothing').waitFor();
    await asked.getByRole('button', { name: 'Suspend' }).click();
    await page.getByText('This account is suspended').waitFor();
    await until(async () => (await chat(stage, key)) === 401);
    await menu('Change', 'Resume');
    await page.getByRole('alertdialog').getByRole('button', { name: 'Resume' }).click();
    await page.getByText('This account is suspended').waitFor({ state: 'detached' });
    await until(async () => (await chat(stage, key)) === 200);
  });

  test('a closed account cannot be changed any more; the list tells so, and finds it', async () => {
    await menu('Change', 'Close for ever');
    await page.getByRole('alertdialog').getByRole('button', { name: 'Close for ever' }).click();
    await page.getByText('This account is closed').waitFor();
    assert.equal(await page.getByRole('main').getByRole('button', { name: 'Change' }).count(), 0);
    await until(async () => (await chat(stage, key)) === 401);
    await page.goto('/operator/accounts?status=closed');
    await page.getByRole('row', { name: /Northwind.*Closed/ }).waitFor();
    await page.getByLabel('Search by name or id').fill('acme');
    await page.getByText('No account is like that').waitFor();
    assert.equal(new URL(page.url()).searchParams.get('q'), 'acme');
    await page.getByRole('button', { name: 'Show all' }).click();
    await page.getByRole('row', { name: /Northwind/ }).waitFor();
  });

  test('somebody is made an operator and one no more; the last one stays', async () => {
    await page.goto('/operator/accounts?tab=people');
    await menu('What to do with Mia Larsen', 'Make an operator');
    const asked = page.getByRole('alertdialog');
    await asked.getByText('They have no second factor').waitFor();
    await asked.getByRole('button', { name: 'Make an operator' }).click();
    await page.getByText('Mia Larsen is an operator now.').waitFor();
    await menu('What to do with Mia Larsen', 'Make no operator any more');
    await page.getByRole('alertdialog').getByRole('button', { name: 'Take it away' }).click();
    await page.getByText('Mia Larsen is no operator any more.').waitFor();
    await page.getByRole('button', { name: /^What to do with Zoë/ }).click();
    const last = page.getByRole('menuitem', { name: 'The last operator stays one' });
    assert.equal(await last.getAttribute('aria-disabled'), 'true');
    await page.keyboard.press('Escape');
  });

  test('the audit log tells all of it, narrowed by the address, with what was before', async () => {
    await page.goto('/operator/audit?action=account.rename');
    const entries = page.getByRole('table', { name: 'Audit log' });
    await entries.getByRole('button', { name: 'Renamed the account' }).click();
    const details = page.getByRole('dialog');
    await details.getByText('Northwind Labs').waitFor();
    // A link to it lands on it.
    await page.reload();
    await details.getByText('Northwind Labs').waitFor();
    await page.keyboard.press('Escape');
    await details.waitFor({ state: 'detached' });
    await page.getByRole('combobox', { name: 'What', exact: true }).click();
    await page.getByRole('combobox', { name: 'Find: What' }).fill('suspended');
    await page.keyboard.press('Enter');
    await entries.getByRole('button', { name: 'Suspended the account' }).waitFor();
    assert.equal(new URL(page.url()).searchParams.get('action'), 'account.suspend');
    await page.goBack();
    await entries.getByRole('button', { name: 'Renamed the account' }).waitFor();
  });

  test('plans are told in words, with who is on them', async () => {
    await page.goto('/operator/plans');
    await page.getByText('20 requests per minute').waitFor();
    await page.getByText('2 requests at once').waitFor();
    await page.getByRole('link', { name: '1 account' }).click();
    await page.getByRole('table', { name: 'Accounts' }).waitFor();
    assert.equal(new URL(page.url()).searchParams.get('plan'), 'standard');
  });

  test("an engine's details stand at an address of their own", async () => {
    await page.goto('/operator/engines');
    await page.getByRole('table', { name: 'Engines' }).getByRole('button', { name: MODEL }).click();
    await page.getByRole('dialog', { name: MODEL }).getByText('scripted').first().waitFor();
    await page.goBack();
    await page.getByRole('dialog').waitFor({ state: 'detached' });
    await page.goForward();
    await page.getByRole('dialog', { name: MODEL }).waitFor();
  });

  test('the load is live, says when the service does not answer, and goes on when it does again', async () => {
    await page.goto('/operator/load');
    const status = page.getByRole('main').getByRole('status');
    await status.getByText('Live', { exact: true }).waitFor();
    await page.getByText('In flight', { exact: true }).first().waitFor();
    await page.route('**/api/load', (route) => route.abort());
    await status.getByText('Paused: no answer since').waitFor();
    await page.unroute('**/api/load');
    await status.getByText('Live', { exact: true }).waitFor();
  });

  test('health says of each thing how it is', async () => {
    await page.goto('/operator/health');
    for (const name of ['Database', 'Ledger', 'Limits', 'Disk', 'Models', 'E-mail', 'Sign-in']) {
      await page.getByRole('heading', { name }).waitFor();
    }
    await page.getByText('1 of 1 ready').waitFor();
  });

  test('nothing on the way has broken the policy or thrown', () => {
    assert.deepEqual(stage.operator.faults, []);
  });
});

async function makeKey({ service }: Stage, accountId: string | undefined): Promise<{ key: string }> {
  assert.ok(accountId);
  const { key } = await service.service.keys.create({ name: 'app', accountId });
  return { key: key.reveal() };
}

/** Status of a short chat with this key. */
async function chat({ service }: Stage, key: string): Promise<number> {
  const answer = await fetch(`${service.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}` },
    body: JSON.stringify({ model: MODEL, max_tokens: 1, messages: [{ role: 'user', content: 'Hello' }] }),
  });
  await answer.text();
  return answer.status;
}
