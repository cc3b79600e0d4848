/** The playground: streaming, stopping, local storage, and no leaks of the input. */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { Page, Request } from 'playwright-core';
import { scripted } from '../support/scripted-engine/directive.ts';
import { MODEL, until } from '../harness.ts';
import { OPERATOR } from '../operator.ts';
import { axe, holdResponse, storedText, WITH_BROWSER } from './browser.ts';
import { openStage, signInOn, type Stage } from './stage.ts';

const TWO_MODELS = `models:
  - {id: ${MODEL}, engine: {file: 'scripted:{}'}}
  - {id: test/other, engine: {file: 'scripted:{}'}}
`;
const SECRET = 'what is typed here is for the model alone';

describe('the playground', WITH_BROWSER, () => {
  let stage: Stage;
  let page: Page;
  const sent: Request[] = [];
  before(async () => {
    stage = await openStage(TWO_MODELS);
    ({ page } = stage.operator);
    page.on('request', (request) => sent.push(request));
    await page.goto('/playground');
  });
  after(() => stage[Symbol.asyncDispose]());

  const message = () => page.getByLabel('Message', { exact: true });
  const answers = () => page.getByRole('article', { name: 'Assistant' });

  test('a response is shown with its usage, timing and cost', async () => {
    await message().fill(`${SECRET} ${scripted({ tokens: 24, tokenMs: 20 })}`);
    await page.getByRole('button', { name: 'Send', exact: true }).click();
    // Exact, because the throughput can be 24 tokens/s.
    await answers().getByText('24 tokens', { exact: true }).waitFor();
    // The end of the stream comes after the usage, and the receipt with the cost after both.
    await answers().getByText('Throughput').waitFor();
    await answers().getByText('Cost', { exact: true }).waitFor();
    const text = await answers().innerText();
    for (const number of ['Prompt', 'Completion', 'TTFT', 'Throughput', 'Cost', 'stop', 'Receipt'])
      assert.ok(text.includes(number), `${number}: ${text}`);
  });

  test('Stop while the key is made ends the request, and the next one is sent', async () => {
    await page.reload();
    const made = await holdResponse(page, '**/api/playground-keys');
    await message().fill(scripted({ text: 'without a key' }));
    await message().press('Enter');
    await made.arrived;
    await page.getByRole('button', { name: 'Stop' }).click();
    await answers().last().getByText('Stopped before the first token.').waitFor();
    await made.release();
    await message().fill(scripted({ text: 'with its key' }));
    await message().press('Enter');
    await answers().last().getByText('with its key', { exact: true }).waitFor();
  });

  test('a response streams, and stopping keeps the text received so far and frees the slot', async () => {
    await message().fill(scripted({ tokens: 5000, tokenMs: 20 }));
    await page.getByRole('button', { name: 'Send', exact: true }).click();
    const last = answers().last();
    await until(async () => (await last.innerText()).split(/\s+/).length > 12);
    await page.getByRole('button', { name: 'Stop' }).click();
    await last.getByText('stopped by you').waitFor();
    await last.getByRole('button', { name: 'Continue' }).waitFor();
    assert.ok((await last.innerText()).split(/\s+/).length > 12);
    const inFlight = () =>
      stage.service.service.router.overview().flatMap(({ replicas }) => replicas.map((one) => one.inFlight));
    await until(() => inFlight().every((count) => count === 0));
  });

  test('the receipt of a stopped request shows that the client disconnected', async () => {
    await answers().last().getByRole('link', { name: 'Receipt' }).click();
    const receipt = page.getByRole('region', { name: 'Request', exact: true });
    await receipt.getByText('Client disconnected').first().waitFor();
    await page.goBack();
    await message().waitFor();
  });

  test('a response is shown as Markdown, its HTML as text and its images as links, and its source on request', async () => {
    const text = [
      '## A plan',
      '- [x] **first**',
      '| a | b |\n|---|--:|\n| one | 2 |',
      '<img src=x onerror=alert(1)> ![chart](https://example.com/a.png) [bad](javascript:alert(1))',
      '```python\nimport os\n```',
    ].join('\n\n');
    await message().fill(scripted({ text }));
    await message().press('Enter');
    const last = answers().last();
    await last.getByText('Throughput').waitFor();
    await last.getByRole('heading', { name: 'A plan' }).waitFor();
    await last.getByRole('checkbox', { name: 'Done', exact: true }).waitFor();
    await last.getByRole('cell', { name: '2', exact: true }).waitFor();
    await last.locator('.code-keyword').getByText('import').waitFor();
    await last.getByRole('button', { name: 'Copy code' }).waitFor();
    assert.equal(await last.locator('img').count(), 0);
    await last.getByText('<img src=x onerror=alert(1)>').waitFor();
    await last.getByText('[bad](javascript:alert(1))').waitFor();
    const link = last.getByRole('link', { name: 'chart' });
    assert.equal(await link.getAttribute('rel'), 'noopener noreferrer');
    assert.equal(await link.getAttribute('target'), '_blank');
    assert.deepEqual(await axe(page), []);
    await last.getByRole('button', { name: 'Show source' }).click();
    await last.getByText('## A plan').waitFor();
    assert.equal(await last.getByRole('heading').count(), 0);
  });

  test('input survives a reload', async () => {
    await message().fill(`${SECRET} and not sent yet`);
    await until(async () => (await storedText(page)).includes('and not sent yet'));
    await page.reload();
    await message().waitFor();
    assert.equal(await message().inputValue(), `${SECRET} and not sent yet`);
    await page.getByRole('article', { name: 'User' }).first().getByText(SECRET).waitFor();
  });

  test('input right before a reload is stored too', async () => {
    await message().fill(`${SECRET} at the last moment`);
    await page.reload();
    await message().waitFor();
    assert.equal(await message().inputValue(), `${SECRET} at the last moment`);
  });

  test('input leaves the browser only in request bodies', () => {
    for (const request of sent) {
      const { pathname } = new URL(request.url());
      assert.ok(!decodeURIComponent(request.url()).includes(SECRET), request.url());
      if (pathname.startsWith('/v1/')) continue;
      assert.ok(!(request.postData() ?? '').includes(SECRET), pathname);
    }
    assert.ok(sent.some((request) => (request.postData() ?? '').includes(SECRET)));
    assert.ok(!stage.service.log().includes(SECRET));
  });

  test('requests use a temporary key that is neither stored nor listed', async () => {
    const call = sent.find((request) => new URL(request.url()).pathname === '/v1/chat/completions');
    const key = (await call?.headerValue('authorization'))?.slice('Bearer '.length) ?? '';
    assert.match(key, /^sk-sluice-\w{49}$/);
    assert.ok(!(await storedText(page)).includes(key));
    await page.goto('/keys');
    await page.getByText('Create your first API key').waitFor();
  });

  test('the code samples contain the current request in three languages', async () => {
    await page.goto('/playground');
    await page.getByRole('button', { name: 'Code', exact: true }).click();
    const dialog = page.getByRole('dialog', { name: 'Code' });
    for (const language of ['curl', 'Python', 'TypeScript']) {
      await dialog.getByRole('tab', { name: language }).click();
      const code = await dialog.getByRole('tabpanel', { name: language }).innerText();
      for (const part of [`${stage.service.url}/v1`, MODEL, SECRET]) assert.ok(code.includes(part), code);
      assert.doesNotMatch(code, /sk-sluice-\w{20}/);
    }
    await dialog.getByRole('button', { name: 'Messages', exact: true }).click();
    await dialog.getByText('@anthropic-ai/sdk').waitFor();
    await page.keyboard.press('Escape');
    await dialog.waitFor({ state: 'detached' });
  });

  test('Enter sends without the trailing line break, and Shift+Enter starts a new line', async () => {
    await message().fill('first line');
    await message().press('Shift+Enter');
    await message().pressSequentially(scripted({ text: 'sent' }));
    await message().press('Shift+Enter');
    assert.match(await message().inputValue(), /^first line\n.+\n$/);
    const count = sent.length;
    await message().press('Enter');
    await answers().last().getByText('sent', { exact: true }).waitFor();
    const call = sent.slice(count).find((request) => request.url().includes('/v1/chat/completions'));
    assert.ok(call);
    const { messages } = call.postDataJSON() as { messages: { content: string }[] };
    assert.match(messages.at(-1)?.content ?? '', /^first line\n.*\S$/);
    assert.equal(await message().inputValue(), '');
  });

  test('the Enter that ends a composition in Safari does not send', async () => {
    await message().fill('にほん');
    const count = sent.length;
    // Safari has ended the composition by then, and reports the key code 229.
    await page.evaluate(
      "document.activeElement.dispatchEvent(new KeyboardEvent('keydown', { key: 'Enter', keyCode: 229, bubbles: true, cancelable: true }))",
    );
    assert.equal(await message().inputValue(), 'にほん');
    // Others run in the background.
    assert.ok(!sent.slice(count).some((request) => request.url().includes('/v1/chat/completions')));
  });

  test('temperature and maximum tokens come first, the others are below Advanced, and presets restore them', async () => {
    const panel = page.getByRole('complementary', { name: 'Parameters' });
    await panel.getByRole('textbox', { name: 'Temperature' }).waitFor();
    await panel.getByRole('textbox', { name: 'Maximum tokens' }).waitFor();
    const seed = panel.getByRole('textbox', { name: 'Seed' });
    assert.equal(await seed.isVisible(), false);
    await panel.getByRole('button', { name: 'Advanced' }).click();
    await seed.fill('not a number');
    await panel.getByRole('button', { name: 'Advanced' }).click();
    // Invalid input keeps the section open.
    assert.equal(await seed.isVisible(), true);
    const temperature = panel.getByRole('textbox', { name: 'Temperature' });
    await temperature.fill('0.3');
    await panel.getByRole('button', { name: 'Presets' }).click();
    const presets = page.getByRole('dialog', { name: 'Presets' });
    await presets.getByLabel('Save the current parameters as').fill('Lucky');
    await presets.getByLabel('Save the current parameters as').press('Enter');
    await presets.getByRole('button', { name: 'Rename Lucky' }).waitFor();
    assert.deepEqual(await axe(page), []);
    await presets.getByRole('button', { name: 'Close' }).click();
    await panel.getByRole('button', { name: 'Reset all parameters' }).click();
    assert.equal(await temperature.inputValue(), '');
    await panel.getByRole('button', { name: 'Presets' }).click();
    await presets.getByRole('button', { name: 'Lucky', exact: true }).click();
    await until(async () => (await temperature.inputValue()) === '0.3');
    await panel.getByRole('button', { name: 'Reset all parameters' }).click();
  });

  test('two different models respond side by side', async () => {
    await page.getByRole('button', { name: 'Compare' }).click();
    await page.getByRole('region', { name: 'Conversation 2' }).waitFor();
    const models = await page.getByRole('combobox', { name: /^Model \d/ }).allInnerTexts();
    assert.equal(new Set(models).size, 2);
    await message().fill(scripted({ tokens: 4 }));
    await page.getByRole('button', { name: 'Send', exact: true }).click();
    for (const column of [1, 2]) {
      const conversation = page.getByRole('region', { name: `Conversation ${column}` });
      await conversation.getByText('4 tokens', { exact: true }).waitFor();
    }
  });

  test('running again removes later messages, and removed messages can be restored', async () => {
    const users = page.getByRole('region', { name: 'Conversation 1' }).getByRole('article', { name: 'User' });
    for (const count of [1, 2]) {
      await message().fill(`${scripted({ tokens: 2 })} message ${count}`);
      await page.getByRole('button', { name: 'Send', exact: true }).click();
      await users.getByText(`message ${count}`).waitFor();
      await page.getByRole('button', { name: 'Stop' }).waitFor({ state: 'hidden' });
    }
    await users.filter({ hasText: 'message 1' }).getByRole('button', { name: 'Run again from here' }).click();
    await page
      .getByRole('dialog', { name: '3 messages removed' })
      .getByRole('button', { name: 'Undo' })
      .click();
    await users.getByText('message 2').waitFor();
    await users.last().getByRole('button', { name: 'Delete' }).click();
    await page
      .getByRole('dialog', { name: '1 message removed' })
      .getByRole('button', { name: 'Undo' })
      .click();
    await users.getByText('message 2').waitFor();
  });

  test('a closed column is restored with its model, and a reload changes nothing', async () => {
    const models = () => page.getByRole('combobox', { name: /^Model \d/ }).allInnerTexts();
    const before = await models();
    await page.getByRole('button', { name: 'Close column 1' }).click();
    const closed = page.getByRole('dialog').filter({ hasText: /messages? removed/ });
    await closed.getByRole('button', { name: 'Undo' }).click();
    await page.getByRole('region', { name: 'Conversation 2' }).waitFor();
    assert.deepEqual(await models(), before);
    await page.reload();
    await page.getByRole('region', { name: 'Conversation 2' }).waitFor();
    assert.deepEqual(await models(), before);
  });

  test('each tab keeps its own input, and a new tab starts a chat with the same models', async () => {
    const other = await stage.operator.context.newPage();
    await other.goto('/playground');
    const typed = other.getByLabel('Message', { exact: true });
    await other.getByRole('region', { name: 'Conversation 2' }).waitFor();
    assert.equal(await other.getByRole('article').count(), 0);
    await typed.fill('typed in the second tab');
    await message().fill('typed in the first tab');
    await until(async () => (await storedText(page)).includes('typed in the first tab'));
    await until(async () => (await storedText(other)).includes('typed in the second tab'));
    for (const tab of [other, page]) await tab.reload();
    await message().waitFor();
    await typed.waitFor();
    assert.equal(await typed.inputValue(), 'typed in the second tab');
    assert.equal(await message().inputValue(), 'typed in the first tab');
    await other.close();
  });

  test('conversations are listed, found, renamed, deleted and restored', async () => {
    const list = page.getByRole('dialog', { name: 'Conversations' });
    const rows = list.getByRole('list', { name: 'Conversations' }).getByRole('listitem');
    await page.getByRole('button', { name: 'Close column 2' }).click();
    await page.getByRole('textbox', { name: 'Temperature' }).fill('0.5');
    await page.getByRole('button', { name: 'New chat' }).click();
    assert.equal(await page.getByRole('article').count(), 0);
    await message().fill(`About rivers\n${scripted({ text: 'The Rhine' })}`);
    await message().press('Enter');
    await answers().getByText('The Rhine', { exact: true }).waitFor();
    // The parameters are those of the chat before.
    const call = sent.findLast((request) => request.url().includes('/v1/chat/completions'));
    assert.ok(call);
    assert.equal((call.postDataJSON() as { temperature?: number }).temperature, 0.5);
    await page.getByRole('button', { name: 'Conversations' }).click();
    await rows.filter({ hasText: 'About rivers' }).waitFor();
    assert.equal(await rows.count(), 2);
    assert.deepEqual(await axe(page), []);
    await list.getByLabel('Search conversations').fill('the rhine');
    await until(async () => (await rows.count()) === 1);
    await list.getByRole('button', { name: 'Rename About rivers' }).click();
    await list.getByLabel('Name').fill('Rivers of Europe');
    await list.getByLabel('Name').press('Enter');
    await list.getByRole('button', { name: 'Delete Rivers of Europe' }).click();
    await page
      .getByRole('dialog', { name: 'Conversation deleted' })
      .getByRole('button', { name: 'Undo' })
      .click();
    await list.getByText('Rivers of Europe').waitFor();
    // The deleted conversation was shown, so it is shown again.
    await list.getByRole('button', { name: 'Close' }).click();
    await answers().getByText('The Rhine', { exact: true }).waitFor();
    await page.getByRole('button', { name: 'Conversations' }).click();
    await rows.filter({ hasNotText: 'Rivers of Europe' }).getByRole('button').first().click();
    await page.getByRole('article', { name: 'User' }).getByText('message 2').waitFor();
    // An open conversation follows its changes in another tab.
    const other = await stage.operator.context.newPage();
    await other.goto('/playground');
    await other.getByRole('button', { name: 'Conversations' }).click();
    await other.getByRole('dialog').getByRole('button', { name: 'Rivers of Europe' }).first().click();
    await other.getByRole('article', { name: 'User' }).waitFor();
    await page.getByRole('button', { name: 'Conversations' }).click();
    await list.getByRole('button', { name: 'Rivers of Europe' }).first().click();
    const elsewhere = other.getByLabel('Message', { exact: true });
    await elsewhere.fill(`sent elsewhere ${scripted({ text: 'The Rhone' })}`);
    await elsewhere.press('Enter');
    await answers().getByText('The Rhone', { exact: true }).waitFor();
    await other.close();
  });

  test('Escape stops a response after a select was used, and while a toast is shown', async () => {
    await page.getByRole('button', { name: 'New chat' }).click();
    const stopsByEscape = async () => {
      await message().fill(scripted({ tokens: 5000, tokenMs: 20 }));
      await page.getByRole('button', { name: 'Send', exact: true }).click();
      await page.getByRole('button', { name: 'Stop' }).waitFor();
      await page.keyboard.press('Escape');
      await page.getByRole('button', { name: 'Stop' }).waitFor({ state: 'hidden' });
    };
    await page.getByRole('combobox', { name: 'Model' }).click();
    await page.getByRole('option', { selected: true }).click();
    await stopsByEscape();
    await answers().last().getByRole('button', { name: 'Delete' }).click();
    await page.getByRole('dialog', { name: '1 message removed' }).waitFor();
    await stopsByEscape();
  });

  test('a chat whose model leaves the list says so, and does not continue with another one', async () => {
    await page.route('**/api/models', async (route) => {
      const response = await route.fetch();
      const body = (await response.json()) as { data: { id: string }[] };
      await route.fulfill({ response, json: { ...body, data: body.data.filter(({ id }) => id !== MODEL) } });
    });
    const notice = page.getByText(`${MODEL} is not served. Select another model to continue.`);
    await notice.waitFor();
    const select = page.getByRole('combobox', { name: 'Model', exact: true });
    assert.equal(await select.innerText(), MODEL);
    await message().fill('To whom?');
    assert.ok(await page.getByRole('button', { name: 'Send', exact: true }).isDisabled());
    assert.deepEqual(await axe(page), []);
    await page.unroute('**/api/models');
    await notice.waitFor({ state: 'hidden' });
    assert.ok(await page.getByRole('button', { name: 'Send', exact: true }).isEnabled());
    await page.goto('/playground?model=acme/never-was');
    await page.getByText('acme/never-was is not served. Select another model to continue.').waitFor();
    await select.click();
    await page.getByRole('option', { name: new RegExp(`^${MODEL}`) }).click();
    await message().fill('');
  });

  test('a playground that cannot be stored says so', async () => {
    await page.evaluate(
      "for (let size = 2 ** 23; size >= 1; size /= 2) try { sessionStorage.setItem('x' + size, 'x'.repeat(size)); } catch {}",
    );
    await message().fill('x'.repeat(1000));
    await page.getByRole('alert').getByText('Not stored').waitFor();
    await page.evaluate(
      "for (const key of Object.keys(sessionStorage)) if (key.startsWith('x')) sessionStorage.removeItem(key);",
    );
    await message().fill(`${SECRET} fits again`);
    await page.getByText('Stored only in this browser').waitFor();
    await until(async () => (await storedText(page)).includes('fits again'));
  });

  test('a conversation that does not fit among the others stays in its tab, and is stored once it fits', async () => {
    await page.evaluate(`IDBObjectStore.prototype.put = () => {
      throw new DOMException('full', 'QuotaExceededError');
    };`);
    await page.getByRole('button', { name: 'New chat' }).click();
    await message().fill(`Kept here ${scripted({ text: 'only in this tab' })}`);
    await message().press('Enter');
    await answers().getByText('only in this tab', { exact: true }).waitFor();
    await page.getByRole('alert').getByText('Not stored').waitFor();
    const other = await stage.operator.context.newPage();
    await other.goto('/playground');
    await other.getByRole('button', { name: 'Conversations' }).click();
    await other.getByRole('button', { name: `Delete ${SECRET}` }).waitFor();
    const kept = other.getByRole('dialog').getByRole('button', { name: /^Delete Kept here/ });
    assert.equal(await kept.count(), 0);
    // The reload makes room.
    page.once('dialog', (dialog) => void dialog.accept());
    await page.reload();
    await answers().getByText('only in this tab', { exact: true }).waitFor();
    await kept.waitFor();
    await other.close();
  });

  test('deleting a conversation removes it from the browser', async () => {
    await page.getByRole('button', { name: 'Conversations' }).click();
    const list = page.getByRole('dialog', { name: 'Conversations' });
    await list.getByRole('button', { name: `Delete ${SECRET}` }).click();
    await page.keyboard.press('Escape');
    await message().fill('');
    await page.getByRole('button', { name: 'New chat' }).click();
    await until(async () => !(await storedText(page)).includes(SECRET));
    await page.getByRole('button', { name: 'Compare' }).click();
  });

  test('an unused playground names the model in both columns and offers prompt starters', async () => {
    for (const column of [1, 2]) {
      await page
        .getByRole('region', { name: `Conversation ${column}` })
        .getByText(/^Chat with/)
        .waitFor();
    }
    await page.getByRole('list', { name: 'Prompt starters' }).getByRole('button').first().click();
    assert.notEqual(await message().inputValue(), '');
  });

  test('signing out deletes the input from all tabs', async () => {
    await message().fill(SECRET);
    const other = await stage.operator.context.newPage();
    await other.goto('/playground');
    await other.getByLabel('Message', { exact: true }).fill(`${SECRET} in the second tab`);
    await until(async () => (await storedText(other)).includes('in the second tab'));
    await page.getByRole('button', { name: new RegExp(OPERATOR.email) }).click();
    await page.getByRole('menuitem', { name: 'Sign out' }).click();
    for (const tab of [page, other]) {
      await tab.getByRole('button', { name: 'Sign in' }).waitFor();
      assert.ok(!(await storedText(tab)).includes(SECRET));
    }
    await signInOn(other);
    await other.getByRole('link', { name: 'Playground', exact: true }).click();
    await other.getByLabel('Message', { exact: true }).waitFor();
    assert.equal(await other.getByLabel('Message', { exact: true }).inputValue(), '');
    await other.close();
  });
});
