/** The Overview page: what needs attention, the last day, and for whom. */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { Page } from 'playwright-core';
import { MODEL, scriptedYaml } from '../harness.ts';
import { scripted } from '../support/scripted-engine/directive.ts';
import { axe, WITH_BROWSER, type Visitor } from './browser.ts';
import { open } from './pages.ts';
import { post } from './service.ts';
import { newKey, openStage, type Stage } from './stage.ts';

const MIA = { name: 'Mia Larsen', email: 'mia@acme.example', password: 'a password of mias own' };

describe('the overview', WITH_BROWSER, () => {
  let stage: Stage;
  let page: Page;
  let mia: Visitor;
  before(async () => {
    stage = await openStage(scriptedYaml({ tokens: 4 }, "    pricing: {prompt: '2', completion: '10'}\n"));
    ({ page } = stage.operator);
    mia = await stage.stranger();
  });
  after(() => stage[Symbol.asyncDispose]());

  const attention = (on: Page) => on.getByRole('region', { name: 'What needs attention' });

  async function ask(key: string, model: string): Promise<void> {
    const response = await fetch(`${stage.service.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}` },
      body: JSON.stringify({ model, messages: [{ role: 'user', content: scripted({ tokenMs: 0 }) }] }),
    });
    await response.text();
  }

  test('a new service has one green line and the first steps', async () => {
    await page.goto('/');
    await page.getByText('Nothing needs your attention').waitFor();
    await page.getByRole('link', { name: 'Create key' }).waitFor();
  });

  test('refused requests and a key that expires are problems with links, and bars open their hour', async () => {
    const { key, id } = await newKey(stage.service, 'production');
    await ask(key, MODEL);
    await ask(key, 'acme/missing');
    await ask('sk-sluice-unknown', MODEL);
    const expires_at = new Date(Date.now() + 2 * 86_400_000).toISOString();
    const { url } = stage.service;
    await stage.operator.context.request.patch(`${url}/api/keys/${id}`, {
      data: { expires_at },
      headers: { origin: url },
    });
    await open(page, { path: '/' });
    await attention(page).getByText('1 request was refused with model_not_found').waitFor();
    await attention(page).getByText('1 request was refused with invalid_api_key').waitFor();
    // Tomorrow, if midnight comes while the test runs.
    await attention(page)
      .getByText(/The key production expires (in 2 days|tomorrow)\./)
      .waitFor();
    await page.getByRole('link', { name: 'Refused: 2' }).waitFor();
    await page.getByRole('link', { name: 'Errors: 0' }).waitFor();
    await open(page, { path: '/usage' });
    await page.getByRole('link', { name: '1 request refused in the last 7 days' }).click();
    await page.waitForURL(/status=refused/);
    await page.getByRole('table', { name: 'Requests' }).getByText('model_not_found').waitFor();
    await open(page, { path: '/' });
    assert.equal(await page.getByText('Get started').count(), 0);
    await page.getByRole('link', { name: /: 1 completed/ }).click();
    await page.waitForURL(/\/requests\?.*from=.*&to=/);
    const requests = page.getByRole('table', { name: 'Requests', exact: true });
    await requests.getByRole('row', { name: /Completed/ }).waitFor();
    await page.goBack();
    await attention(page).getByRole('link', { name: 'View key' }).click();
    await page.getByRole('dialog', { name: 'production' }).waitFor();
  });

  test('an app is connected with its configuration, and its first request or refusal is shown', async () => {
    const { key } = await newKey(stage.service, 'new app');
    await page.goto('/');
    await page.getByRole('button', { name: 'Connect' }).click();
    const dialog = page.getByRole('dialog', { name: 'Connect an app' });
    await dialog.getByText('Waiting for the first request with the key new app').waitFor();
    await dialog.getByRole('combobox', { name: 'Tool' }).click();
    await page.getByRole('option', { name: 'Claude Code' }).click();
    const code = dialog.getByRole('region', { name: 'Configuration of Claude Code' });
    assert.match(
      await code.innerText(),
      new RegExp(`ANTHROPIC_BASE_URL=${stage.service.url}\\n[^]*ANTHROPIC_MODEL=${MODEL}\\n`),
    );
    assert.deepEqual(await axe(page), []);
    await ask(key, 'acme/missing');
    await dialog.getByText('The request was refused: The model acme/missing does not exist').waitFor();
    await ask(key, MODEL);
    await dialog.getByText('Connected.').waitFor();
    await dialog.getByRole('link', { name: 'View receipt' }).click();
    await page.waitForURL('**/requests/*');
    await dialog.waitFor({ state: 'hidden' });
  });

  test('a refresh that fails is not silent', async () => {
    await page.goto('/');
    await attention(page).waitFor();
    const error = { message: 'Out of order.', type: 'server_error', code: 'internal_error', param: null };
    await page.route('**/api/refusals?*', (route) => route.fulfill({ status: 500, json: { error } }));
    await page.getByRole('button', { name: 'Refresh' }).click();
    const notice = page.getByRole('main').getByRole('alert');
    await notice.getByText('Out of order.', { exact: true }).waitFor();
    assert.equal(await attention(page).count(), 0);
    await page.unroute('**/api/refusals?*');
    await notice.getByRole('button', { name: 'Try again' }).click();
    await attention(page).waitFor();
  });

  test('a member sees only what concerns the account', async () => {
    const { context } = stage.operator;
    const { url } = stage.service;
    const { id } = await post(context, url, '/api/accounts', { name: 'Acme' });
    const { key } = await post(context, url, '/api/keys', { account_id: id, name: 'of Acme' });
    await ask(String(key), MODEL);
    const invitation = { account_id: id, email: MIA.email, role: 'member' };
    const { link } = await post(context, url, '/api/invitations', invitation);
    const { email: _, ...user } = MIA;
    const token = new URL(String(link)).hash.slice(1);
    await post(mia.context, url, '/api/invitations/accept', { token, ...user });
    await mia.page.goto('/');
    await mia.page.getByText('Nothing needs your attention').waitFor();
    await mia.page.getByRole('link', { name: 'Refused: 0' }).waitFor();
    await mia.page.getByText('No budget').waitFor();
    await mia.page.getByRole('link', { name: /: 1 completed$/ }).waitFor();
  });
});
