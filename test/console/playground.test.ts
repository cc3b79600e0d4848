/** The playground: streams, stops, keeps what was typed in the browser and sends it nowhere but in the call. */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { Page, Request } from 'playwright-core';
import { scripted } from '../../src/engine/scripted/options.ts';
import { MODEL, until } from '../harness.ts';
import { WITH_BROWSER } from './browser.ts';
import { openStage, type Stage } from './stage.ts';

const SECRET = 'what is typed here is for the model alone';

describe('the playground', WITH_BROWSER, () => {
  let stage: Stage;
  let page: Page;
  const sent: Request[] = [];
  before(async () => {
    stage = await openStage();
    ({ page } = stage.operator);
    page.on('request', (request) => sent.push(request));
    await page.goto('/playground');
  });
  after(() => stage[Symbol.asyncDispose]());

  const message = () => page.getByLabel('Message', { exact: true });
  const answers = () => page.getByRole('article', { name: 'Assistant' });

  test('an answer comes token by token, with what it took and cost', async () => {
    await message().fill(`${SECRET} ${scripted({ tokens: 24, tokenMs: 20 })}`);
    await page.getByRole('button', { name: 'Send' }).click();
    await page.getByRole('button', { name: 'Stop' }).waitFor();
    await answers().getByText('24 tokens').waitFor();
    const text = await answers().innerText();
    for (const number of ['Prompt', 'Completion', 'TTFT', 'Speed', 'Cost', 'stop', 'Receipt'])
      assert.ok(text.includes(number), `${number}: ${text}`);
  });

  test('stop ends the answer, keeps what had come, and frees the slot', async () => {
    await message().fill(scripted({ tokens: 5000, tokenMs: 20 }));
    await page.getByRole('button', { name: 'Send' }).click();
    const last = answers().last();
    await until(async () => (await last.innerText()).split(/\s+/).length > 12);
    await page.getByRole('button', { name: 'Stop' }).click();
    await last.getByText('stopped by you').waitFor();
    assert.ok((await last.innerText()).split(/\s+/).length > 12);
    const inFlight = () =>
      stage.service.service.router.overview().flatMap(({ replicas }) => replicas.map((one) => one.inFlight));
    await until(() => inFlight().every((count) => count === 0));
  });

  test('the receipt of what was stopped says that the caller left', async () => {
    await answers().last().getByRole('link', { name: 'Receipt' }).click();
    const receipt = page.getByRole('dialog', { name: 'Request' });
    await receipt
      .getByText('hung_up')
      .or(receipt.getByText(/hung up/i))
      .first()
      .waitFor();
    await page.goBack();
    await message().waitFor();
  });

  test('what was typed survives a reload', async () => {
    await message().fill(`${SECRET} and not sent yet`);
    await until(async () => (await stored(page)).includes('and not sent yet'));
    await page.reload();
    await message().waitFor();
    assert.equal(await message().inputValue(), `${SECRET} and not sent yet`);
    await page.getByRole('article', { name: 'User' }).first().getByText(SECRET).waitFor();
  });

  test('a word typed right before a reload is kept too', async () => {
    await message().fill(`${SECRET} at the last moment`);
    await page.reload();
    await message().waitFor();
    assert.equal(await message().inputValue(), `${SECRET} at the last moment`);
  });

  test('nothing that was typed has left the browser but in the body of the call', () => {
    for (const request of sent) {
      const { pathname } = new URL(request.url());
      assert.ok(!decodeURIComponent(request.url()).includes(SECRET), request.url());
      if (pathname.startsWith('/v1/')) continue;
      assert.ok(!(request.postData() ?? '').includes(SECRET), pathname);
    }
    assert.ok(sent.some((request) => (request.postData() ?? '').includes(SECRET)));
    assert.ok(!stage.service.log().includes(SECRET));
  });

  test('it spends through a key of an hour, which no storage keeps and no list shows', async () => {
    const call = sent.find((request) => new URL(request.url()).pathname === '/v1/chat/completions');
    const key = (await call?.headerValue('authorization'))?.slice('Bearer '.length) ?? '';
    assert.match(key, /^sk-sluice-\w{49}$/);
    assert.ok(!(await stored(page)).includes(key));
    await page.goto('/keys');
    await page.getByText('Make the first key').waitFor();
  });

  test('the code is exactly this request, in three languages', async () => {
    await page.goto('/playground');
    await page.getByRole('button', { name: 'Code' }).click();
    const dialog = page.getByRole('dialog', { name: 'As code' });
    for (const language of ['curl', 'Python', 'TypeScript']) {
      await dialog.getByRole('tab', { name: language }).click();
      const code = await dialog.getByRole('tabpanel').innerText();
      for (const part of [`${stage.service.url}/v1`, MODEL, SECRET]) assert.ok(code.includes(part), code);
      assert.doesNotMatch(code, /sk-sluice-\w{20}/);
    }
    await page.keyboard.press('Escape');
  });

  test('two models answer side by side', async () => {
    await page.getByRole('button', { name: 'Compare' }).click();
    await page.getByRole('region', { name: 'Conversation 2' }).waitFor();
    await message().fill(scripted({ tokens: 4 }));
    await page.getByRole('button', { name: 'Send' }).click();
    for (const column of [1, 2]) {
      const conversation = page.getByRole('region', { name: `Conversation ${column}` });
      await conversation.getByText('4 tokens', { exact: true }).waitFor();
    }
  });

  test('clearing takes it all out of the browser', async () => {
    await page.getByRole('button', { name: 'Clear' }).click();
    await page.getByRole('alertdialog').getByRole('button', { name: 'Clear' }).click();
    await until(async () => !(await stored(page)).includes(SECRET));
  });

  test('nothing on the way has broken the policy or thrown', () => {
    assert.deepEqual(stage.operator.faults, []);
  });
});

function stored(page: Page): Promise<string> {
  return page.evaluate<string>('JSON.stringify([{ ...localStorage }, { ...sessionStorage }])');
}
