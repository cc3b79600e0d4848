/** Invitations, roles and what each role can access. */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { Page } from 'playwright-core';
import { holdResponse, WITH_BROWSER, type Visitor } from './browser.ts';
import { post, userId } from './service.ts';
import { openStage, type Stage } from './stage.ts';

const MIA = { name: 'Mia Larsen', email: 'mia@acme.example', password: 'a password of mias own' };

describe('members', WITH_BROWSER, () => {
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

  test('an invitation link is shown once, although the form was closed while it was created', async () => {
    await page.goto('/members');
    await page.getByRole('button', { name: 'Invite member' }).click();
    const form = page.getByRole('dialog', { name: 'Invite a member' });
    await form.getByLabel('Email').fill(MIA.email);
    const created = await holdResponse(page, '**/api/invitations');
    await form.getByRole('button', { name: 'Create invitation' }).click();
    await created.arrived;
    await page.keyboard.press('Escape');
    await form.waitFor({ state: 'hidden' });
    await created.release();
    const dialog = page.getByRole('dialog', { name: 'Invitation link' });
    link = (await dialog.getByRole('region', { name: 'Invitation link' }).innerText()).trim();
    assert.match(link, /\/invitation#.{40,}$/);
    await dialog.getByRole('button', { name: 'Copy link' }).click();
    await dialog.getByRole('button', { name: 'Done' }).click();
    await page.getByRole('table', { name: 'Pending invitations' }).getByText(MIA.email).waitFor();
  });

  test('the invited user joins with the link, and the token is removed from the URL', async () => {
    await mia.page.goto(link);
    await mia.page.getByRole('heading', { name: /^Join / }).waitFor();
    assert.equal(new URL(mia.page.url()).hash, '');
    await mia.page.getByLabel('Name').fill(MIA.name);
    await mia.page.getByLabel('Password', { exact: true }).fill(MIA.password);
    await mia.page.getByRole('button', { name: 'Join' }).click();
    await mia.page.waitForURL('**/keys**');
  });

  test('the invitation link works only once', async () => {
    await using stranger = await stage.stranger();
    await stranger.page.goto(link);
    await stranger.page.getByText('This invitation is no longer valid').waitFor();
  });

  test('a member creates keys', async () => {
    await mia.page.getByRole('button', { name: 'Create key' }).click();
    const dialog = mia.page.getByRole('dialog');
    await dialog.getByLabel('Name').fill('of mia');
    await dialog.getByRole('button', { name: 'Create key' }).click();
    await dialog.getByRole('button', { name: 'Copy key' }).click();
    await dialog.getByRole('button', { name: 'Done' }).click();
    await mia.page.getByRole('row', { name: /of mia/ }).waitFor();
  });

  test('a member is not offered to change a key that manages the service', async () => {
    await stage.service.service.keys.create({ name: 'of the service', kind: 'admin' });
    await mia.page.goto('/keys');
    const items = async (name: string) => {
      await mia.page.getByRole('button', { name: `Actions for ${name}` }).click();
      await mia.page.getByRole('menuitem', { name: 'View usage' }).waitFor();
      const texts = await mia.page.getByRole('menuitem').allInnerTexts();
      await mia.page.keyboard.press('Escape');
      return texts.slice(3);
    };
    assert.deepEqual(await items('of mia'), ['Edit', 'Rotate', 'Revoke']);
    assert.deepEqual(await items('of the service'), []);
  });

  test('no key can be created while the account is suspended', async () => {
    const { url } = stage.service;
    const set = async (status: string) => {
      const data = { status };
      const headers = { origin: url };
      const response = await page.request.patch(`${url}/api/accounts/default`, { data, headers });
      assert.equal(response.status(), 200);
    };
    await set('suspended');
    await mia.page.goto('/keys?create=1');
    await mia.page.getByText('This account is suspended').waitFor();
    await mia.page.getByRole('row', { name: /of mia/ }).waitFor();
    assert.equal(await mia.page.getByRole('button', { name: 'Create key' }).count(), 0);
    await set('active');
    await mia.page.goto('/keys');
    await mia.page.getByRole('button', { name: 'Create key' }).waitFor();
  });

  test('owners can invite members; members cannot', async () => {
    await mia.page.goto('/members');
    await mia.page.getByRole('row', { name: /Mia Larsen/ }).waitFor();
    assert.equal(await mia.page.getByRole('button', { name: 'Invite member' }).count(), 0);
    const id = await userId(mia.context, stage.service.url);
    const changed = await page.request.put(`${stage.service.url}/api/accounts/default/members/${id}`, {
      data: { role: 'owner' },
      headers: { origin: stage.service.url },
    });
    assert.equal(changed.status(), 200);
    await page.reload();
    await page.getByRole('row', { name: /Mia Larsen.*Owner/ }).waitFor();
    await mia.page.reload();
    await mia.page.getByRole('button', { name: 'Invite member' }).waitFor();
  });

  test('an owner sees which email addresses are not verified', async () => {
    const { url } = stage.service;
    // Mia's own invitation came from an operator.
    const invitation = { account_id: 'default', email: 'noor@acme.example', role: 'member' };
    const { link: noors } = await post(mia.context, url, '/api/invitations', invitation);
    await using noor = await stage.stranger();
    const token = new URL(String(noors)).hash.slice(1);
    const named = { name: 'Noor Haddad', password: 'a password of noors own' };
    await post(noor.context, url, '/api/invitations/accept', { token, ...named });
    await mia.page.reload();
    const row = (name: RegExp) => mia.page.getByRole('row', { name });
    await row(/Noor Haddad/)
      .getByText('Unverified', { exact: true })
      .waitFor();
    assert.equal(
      await row(/Mia Larsen/)
        .getByText('Unverified')
        .count(),
      0,
    );
  });

  test('an error of the service disappears once its field is corrected', async () => {
    await page.getByRole('button', { name: 'Invite member' }).click();
    const dialog = page.getByRole('dialog');
    const email = dialog.getByLabel('Email');
    const error = dialog.getByText(/already a member/);
    await email.fill(MIA.email);
    await dialog.getByRole('button', { name: 'Create invitation' }).click();
    await error.waitFor();
    await email.fill('other@acme.example');
    await error.waitFor({ state: 'detached' });
  });

  test('what was typed in a form is only dropped after a question', async () => {
    const dialog = page.getByRole('dialog', { name: /^Invite a member/ });
    const question = page.getByRole('alertdialog', { name: 'Discard what you entered?' });
    await page.keyboard.press('Escape');
    await question.waitFor();
    await page.keyboard.press('Escape');
    await question.waitFor({ state: 'detached' });
    assert.equal(await dialog.getByLabel('Email').inputValue(), 'other@acme.example');
    await page.keyboard.press('Escape');
    await question.getByRole('button', { name: 'Discard' }).click();
    await dialog.waitFor({ state: 'detached' });
  });

  test('an owner learns that a removed member needs an invitation to return', async () => {
    await mia.page.getByRole('button', { name: 'Remove Noor Haddad' }).click();
    const question = mia.page.getByRole('alertdialog', { name: 'Remove Noor Haddad?' });
    await question.getByText(/They need a new invitation to return/).waitFor();
    await question.getByRole('button', { name: 'Remove member' }).click();
    await mia.page.getByText(/^Noor Haddad removed from/).waitFor();
    assert.equal(await mia.page.getByRole('button', { name: 'Undo' }).count(), 0);
  });

  test('a removed member loses access immediately, and an operator can undo the removal', async () => {
    const removed = page.getByRole('dialog', { name: /^Mia Larsen removed from/ });
    const remove = async () => {
      await page.getByRole('button', { name: 'Remove Mia Larsen' }).click();
      const question = page.getByRole('alertdialog', { name: 'Remove Mia Larsen?' });
      await question.getByRole('button', { name: 'Remove member' }).click();
    };
    await remove();
    await removed.getByRole('button', { name: 'Undo' }).click();
    await page.getByText(/^Mia Larsen is an owner of .* again$/).waitFor();
    await remove();
    await removed.waitFor();
    await page.getByRole('row', { name: /Mia Larsen/ }).waitFor({ state: 'hidden' });
    await mia.page.goto('/keys');
    await mia.page.getByText('You are not a member of any account').waitFor();
  });
});
