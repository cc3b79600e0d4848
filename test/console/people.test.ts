/** Invitations and roles: who is let in to what, and sees no more than that. */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { Page } from 'playwright-core';
import { WITH_BROWSER, type Visitor } from './browser.ts';
import { openStage, type Stage } from './stage.ts';

const MIA = { name: 'Mia Larsen', email: 'mia@acme.example', password: 'a password of mias own' };

describe('people', WITH_BROWSER, () => {
  let stage: Stage;
  let page: Page;
  let link: string;
  let mia: Visitor;
  before(async () => {
    stage = await openStage();
    ({ page } = stage.operator);
    mia = await stage.stranger();
  });
  after(async () => {
    await mia[Symbol.asyncDispose]();
    await stage[Symbol.asyncDispose]();
  });

  test('somebody is invited with a link, which is shown once', async () => {
    await page.goto('/members');
    await page.getByRole('button', { name: 'Invite' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByLabel('E-mail address').fill(MIA.email);
    await dialog.getByRole('button', { name: 'Make the link' }).click();
    link = (await dialog.getByRole('region', { name: 'Link of the invitation' }).innerText()).trim();
    assert.match(link, /\/invitation#.{40,}$/);
    await dialog.getByRole('button', { name: 'Done' }).click();
    await page.getByRole('table', { name: 'Pending invitations' }).getByText(MIA.email).waitFor();
  });

  test('the link lets them in, and its token leaves the address', async () => {
    await mia.page.goto(link);
    await mia.page.getByRole('heading', { name: /^Join / }).waitFor();
    assert.equal(new URL(mia.page.url()).hash, '');
    await mia.page.getByLabel('Name').fill(MIA.name);
    await mia.page.getByLabel('Password', { exact: true }).fill(MIA.password);
    await mia.page.getByRole('button', { name: 'Join' }).click();
    await mia.page.waitForURL('**/keys**');
  });

  test('the link lets nobody else in', async () => {
    await using stranger = await stage.stranger();
    await stranger.page.goto(link);
    await stranger.page.getByText('This invitation works no more').waitFor();
  });

  test('a member makes keys', async () => {
    await mia.page.getByRole('button', { name: 'Create key' }).click();
    const dialog = mia.page.getByRole('dialog');
    await dialog.getByLabel('Name').fill('of mia');
    await dialog.getByRole('button', { name: 'Create key' }).click();
    await dialog.getByRole('button', { name: 'Copy key' }).click();
    await dialog.getByRole('button', { name: 'Done' }).click();
    await mia.page.getByRole('row', { name: /of mia/ }).waitFor();
  });

  test("a member sees nothing of the operator's, not even by its address", async () => {
    assert.equal(await mia.page.getByRole('link', { name: 'Audit log' }).count(), 0);
    for (const path of ['/operator/accounts', '/operator/audit', '/operator/load', '/operator/engines']) {
      await mia.page.goto(path);
      await mia.page.getByText('There is no such page').waitFor();
      const answer = await mia.context.request.get(`${stage.service.url}/api/accounts`);
      assert.equal(answer.status(), 403);
    }
  });

  test('a member invites nobody and changes no role; an owner does', async () => {
    await mia.page.goto('/members');
    await mia.page.getByRole('row', { name: /Mia Larsen/ }).waitFor();
    assert.equal(await mia.page.getByRole('button', { name: 'Invite' }).count(), 0);
    await page.reload();
    await page.getByRole('combobox', { name: 'Role of Mia Larsen' }).click();
    await page.getByRole('option', { name: /Owner/ }).click();
    await page.getByText('Mia Larsen is an owner now.').waitFor();
    await mia.page.reload();
    await mia.page.getByRole('button', { name: 'Invite' }).waitFor();
  });

  test('who is removed has the account no more, from the next look on', async () => {
    await page.getByRole('button', { name: 'Remove Mia Larsen' }).click();
    await page
      .getByRole('alertdialog')
      .getByRole('button', { name: /Remove/ })
      .click();
    await page.getByRole('row', { name: /Mia Larsen/ }).waitFor({ state: 'hidden' });
    await mia.page.goto('/keys');
    await mia.page.getByText('You act for no account').waitFor();
  });

  test('nothing on the way has broken the policy or thrown', () => {
    assert.deepEqual([...stage.operator.faults, ...mia.faults], []);
  });
});
