/** The keys page: create, show once, use, view, edit and revoke keys, and long lists. */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import OpenAI, { AuthenticationError } from 'openai';
import type { Page } from 'playwright-core';
import { openDatabase } from '../../src/database/database.ts';
import { MODEL, until } from '../harness.ts';
import { holdResponse, textOf, WITH_BROWSER } from './browser.ts';
import { seedManyKeys } from './seed.ts';
import { newKey, openStage, type Stage } from './stage.ts';

describe('the keys page', WITH_BROWSER, () => {
  let stage: Stage;
  let page: Page;
  let key: string;
  before(async () => {
    stage = await openStage();
    ({ page } = stage.operator);
  });
  after(() => stage[Symbol.asyncDispose]());

  const call = (apiKey: string) =>
    new OpenAI({ apiKey, baseURL: `${stage.service.url}/v1`, maxRetries: 0 }).chat.completions.create({
      model: MODEL,
      messages: [{ role: 'user', content: 'hello' }],
    });
  const row = (name: string | RegExp) => page.getByRole('row', { name });
  const choose = async (name: string, action: string) => {
    await page.getByRole('button', { name: `Actions for ${name}` }).click();
    await page.getByRole('menuitem', { name: action }).click();
  };

  test('an account without keys offers to create the first one', async () => {
    await page.goto('/keys');
    await page.getByText('Create your first API key').waitFor();
    await page.getByRole('button', { name: 'Create key' }).click();
    await page.getByRole('dialog', { name: 'Create API key' }).waitFor();
  });

  test('a click beside the form keeps the input', async () => {
    const form = page.getByRole('dialog');
    await form.getByLabel('Name').fill('web shop');
    await page.mouse.click(5, 5);
    assert.equal(await form.getByLabel('Name').inputValue(), 'web shop');
  });

  test('the form shows errors next to the fields and keeps the input', async () => {
    const form = page.getByRole('dialog');
    await form.getByLabel('Monthly budget').fill('much');
    await form.getByRole('button', { name: 'Create key' }).click();
    await form.locator('[aria-invalid="true"]').first().waitFor();
    assert.equal(await form.getByLabel('Name').inputValue(), 'web shop');
    await form.getByLabel('Monthly budget').fill('25');
  });

  test('the key is shown once, closing the dialog before copying it needs confirmation, and the key works with the OpenAI client', async () => {
    await page.getByRole('dialog').getByRole('button', { name: 'Create key' }).click();
    const shown = page.getByRole('dialog', { name: 'API key web shop' });
    key = (await shown.getByRole('region', { name: 'API key' }).innerText()).trim();
    assert.match(key, /^sk-sluice-\w{49}$/);
    await shown.getByText('It is shown only once').waitFor();
    await shown.getByRole('button', { name: 'Done' }).click();
    await page.getByRole('alertdialog').getByRole('button', { name: 'Cancel' }).click();
    await shown.getByRole('button', { name: 'Copy key' }).click();
    await shown.getByRole('button', { name: 'Done' }).click();
    await shown.waitFor({ state: 'hidden' });
    assert.ok((await call(key)).choices[0]?.message.content);
    assert.ok(!(await page.content()).includes(key));
    await page.reload();
    await row(/web shop/).waitFor();
    assert.ok(!(await page.content()).includes(key));
  });

  test('a new key is shown before the list of keys has loaded again', async () => {
    await page.goto('/keys?create=1');
    const form = page.getByRole('dialog', { name: 'Create API key' });
    await form.getByLabel('Name').fill('slow list');
    // Requests for the list get no response.
    await page.route('**/api/keys?*', () => {});
    await form.getByRole('button', { name: 'Create key' }).click();
    const shown = page.getByRole('dialog', { name: 'API key slow list' });
    assert.match(await shown.getByRole('region', { name: 'API key' }).innerText(), /^sk-sluice-/);
    await page.unrouteAll({ behavior: 'ignoreErrors' });
  });

  test('saving a key keeps what somebody else changed, and Escape asks before it drops changes', async () => {
    const { id } = await newKey(stage.service, 'shared');
    await page.goto(`/keys?key=${id}&edit=1`);
    const form = page.getByRole('dialog', { name: 'Edit shared' });
    await form.getByLabel('Tags').fill('production');
    const change = (limits: unknown) =>
      page.evaluate(
        ([key, body]) =>
          fetch(`/api/keys/${key}`, {
            method: 'PATCH',
            headers: { 'content-type': 'application/json' },
            body: JSON.stringify(body),
          }).then((response) => response.json() as Promise<{ tags: string[]; limits: unknown }>),
        [id, { limits }] as const,
      );
    await change({ usd_per_month: '10', requests_per_minute: 60 });
    await page.keyboard.press('Escape');
    await page.getByRole('alertdialog').getByRole('button', { name: 'Cancel' }).click();
    assert.equal(await form.getByLabel('Tags').inputValue(), 'production');
    await form.getByText('Models and limits').click();
    await form.getByLabel('Tokens per day').fill('500');
    await form.getByRole('button', { name: 'Save' }).click();
    await page.getByText('Key shared updated').waitFor();
    const { tags, limits } = await change({});
    assert.deepEqual(
      [tags, limits],
      [['production'], { usd_per_month: '10', requests_per_minute: 60, tokens_per_day: 500 }],
    );
    await page.keyboard.press('Escape');
  });

  test('if the response is lost, the form says that the key may exist, and the list shows it', async () => {
    await page.goto('/keys?create=1');
    const form = page.getByRole('dialog', { name: 'Create API key' });
    await form.getByLabel('Name').fill('lost response');
    await page.route('**/api/keys', async (route) => {
      await route.fetch();
      await route.abort();
    });
    await form.getByRole('button', { name: 'Create key' }).click();
    await form.getByText('The response was lost, so the key may exist.').waitFor();
    await page.unrouteAll({ behavior: 'ignoreErrors' });
    await form.getByRole('button', { name: 'Cancel' }).click();
    await page.getByRole('alertdialog').getByRole('button', { name: 'Discard' }).click();
    await row(/lost response/).waitFor();
    // An error of the service leaves no doubt.
    await page.goto('/keys?create=1');
    const error = { message: 'No storage.', code: 'storage_unavailable', param: null };
    await page.route('**/api/keys', (route) => route.fulfill({ status: 503, json: { error } }));
    await form.getByLabel('Name').fill('refused');
    await form.getByRole('button', { name: 'Create key' }).click();
    await form.getByText('No storage.').waitFor();
    assert.equal(await form.getByText('the key may exist').count(), 0);
    await page.unrouteAll({ behavior: 'ignoreErrors' });
  });

  test('a new key is shown although the form and the page were left while it was created', async () => {
    await page.goto('/keys?create=1');
    const form = page.getByRole('dialog', { name: 'Create API key' });
    await form.getByLabel('Name').fill('slow response');
    const created = await holdResponse(page, '**/api/keys');
    await form.getByRole('button', { name: 'Create key' }).click();
    await created.arrived;
    await page.keyboard.press('Escape');
    await form.waitFor({ state: 'hidden' });
    await page.getByRole('link', { name: 'Usage' }).click();
    await page.getByRole('heading', { name: 'Usage', level: 1 }).waitFor();
    await created.release();
    const shown = page.getByRole('dialog', { name: 'API key slow response' });
    assert.match(await shown.getByRole('region', { name: 'API key' }).innerText(), /^sk-sluice-/);
    await page.keyboard.press('Escape');
    const question = page.getByRole('alertdialog', { name: 'Close without copying the key?' });
    await question.getByRole('button', { name: 'Close' }).click();
    await shown.waitFor({ state: 'hidden' });
    await page.goto('/keys');
  });

  test('the details of a key have their own URL, and back navigation closes them', async () => {
    await row(/web shop/)
      .getByRole('link')
      .first()
      .click();
    const dialog = page.getByRole('dialog', { name: 'web shop' });
    await dialog.getByText('$25').first().waitFor();
    await dialog.getByText(/ by OpenAI JavaScript from 127\.0\.0\.1$/).waitFor();
    const address = page.url();
    assert.match(address, /\/keys\?.*key=key_[0-9a-f]{24}/);
    await page.goBack();
    await dialog.waitFor({ state: 'hidden' });
    await page.goto(address);
    await dialog.waitFor();
    await page.keyboard.press('Escape');
    await dialog.waitFor({ state: 'hidden' });
  });

  test('a renamed key is updated in the list', async () => {
    await row(/web shop/)
      .getByRole('link')
      .click();
    const dialog = page.getByRole('dialog');
    const hasFocus = () => page.evaluate<boolean>('document.activeElement.closest("[role=dialog]") !== null');
    await dialog.getByRole('button', { name: 'Edit' }).press('Enter');
    await dialog.getByLabel('Name').waitFor();
    await until(hasFocus);
    await dialog.getByLabel('Name').fill('shop window');
    await dialog.getByRole('button', { name: 'Save' }).press('Enter');
    await page.getByText('Key shop window updated').waitFor();
    // The toast comes before the form closes. Until then, Escape would only end the edit.
    await page.getByRole('dialog', { name: 'shop window', exact: true }).waitFor();
    await until(hasFocus);
    await page.keyboard.press('Escape');
    await row(/shop window/).waitFor();
  });

  test('a rotated key has a new secret, and the previous one works until it is ended', async () => {
    await choose('shop window', 'Rotate');
    await page.getByRole('alertdialog').getByRole('button', { name: '7 days' }).click();
    await page.getByRole('button', { name: 'Create new secret' }).click();
    const secret = page.getByRole('region', { name: 'API key' });
    const rotated = await secret.innerText();
    await page.getByRole('button', { name: 'Copy' }).click();
    await page.getByRole('button', { name: 'Done' }).click();
    await Promise.all([call(rotated), call(key)]);
    await choose('shop window', 'View details');
    const details = page.getByRole('dialog', { name: 'shop window', exact: true });
    await details.getByText(`…${key.slice(-4)}`).waitFor();
    await details.getByRole('button', { name: 'End now' }).click();
    await page.getByRole('button', { name: 'End secret' }).click();
    await details.getByText(`…${key.slice(-4)}`).waitFor({ state: 'detached' });
    await until(() =>
      call(key).then(
        () => false,
        (error) => error instanceof AuthenticationError,
      ),
    );
    key = rotated;
    await details.getByRole('button', { name: 'Close' }).click();
    await details.waitFor({ state: 'detached' });
  });

  test('revoking a key shows its recent use first, and then the key is refused', async () => {
    await page.reload();
    await choose('shop window', 'Revoke');
    const question = page.getByRole('alertdialog', { name: 'Revoke shop window?' });
    await question.getByText('127.0.0.1').waitFor();
    await question
      .getByText(/^\d requests$/)
      .first()
      .waitFor();
    await question.getByRole('button', { name: 'Revoke key' }).click();
    await page.getByText('Key shop window revoked').waitFor();
    await assert.rejects(
      call(key),
      (error) => error instanceof AuthenticationError && error.code === 'invalid_api_key',
    );
    await page.getByRole('button', { name: 'Revoked and expired' }).click();
    await row(/shop window/).waitFor();
  });

  test('ten thousand keys are searchable, and only visible rows are rendered', async () => {
    {
      await using database = await openDatabase({ home: stage.service.home, url: null });
      await seedManyKeys(database, 10_000);
    }
    await page.goto('/keys');
    await page.getByText('10,004 keys').waitFor();
    await row(/tenant-10000/).waitFor();
    const drawn = () => page.getByRole('row').count();
    assert.ok((await drawn()) < 200, `${await drawn()} rows are drawn`);
    await page.evaluate(`
      heights = [document.documentElement.scrollHeight];
      addEventListener('scroll', () => heights.push(document.documentElement.scrollHeight));`);
    await page.keyboard.press('End');
    await row(/tenant-00001/).waitFor();
    const heights = await page.evaluate<number[]>('heights');
    // If the page becomes shorter for a moment, the browser stops scrolling.
    assert.ok(Math.max(...heights) - Math.min(...heights) < 10, `page heights: ${heights.join(', ')}`);
    assert.ok((await drawn()) < 200, `${await drawn()} rows are drawn`);
    const table = page.getByRole('table', { name: 'API keys' });
    const name = table.getByRole('columnheader', { name: 'Name' });
    // The header is still visible at the end of the list.
    assert.equal((await name.boundingBox())?.y, 0);
    await page.getByRole('searchbox').fill('tenant-04711');
    await page.getByText('1 key.').waitFor();
    await row(/tenant-04711/).waitFor();
  });

  test('keys are sorted, columns hidden, and what is shown is downloaded', async () => {
    await page.goto('/keys?q=tenant-0001');
    const table = page.getByRole('table', { name: 'API keys' });
    const header = (text: string) => table.getByRole('columnheader', { name: text });
    const first = () => table.getByRole('row').nth(1).innerText();
    for (const [order, tenant] of [
      ['ascending', /tenant-00010/],
      ['descending', /tenant-00019/],
      [null, /tenant-00019/],
    ] as const) {
      await header('Name').getByRole('button').click();
      await until(async () => (await header('Name').getAttribute('aria-sort')) === order);
      assert.match(await first(), tenant);
    }
    await header('Name').getByRole('button').click();
    await page.waitForURL(/sort=name/);
    await table.getByRole('button', { name: 'Table options' }).click();
    await page.getByRole('menuitemcheckbox', { name: 'Created' }).click();
    await header('Created').waitFor({ state: 'detached' });
    const downloaded = page.waitForEvent('download');
    await page.getByRole('menuitem', { name: 'Download CSV' }).click();
    const [heading, line, ...others] = (await textOf(downloaded)).split('\r\n');
    assert.equal(heading, 'Name,Last used,Expires,Cost this month,Status');
    assert.match(line ?? '', /^tenant-00010,[^,]*,[^,]*,0,live$/);
    assert.equal(others.length, 10, 'nine keys and the end of the last line');
    await page.reload();
    await header('Name').waitFor();
    assert.equal(await header('Created').count(), 0);
    await table.getByRole('button', { name: 'Table options' }).click();
    await page.getByRole('menuitem', { name: 'Reset columns' }).click();
    await header('Created').waitFor();
  });

  test('a tag finds keys, and several are revoked together', async () => {
    await page.goto('/keys?q=tenant-0001');
    await choose('tenant-00010', 'Edit');
    const form = page.getByRole('dialog', { name: 'Edit tenant-00010' });
    await form.getByLabel('Tags').fill('a, ' + 'b'.repeat(41));
    await form.getByRole('button', { name: 'Save' }).click();
    await form.getByText('Each tag can have at most 40 characters.').waitFor();
    assert.equal(await form.getByLabel('Tags').getAttribute('aria-invalid'), 'true');
    await form.getByLabel('Tags').fill('production, team:search');
    await form.getByRole('button', { name: 'Save' }).click();
    const details = page.getByRole('dialog', { name: 'tenant-00010', exact: true });
    await details.getByText('team:search').waitFor();
    await details.getByRole('button', { name: 'Edit' }).waitFor();
    await page.keyboard.press('Escape');
    await page.getByRole('combobox', { name: 'Tag' }).click();
    await page.getByRole('option', { name: 'team:search' }).click();
    await page.getByText('1 key.').waitFor();
    assert.match(page.url(), /tag=team%3Asearch/);
    await row(/tenant-00010/).waitFor();
    await page.goto('/keys?q=tenant-0001');
    await page.getByRole('button', { name: 'Select', exact: true }).click();
    const selection = page.getByRole('group', { name: 'Selected keys' });
    assert.ok(await selection.getByRole('button', { name: 'Revoke selected' }).isDisabled());
    await page.getByRole('checkbox', { name: 'Select tenant-00011' }).click();
    await row(/tenant-00012/)
      .getByText('Active')
      .click();
    await row(/tenant-00013/)
      .getByText('Active')
      .click();
    await page.getByRole('checkbox', { name: 'Select tenant-00013' }).click();
    await selection.getByText('2 selected').waitFor();
    // Filters do not leave a hidden key selected.
    await page.getByRole('searchbox').fill('tenant-00011');
    await selection.getByText('1 selected').waitFor();
    await page.getByRole('searchbox').fill('tenant-0001');
    await selection.getByText('2 selected').waitFor();
    await selection.getByRole('button', { name: 'Revoke selected' }).click();
    const question = page.getByRole('alertdialog', { name: 'Revoke 2 keys?' });
    await question.getByRole('button', { name: 'Revoke 2 keys' }).click();
    await page.getByText('2 keys revoked').waitFor();
    await page.getByText('8 keys.').waitFor();
    await selection.waitFor({ state: 'hidden' });
    await page.getByRole('button', { name: 'Revoked and expired' }).click();
    for (const name of ['tenant-00011', 'tenant-00012']) await row(new RegExp(name)).waitFor();
  });
});
