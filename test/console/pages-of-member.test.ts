/** The console as a plain member of one account: what is shown, and that nothing is requested or offered that is refused. */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { Locator, Page } from 'playwright-core';
import { createAccount } from '../../src/accounts/accounts.ts';
import { openDatabase } from '../../src/database/database.ts';
import { DEFAULT_ACCOUNT_ID } from '../../src/database/schema.ts';
import { MODEL } from '../harness.ts';
import { OPERATOR } from '../operator.ts';
import { WITH_BROWSER, type Visitor } from './browser.ts';
import { follow } from './pages.ts';
import { post } from './service.ts';
import { newKey, openStage, type Stage } from './stage.ts';

/** The name of an account, and of its key, which the member must not see. */
const OTHER = 'Northwind';

const PATHS = [
  '/',
  '/keys',
  '/keys?create=1',
  '/keys?key={key}',
  '/playground',
  '/models',
  `/models?model=${MODEL}`,
  '/models?add=1',
  '/members',
  '/usage',
  '/usage?scope=all',
  '/usage?account={other}',
  '/spend',
  '/spend?by=member',
  '/spend?by=account&scope=all',
  '/spend?account={other}',
  '/requests',
  '/requests?scope=all',
  '/requests?account={other}',
  '/requests?status=refused&scope=all',
  '/settings',
  '/settings?tab=security',
  '/settings?tab=sessions',
  '/docs',
  '/docs/createKey',
  '/docs/guide/limits',
];

const OPERATOR_PATHS = [
  '/operator/operations',
  '/operator/load',
  '/operator/engines',
  '/operator/accounts',
  '/operator/accounts?tab=users',
  '/operator/accounts/{other}',
  '/operator/plans',
  '/operator/audit',
  '/operator/alerts',
  '/operator/health',
];

/** What operators can do on pages that members see too, and what shows that the page is complete. */
const ACTIONS: readonly (readonly [path: string, complete: (page: Page) => Locator, ...names: RegExp[]])[] = [
  ['/keys?create=1', (page) => page.getByRole('dialog').getByLabel('Name'), /^Admin key/],
  ['/models', (page) => page.getByRole('table', { name: 'Models' }), /^Add model/],
  ['/members', (page) => page.getByRole('table').getByText('Mia Larsen'), /^Invite member/, /^Remove/],
];

describe('the console as a member', WITH_BROWSER, () => {
  let stage: Stage;
  let member: Visitor;
  let keyId: string;
  let otherId: string;
  /** Responses with an error to the member's pages. */
  const refused: string[] = [];
  before(async () => {
    stage = await openStage();
    const { service, operator } = stage;
    {
      await using database = await openDatabase({ home: service.home, url: null });
      ({ id: otherId } = await createAccount(database, { name: OTHER }, { id: 'service', ip: null }));
    }
    ({ id: keyId } = await newKey(service));
    const { key } = await service.service.keys.create({ name: `of ${OTHER}`, accountId: otherId });
    const response = await fetch(`${service.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key.reveal()}` },
      body: JSON.stringify({ model: MODEL, messages: [{ role: 'user', content: 'Hello' }] }),
    });
    assert.equal(response.status, 200, await response.text());
    const invitation = { account_id: DEFAULT_ACCOUNT_ID, email: 'mia@acme.example', role: 'member' };
    const { link } = await post(operator.context, service.url, '/api/invitations', invitation);
    member = await stage.stranger();
    const token = new URL(String(link)).hash.slice(1);
    const named = { name: 'Mia Larsen', password: OPERATOR.password };
    await post(member.context, service.url, '/api/invitations/accept', { token, ...named });
    member.page.on('response', (response) => {
      if (response.status() >= 400) refused.push(`${response.status()} ${response.url()}`);
    });
  });
  after(() => stage[Symbol.asyncDispose]());

  const pathOf = (path: string) => path.replace('{key}', keyId).replace('{other}', otherId);
  const text = (page: Page) => page.locator('body').innerText();

  test('an operator sees the other account and its requests', async () => {
    const { page } = stage.operator;
    await follow(page, { path: '/requests?scope=all' });
    await page.getByRole('table', { name: 'Requests' }).getByText(OTHER).first().waitFor();
  });

  for (const path of PATHS) {
    test(`${path} shows nothing of other accounts, and is not refused anything`, async () => {
      await follow(member.page, { path: pathOf(path) });
      const shown = await text(member.page);
      assert.ok(!shown.includes('This page does not exist'), shown);
      assert.ok(!shown.includes(OTHER), shown);
      assert.deepEqual(refused.splice(0), []);
    });
  }

  for (const path of OPERATOR_PATHS) {
    test(`${path} does not exist`, async () => {
      await follow(member.page, { path: pathOf(path) });
      await member.page.getByText('This page does not exist').waitFor();
      assert.deepEqual(refused.splice(0), []);
    });
  }

  test('the menu has no pages of operators', async () => {
    const links = (page: Page) =>
      page.getByRole('navigation', { name: 'Pages' }).locator('a[href^="/operator"]').count();
    assert.ok((await links(stage.operator.page)) > 0);
    assert.equal(await links(member.page), 0);
  });

  test('the details of a model are measured over the requests that the reader may see', async () => {
    const measured = async (page: Page) => {
      await page.goto(`/models?model=${MODEL}`);
      const section = page.getByRole('dialog', { name: MODEL }).getByRole('region', { name: 'Measured' });
      await section.getByText('Last 7 days').waitFor();
      return section;
    };
    await (await measured(stage.operator.page)).getByText('1, 0% failed').first().waitFor();
    await stage.operator.page.getByText('Median of the latest request').waitFor();
    await (await measured(member.page)).getByText('No requests').first().waitFor();
    await member.page.getByRole('dialog').getByRole('button', { name: 'Connect' }).waitFor();
    assert.equal(await member.page.getByRole('button', { name: 'Make default' }).count(), 0);
  });

  for (const [path, complete, ...names] of ACTIONS) {
    test(`${path} offers no action of operators`, async () => {
      const controls = async (page: Page) => {
        await follow(page, { path });
        await complete(page).waitFor();
        return await page.evaluate<string[]>(CONTROLS);
      };
      const [offered, offeredToOperator] = [await controls(member.page), await controls(stage.operator.page)];
      for (const name of names) {
        assert.ok(
          offeredToOperator.some((one) => name.test(one)),
          `${String(name)}: ${offeredToOperator.join(', ')}`,
        );
        assert.deepEqual(
          offered.filter((one) => name.test(one)),
          [],
        );
      }
    });
  }
});

/** Returns the names of the controls on the page. */
const CONTROLS = `[...document.querySelectorAll('button, a, label, [role="combobox"]')].map(
  (control) => control.getAttribute('aria-label') ?? control.textContent.trim())`;
