/** The Spend page: cost by group, and budgets that are edited in place. */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { sql } from 'kysely';
import type { Page } from 'playwright-core';
import { dayOf } from '../../src/accounts/ledger/days.ts';
import { openDatabase } from '../../src/database/database.ts';
import { DEFAULT_ACCOUNT_ID } from '../../src/database/schema.ts';
import { MODEL, scriptedYaml } from '../harness.ts';
import { OPERATOR } from '../operator.ts';
import { startAtNoon } from '../support/noon.ts';
import { sidewaysScroll, WITH_BROWSER } from './browser.ts';
import { post } from './service.ts';
import { openStage, type Stage } from './stage.ts';

const PLANS = `
plans:
  standard: {}
  free:
    usdPerMonth: '5'
`;

describe('the Spend page', WITH_BROWSER, () => {
  let stage: Stage;
  let page: Page;
  /** An account on the plan `free`. */
  let other: string;
  before(async () => {
    startAtNoon();
    const pricing = `    pricing: {prompt: '2', completion: '10'}\n`;
    stage = await openStage(scriptedYaml({ tokens: 12 }, pricing) + PLANS);
    ({ page } = stage.operator);
    const { context } = stage.operator;
    const created = (path: string, body: object) => post(context, stage.service.url, path, body);
    other = String((await created('/api/accounts', { name: 'Northwind', plan: 'free' }))['id']);
    const keys = [
      { account_id: DEFAULT_ACCOUNT_ID, name: 'search', tags: ['production', 'team:a'] },
      { account_id: DEFAULT_ACCOUNT_ID, name: 'support', tags: ['production'] },
      { account_id: other, name: 'maps' },
    ];
    for (const [index, key] of keys.entries()) {
      const { key: secret } = await created('/api/keys', key);
      for (let count = index; count < 3; count++) await send(String(secret));
    }
  });
  after(() => stage[Symbol.asyncDispose]());

  async function send(key: string): Promise<void> {
    const response = await fetch(`${stage.service.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}` },
      body: JSON.stringify({ model: MODEL, messages: [{ role: 'user', content: 'Hello' }] }),
    });
    assert.equal(response.status, 200, await response.text());
  }

  const table = (by: string, of = page) => of.getByRole('table', { name: `Spend by ${by}`, exact: true });
  const row = (by: string, name: RegExp, of = page) => table(by, of).getByRole('row', { name });
  const groupBy = (label: string) =>
    page.getByRole('group', { name: 'Group by' }).getByRole('button', { name: label, exact: true }).click();
  const budget = (name: string, of = page) => of.getByRole('meter', { name: `Budget of ${name}` });

  /** Waits until a budget is this amount. */
  const showsBudget = (name: string, amount: string) =>
    budget(name)
      .and(page.locator(`[aria-valuetext$=" of ${amount}"]`))
      .waitFor();

  /** Opens the form of a budget, and enters an amount. */
  async function enter(name: string, amount: string, of = page) {
    await of.getByRole('button', { name: new RegExp(`^(Set|Edit) budget of ${name}$`) }).click();
    const form = of.getByRole('dialog', { name: `Budget of ${name}` });
    await form.getByLabel('Spend per month').fill(amount);
    await form.getByRole('button', { name: 'Save' }).click();
    return form;
  }

  test('the cost of the month is grouped, with the share of the total', async () => {
    await page.goto('/usage');
    await page.getByRole('navigation').first().getByRole('link', { name: 'Spend' }).click();
    await row('key', /search.*Default.*50\.0%/).waitFor();
    await row('key', /support.*Default.*33\.3%/).waitFor();
    await row('key', /maps.*Northwind.*16\.7%/).waitFor();
    const names = await table('key').getByRole('row').getByRole('link').allInnerTexts();
    assert.deepEqual(names, ['search', 'support', 'maps']);
    await row('key', /search/)
      .getByRole('img', { name: /^At most \$0\.00\d+ a day, on / })
      .waitFor();
    await groupBy('Tag');
    await row('tag', /^production.*83\.3%/).waitFor();
    await row('tag', /^team:a.*50\.0%/).waitFor();
    await row('tag', /^No tag.*16\.7%/).waitFor();
    await groupBy('Member');
    await row('member', new RegExp(`^${OPERATOR.name}.*100\\.0%`)).waitFor();
    await groupBy('Client');
    await row('client', /^Node\.js.*100\.0%/).waitFor();
    await groupBy('Account');
    await row('account', /^Default.*83\.3%/).waitFor();
    await groupBy('Model');
    await page.reload();
    await row('model', new RegExp(`^${MODEL}.*100\\.0%`)).waitFor();
    await page.getByRole('link', { name: MODEL }).click();
    await page.waitForURL(({ pathname }) => pathname === '/requests');
    const { from, to, ...filters } = Object.fromEntries(new URL(page.url()).searchParams);
    assert.deepEqual(filters, { model: MODEL, scope: 'all' });
    assert.match(`${from} ${to}`, /^\d{4}-\d\d-01 \d{4}-\d\d-01$/);
  });

  test('an earlier month is selected, and has no budgets', async () => {
    await using database = await openDatabase({ home: stage.service.home, url: null });
    const now = new Date();
    const month = new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() - 1));
    await sql`
      insert into usage_days (account_id, day, model, key_id, requests, errors, aborted, interrupted, prompt_tokens,
        cached_tokens, completion_tokens, reasoning_tokens, billed_tokens, cost_pico)
      with recursive numbers (number) as (select 1 union all select number + 1 from numbers where number < 1500)
      select ${DEFAULT_ACCOUNT_ID}, ${dayOf(month.getTime())}, 'a/b', 'key_' || number, 1, 0, 0, 0, 1, 0, 0, 0, 0,
        number * 1000000000 from numbers`.execute(database.kysely);
    await page.goto('/spend');
    await table('key').getByRole('columnheader', { name: 'Monthly budget' }).waitFor();
    await page.getByRole('combobox', { name: 'Month' }).click();
    const label = month.toLocaleDateString('en', { month: 'long', year: 'numeric', timeZone: 'UTC' });
    await page.getByRole('option', { name: label }).click();
    await page.waitForURL(`**/spend?month=${month.toISOString().slice(0, 7)}`);
    await page.getByText('1,500 keys.').waitFor();
    const [, first] = await table('key').getByRole('row').allInnerTexts();
    assert.match(first ?? '', /key_1500/);
    assert.equal(await table('key').getAttribute('aria-rowcount'), '1501');
    assert.equal(await table('key').getByRole('columnheader', { name: 'Monthly budget' }).count(), 0);
    await page.goto('/spend?month=2001-01');
    await page.getByText('No requests in this month').waitFor();
    await page.goto('/spend?month=never&by=toString');
    await row('key', /search/).waitFor();
  });

  test('the budget of a key is edited in place, and undone', async () => {
    const form = await enter('search', 'much');
    await form.getByText('Enter an amount in USD').waitFor();
    await form.getByLabel('Spend per month').fill('0.0004');
    await form.getByLabel('Spend per month').press('Enter');
    await form.waitFor({ state: 'detached' });
    await showsBudget('search', '$0.0004');
    await page.getByText('Limits of search updated').waitFor();
    await page.getByRole('button', { name: 'Undo' }).click();
    await page.getByText('Limits of search restored').waitFor();
    await page.getByRole('button', { name: 'Set budget of search' }).waitFor();
  });

  test('a budget that another tab saved in the meantime is not replaced unseen', async () => {
    const tab = await page.context().newPage();
    await tab.goto('/spend');
    await page.getByRole('button', { name: 'Set budget of support' }).click();
    await (await enter('support', '20', tab)).waitFor({ state: 'detached' });
    const form = page.getByRole('dialog', { name: 'Budget of support' });
    await form.getByLabel('Spend per month').fill('30');
    await form.getByRole('button', { name: 'Save' }).click();
    await form.getByText('usd_per_month was not set and is now 20').waitFor();
    await showsBudget('support', '$20.00');
    await form.getByRole('button', { name: 'Save' }).click();
    await form.waitFor({ state: 'detached' });
    await page.getByText('Limits of support updated').waitFor();
    await tab.close();
    await page.getByRole('button', { name: 'Undo' }).click();
    await page.getByText('Limits of support restored').waitFor();
    await showsBudget('support', '$20.00');
  });

  test('the budget of an account takes the place of that of its plan, with the keyboard alone', async () => {
    await page.goto('/spend?by=account');
    await showsBudget('Northwind', '$5.00');
    const edit = page.getByRole('button', { name: 'Edit budget of Northwind' });
    await edit.focus();
    await page.keyboard.press('Enter');
    const form = page.getByRole('dialog', { name: 'Budget of Northwind' });
    await form.waitFor();
    const field = form.getByLabel('Spend per month');
    await field.and(page.locator(':focus')).waitFor();
    assert.equal(await field.getAttribute('placeholder'), '$5.00 (plan)');
    await page.keyboard.type('7.50');
    await page.keyboard.press('Enter');
    await form.waitFor({ state: 'detached' });
    await showsBudget('Northwind', '$7.50');
    await edit.and(page.locator(':focus')).waitFor();
  });

  test('a member sees the account only, and edits the budgets of its keys', async () => {
    const invitation = { account_id: DEFAULT_ACCOUNT_ID, email: 'mia@acme.example', role: 'member' };
    const { url } = stage.service;
    const { link } = await post(stage.operator.context, url, '/api/invitations', invitation);
    await using member = await stage.stranger({ width: 360 });
    const token = new URL(String(link)).hash.slice(1);
    const named = { name: 'Mia Larsen', password: OPERATOR.password };
    await post(member.context, url, '/api/invitations/accept', { token, ...named });
    await member.page.goto('/spend?by=account&scope=all');
    await row('key', /search/, member.page).waitFor();
    const main = member.page.getByRole('main');
    assert.doesNotMatch(await main.innerText(), /Northwind|maps/);
    assert.equal(await main.getByRole('button', { name: 'Account', exact: true }).count(), 0);
    await (await enter('search', '9', member.page)).waitFor({ state: 'detached' });
    await budget('search', member.page).waitFor();
    assert.equal(await sidewaysScroll(member.page), 0);
    await member.page.goto('/spend?by=tag');
    await table('tag', member.page).getByRole('link', { name: 'production' }).click();
    await member.page.waitForURL('**/keys?tag=production');
  });

  test('what cannot be loaded is shown as missing, and loaded again', async () => {
    const error = { message: 'Out of order.', type: 'server_error', code: 'internal_error', param: null };
    await page.route(/\/api\/(?:keys\?|usage\?.*by=day)/, (route) =>
      route.fulfill({ status: 500, json: { error } }),
    );
    await page.goto('/spend');
    await page.getByText('Could not load the budgets: Out of order.').waitFor();
    await page.getByText('Could not load the cost of each day: Out of order.').waitFor();
    await row('key', /search.*50\.0%.*—/).waitFor();
    await page.unrouteAll();
    await page.getByRole('button', { name: 'Try again' }).first().click();
    await page.getByRole('button', { name: 'Try again' }).click();
    await budget('search').waitFor();
    await row('key', /search/)
      .getByRole('img')
      .waitFor();
  });
});
