/** The end of a session: by its user, from elsewhere, and the next user of the same browser. */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { Page } from 'playwright-core';
import { scripted } from '../support/scripted-engine/directive.ts';
import { until } from '../harness.ts';
import { holdResponse, storedText, WITH_BROWSER, type View, type Visitor } from './browser.ts';
import { post, signIn } from './service.ts';
import { openStage, signInOn, type Stage } from './stage.ts';

const FIRST = { name: 'Mia Larsen', email: 'mia@acme.example', password: 'correct horse battery staple' };
const OTHER = { name: 'Noor Haddad', email: 'noor@acme.example', password: 'correct horse battery staple' };
/** Typed into the playground. */
const TYPED = 'my private thought 4711';

describe('the end of a session', WITH_BROWSER, () => {
  let stage: Stage;
  let url: string;
  before(async () => {
    stage = await openStage();
    ({ url } = stage.service);
    await invite(FIRST);
    await invite(OTHER);
  });
  after(() => stage[Symbol.asyncDispose]());

  /** Creates a user of the default account. */
  async function invite(user: typeof OTHER): Promise<void> {
    const body = { account_id: 'default', email: user.email, role: 'member' };
    const { link } = await post(stage.operator.context, url, '/api/invitations', body);
    const token = new URL(String(link)).hash.slice(1);
    await using visitor = await stage.stranger();
    const { name, password } = user;
    await post(visitor.context, url, '/api/invitations/accept', { token, name, password });
  }

  async function signedIn(user = FIRST, view?: View): Promise<Visitor> {
    const visitor = await stage.stranger(view);
    await visitor.page.clock.install();
    await signIn(visitor.context, url, user);
    return visitor;
  }

  const message = (page: Page) => page.getByLabel('Message', { exact: true });
  const send = (page: Page) => page.getByRole('button', { name: 'Send', exact: true });

  /** Types into the playground, and waits until that is stored. */
  async function typeInPlayground(page: Page): Promise<void> {
    await page.goto('/playground');
    await message(page).fill(TYPED);
    await until(() => stores(page));
  }

  const stores = async (page: Page) => (await storedText(page)).includes(TYPED);

  /** Ends the session from another browser. */
  async function endFromElsewhere({ page }: Visitor): Promise<void> {
    await using other = await signedIn();
    const headers = { origin: url };
    assert.ok((await other.context.request.delete(`${url}/api/me/sessions`, { headers })).ok());
    // The page reads the session every 10 seconds.
    await page.clock.fastForward(11_000);
    await page.getByText('Your session has ended', { exact: true }).waitFor();
  }

  test('Sign out in the command menu deletes what was typed, and opens the sign-in page', async () => {
    await using visitor = await signedIn();
    const { page } = visitor;
    await typeInPlayground(page);
    await page.goto('/keys');
    await page.getByRole('heading', { name: 'API keys', level: 1 }).waitFor();
    await page.keyboard.press('Control+k');
    await page.getByRole('combobox', { name: 'Search pages and commands' }).fill('sign out');
    await page.keyboard.press('Enter');
    await page.waitForURL('**/sign-in');
    assert.equal(await stores(page), false);
  });

  test('deleting the user deletes what was typed, although the dialog was closed before the response', async () => {
    const leaving = { ...OTHER, name: 'Lena', email: 'lena@acme.example' };
    await invite(leaving);
    await using visitor = await signedIn(leaving);
    const { page } = visitor;
    await typeInPlayground(page);
    await page.goto('/settings');
    await page.getByRole('button', { name: 'Delete user' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByLabel('Password', { exact: true }).fill(leaving.password);
    const deleted = await holdResponse(page, '**/api/me', 'DELETE');
    await dialog.getByRole('button', { name: 'Delete user' }).click();
    await deleted.arrived;
    await page.keyboard.press('Escape');
    await dialog.waitFor({ state: 'hidden' });
    await deleted.release();
    await page.waitForURL('**/sign-in');
    assert.equal(await stores(page), false);
  });

  test('the playground stops with its session, and shows Send beside the banner', async () => {
    for (const width of [1440, 360] as const) {
      await using visitor = await signedIn(FIRST, { width });
      const { page } = visitor;
      await page.goto('/playground');
      await message(page).fill(`A long one. ${scripted({ tokens: 100_000, tokenMs: 5 })}`);
      await send(page).click();
      await page.getByRole('button', { name: 'Stop' }).first().waitFor();
      await endFromElsewhere(visitor);
      await send(page).waitFor();
      const box = await send(page).boundingBox();
      const height = page.viewportSize()?.height ?? 0;
      assert.ok(box !== null && box.y > 0 && box.y + box.height <= height, JSON.stringify({ box, height }));
      await message(page).fill(`Another one. ${scripted({ text: 'It went through.' })}`);
      await send(page).click();
      await page.getByText('Your session has ended. Sign in again.').first().waitFor();
      assert.equal(await page.getByText('It went through.', { exact: true }).count(), 0);
    }
  });

  test('the next user in the same tab gets a new key, and nothing of what the first one typed', async () => {
    await using visitor = await signedIn();
    const { page } = visitor;
    const keys: (string | undefined)[] = [];
    page.on('request', (request) => {
      if (request.url().endsWith('/v1/chat/completions')) keys.push(request.headers().authorization);
    });
    const say = async (text: string) => {
      await message(page).fill(scripted({ text }));
      await send(page).click();
      await page.getByRole('article', { name: 'Assistant' }).getByText(text).waitFor();
    };
    await page.goto('/playground');
    await say('to the first');
    await message(page).fill(TYPED);
    await until(() => stores(page));
    await endFromElsewhere(visitor);
    await page.getByRole('link', { name: 'Sign in' }).click();
    await signInOn(page, OTHER);
    await page.getByRole('button', { name: new RegExp(OTHER.email) }).waitFor();
    await until(async () => !(await stores(page)));
    await message(page).waitFor();
    assert.equal(await message(page).inputValue(), '');
    assert.equal(await page.getByText('to the first').count(), 0);
    await say('to the second');
    assert.equal(keys.length, 2);
    assert.notEqual(keys[0], keys[1]);
  });

  test('the same user finds what was typed after signing in again', async () => {
    await using visitor = await signedIn();
    const { page } = visitor;
    await typeInPlayground(page);
    await endFromElsewhere(visitor);
    await page.getByRole('link', { name: 'Sign in' }).click();
    await signInOn(page, FIRST);
    await message(page).waitFor();
    assert.equal(await message(page).inputValue(), TYPED);
  });

  test('tabs that clear the storage do not answer each other', async () => {
    const body = { account_id: 'default', email: 'someone@acme.example', role: 'member' };
    const { link } = await post(stage.operator.context, url, '/api/invitations', body);
    await using visitor = await signedIn();
    const second = await visitor.context.newPage();
    for (const page of [visitor.page, second]) {
      await page.goto(String(link));
      await page.getByText('This invitation is for another user').waitFor();
    }
    // Each tab answers a ball with the next one, so that there was time for events about anything else.
    await second.evaluate(`
      addEventListener('storage', ({ key, newValue }) => {
        if (key === 'ball') localStorage.setItem('ball', Number(newValue) + 1);
        else events++;
      });
      var events = 0;`);
    await visitor.page.getByRole('button', { name: 'Sign out' }).click();
    await visitor.page.getByRole('heading', { name: /^Join / }).waitFor();
    await visitor.page.evaluate(`new Promise((resolve) => {
      addEventListener('storage', ({ key, newValue }) => {
        if (key !== 'ball') return;
        if (Number(newValue) > 50) resolve();
        else localStorage.setItem('ball', Number(newValue) + 1);
      });
      localStorage.setItem('ball', 1);
    })`);
    const events = await second.evaluate<number>('events');
    assert.ok(events <= 10, `${events} events`);
  });

  test('a secret leaves the memory of the page with its dialog', async () => {
    const { page, context } = stage.operator;
    await page.goto('/members');
    await page.getByRole('button', { name: 'Invite member' }).click();
    const form = page.getByRole('dialog', { name: 'Invite a member' });
    await form.getByLabel('Email').fill('kim@acme.example');
    await form.getByRole('button', { name: 'Create invitation' }).click();
    const dialog = page.getByRole('dialog', { name: 'Invitation link' });
    const token = new URL((await dialog.getByRole('region').innerText()).trim()).hash.slice(1);
    const session = await context.newCDPSession(page);
    const isInMemory = async () => {
      let heap = '';
      const add = ({ chunk }: { chunk: string }) => {
        heap += chunk;
      };
      session.on('HeapProfiler.addHeapSnapshotChunk', add);
      await session.send('HeapProfiler.collectGarbage');
      await session.send('HeapProfiler.takeHeapSnapshot', { reportProgress: false });
      session.off('HeapProfiler.addHeapSnapshotChunk', add);
      return heap.includes(token);
    };
    assert.equal(await isInMemory(), true);
    await dialog.getByRole('button', { name: 'Done' }).click();
    await page.getByRole('alertdialog').getByRole('button', { name: 'Close' }).click();
    await dialog.waitFor({ state: 'detached' });
    await page.getByRole('link', { name: 'Models', exact: true }).click();
    await page.getByRole('heading', { name: 'Models', level: 1 }).waitFor();
    await until(async () => !(await isInMemory()));
  });

  test('a removed row leaves the focus in the content', async () => {
    const { page } = stage.operator;
    await page.goto('/members');
    await page.getByRole('button', { name: 'Withdraw invitation for kim@acme.example' }).click();
    await page.getByRole('alertdialog').getByRole('button', { name: 'Withdraw invitation' }).click();
    await page.getByText('kim@acme.example').first().waitFor({ state: 'detached' });
    await until(() => page.evaluate<boolean>("document.activeElement.matches('#main, #main *')"));
  });

  test('a tab that gets the focus reads the first page of a list, and no list of several pages', async () => {
    const { page, context } = stage.operator;
    const { id } = await post(context, url, '/api/keys', { account_id: 'default', name: 'audited' });
    for (let index = 0; index < 130; index++)
      await context.request.patch(`${url}/api/keys/${String(id)}`, {
        data: { name: `audited ${index}` },
        headers: { origin: url },
      });
    await page.clock.install();
    await page.goto('/operator/audit');
    const second = page.waitForResponse((response) => response.url().includes('cursor='));
    await page.getByRole('button', { name: 'Load more' }).click();
    await second;
    await page.clock.fastForward(6000);
    const reads: string[] = [];
    page.on('request', (request) => reads.push(new URL(request.url()).pathname));
    const session = page.waitForResponse('**/api/session');
    await page.evaluate("dispatchEvent(new Event('visibilitychange'))");
    await session;
    assert.deepEqual(
      reads.filter((path) => path === '/api/audit'),
      [],
    );
  });
});
