/** Embedding models in the console: comparing texts in the playground, and what other pages show of them. */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { Page, Request } from 'playwright-core';
import { scripted } from '../support/scripted-engine/directive.ts';
import { MODEL, until } from '../harness.ts';
import { OPERATOR, setupLink } from '../operator.ts';
import { axe, openBrowser, setView, sidewaysScroll, WITH_BROWSER } from './browser.ts';
import { openConsole } from './service.ts';
import { openStage, type Stage } from './stage.ts';

const EMBEDDER = 'test/embedder';
const MODELS = `models:
  - id: ${EMBEDDER}
    required: true
    pricing: {prompt: '2'}
    engine: {file: 'scripted:{"dimensions": 6, "contextTokens": 64}'}
  - {id: ${MODEL}, required: true, engine: {file: 'scripted:{}'}}
  - {id: test/ranker, engine: {file: 'scripted:{"ranks": true}'}, required: true}
  - {id: test/down, modality: text->embedding, replicas: [{url: 'http://127.0.0.1:9', dialect: vllm}]}
`;
const SECRET = 'what is typed here is for the model alone';

/** Checks the page on a desktop and on a phone in dark mode. */
async function checkViews(page: Page): Promise<void> {
  for (const view of [
    { width: 360, scheme: 'dark' },
    { width: 1440, scheme: 'light' },
  ] as const) {
    await setView(page, view);
    assert.deepEqual(await axe(page), [], `${view.width} px`);
    assert.equal(await sidewaysScroll(page), 0, `${view.width} px`);
  }
}

const textOf = (page: Page, number: number) => page.getByRole('textbox', { name: `Text ${number}` });
const compareOf = (page: Page) => page.getByRole('button', { name: 'Compare', exact: true });

describe('comparing texts', WITH_BROWSER, () => {
  let stage: Stage;
  let page: Page;
  const sent: Request[] = [];
  before(async () => {
    stage = await openStage(MODELS);
    ({ page } = stage.operator);
    page.on('request', (request) => sent.push(request));
    await page.goto('/models');
  });
  after(() => stage[Symbol.asyncDispose]());

  test('the Models page shows which models return embeddings, and leads to the page', async () => {
    const rows = page.getByRole('table', { name: 'Models' }).getByRole('row');
    const row = rows.filter({ hasText: EMBEDDER });
    await row.getByText('Embeddings', { exact: true }).waitFor();
    await rows.filter({ hasText: 'test/down' }).getByText('Embeddings').waitFor();
    await rows.filter({ hasText: 'test/ranker' }).getByText('Rerank', { exact: true }).waitFor();
    const choose = async (action: string, model = EMBEDDER) => {
      await page.getByRole('button', { name: `Actions for ${model}` }).click();
      await page.getByRole('menuitem', { name: action }).click();
    };
    await page.getByRole('button', { name: 'Actions for test/ranker' }).click();
    const playground = page.getByRole('menuitem', { name: 'Try in playground: the model is a reranker' });
    assert.ok(await playground.isDisabled());
    await page.keyboard.press('Escape');
    await choose('Connect');
    const dialog = page.getByRole('dialog', { name: 'Connect an app' });
    await dialog.getByText('/v1/embeddings').waitFor();
    await page.keyboard.press('Escape');
    await dialog.waitFor({ state: 'detached' });
    await choose('Try in playground');
    await page.getByRole('heading', { name: 'Compare texts' }).waitFor();
    assert.match(await page.getByRole('combobox', { name: 'Model' }).innerText(), new RegExp(EMBEDDER));
  });

  test('the keyboard compares two texts, and a changed text removes the result', async () => {
    await textOf(page, 1).fill(SECRET);
    await textOf(page, 2).fill(SECRET);
    await checkViews(page);
    await compareOf(page).press('Enter');
    await page.getByText(/^Cosine 1\.000 \(6 dimensions, \d+ tokens\)$/).waitFor();
    await checkViews(page);
    await textOf(page, 2).fill('another text');
    assert.equal(await page.getByText(/^Cosine/).count(), 0);
    await compareOf(page).click();
    await page.getByText(/^Cosine -?0\.\d{3} /).waitFor();
    await textOf(page, 2).fill(SECRET);
  });

  test('the code samples contain the current request in three languages', async () => {
    await page.getByRole('button', { name: 'Code' }).click();
    const dialog = page.getByRole('dialog', { name: 'Code' });
    for (const language of ['curl', 'Python', 'TypeScript']) {
      await dialog.getByRole('tab', { name: language }).click();
      const code = await dialog.getByRole('tabpanel', { name: language }).innerText();
      assert.match(code, /\/v1\/embeddings|embeddings\.create/);
      for (const part of [`${stage.service.url}/v1`, EMBEDDER, SECRET]) assert.ok(code.includes(part), code);
      assert.doesNotMatch(code, /sk-sluice-\w{20}/);
    }
    await page.keyboard.press('Escape');
    await dialog.waitFor({ state: 'hidden' });
  });

  test('an error of the service is shown above the button, and that of one text at its field', async () => {
    await textOf(page, 2).fill('x'.repeat(400));
    await compareOf(page).click();
    await page.getByRole('alert').getByText('context').waitFor();
    await checkViews(page);
    const error = { message: 'Too long.', type: 'x', param: 'input[1]', code: 'invalid_value' };
    await page.route('**/v1/embeddings', (route) => route.fulfill({ status: 400, json: { error } }));
    await compareOf(page).click();
    await page.getByText('Too long.').waitFor();
    assert.equal(await textOf(page, 2).getAttribute('aria-invalid'), 'true');
    assert.equal(await page.getByRole('alert').count(), 0);
    await page.unroute('**/v1/embeddings');
  });

  test('a comparison can be stopped, which frees the slot', async () => {
    await textOf(page, 2).fill(scripted({ tokenMs: 1_000_000 }));
    await compareOf(page).click();
    const inFlight = () => stage.service.service.router.model(EMBEDDER).overview().replicas[0]?.inFlight;
    await until(() => inFlight() === 1);
    await page.getByRole('button', { name: 'Stop' }).click();
    await compareOf(page).waitFor();
    await until(() => inFlight() === 0);
    assert.equal(await page.getByRole('alert').count(), 0);
  });

  test('the receipt of a comparison has its inputs and nothing of a completion', async () => {
    await textOf(page, 2).fill('short');
    await compareOf(page).click();
    await page.getByRole('link', { name: 'Receipt' }).click();
    const receipt = page.getByRole('region', { name: 'Request', exact: true });
    await receipt.getByText('embeddings, not streamed').waitFor();
    const text = await receipt.innerText();
    assert.match(text, /Inputs\s+2/);
    assert.match(text, /Compute\b/);
    assert.doesNotMatch(text, /Completion\b|Decode|Aborted|Sampling|No tokens/);
    await checkViews(page);
    await page.goBack();
  });

  test('texts leave the browser only in request bodies', () => {
    for (const request of sent) {
      assert.ok(!decodeURIComponent(request.url()).includes(SECRET), request.url());
      if (!new URL(request.url()).pathname.startsWith('/v1/'))
        assert.ok(!(request.postData() ?? '').includes(SECRET), request.url());
    }
    assert.ok(!stage.service.log().includes(SECRET));
  });

  test('a model that is down says so, and names one that is ready', async () => {
    await page.getByRole('combobox', { name: 'Model' }).click();
    await page.getByRole('option', { name: 'test/down' }).waitFor();
    assert.equal(await page.getByRole('option').count(), 2);
    await page.getByRole('option', { name: 'test/down' }).click();
    await page.getByText(`${EMBEDDER} is ready; select it instead.`).waitFor();
  });

  test('chats offer only models that generate text, even if the default model does not', async () => {
    await page.getByRole('button', { name: 'Chat', exact: true }).click();
    const model = page.getByRole('combobox', { name: 'Model' });
    await until(async () => (await model.innerText()).includes(MODEL));
    await model.click();
    await page.getByRole('option', { name: MODEL }).waitFor();
    assert.equal(await page.getByRole('option').count(), 1);
    await page.keyboard.press('Escape');
    await page.getByLabel('Message', { exact: true }).fill(scripted({ text: 'answered' }));
    await page.getByRole('button', { name: 'Send', exact: true }).click();
    await page.getByRole('article', { name: 'Assistant' }).getByText('answered', { exact: true }).waitFor();
    await page.goto('/playground');
    await page.getByLabel('Message', { exact: true }).waitFor();
  });

  test('a server of an embedding model is added with its kind', async () => {
    await page.goto('/models?add=1');
    const dialog = page.getByRole('dialog', { name: 'Add model' });
    await dialog.getByLabel('Search the catalog').fill('bge-small');
    await dialog.getByRole('button', { name: 'BAAI/bge-small-en-v1.5' }).click();
    await dialog.getByLabel('Prompt price').waitFor();
    assert.equal(await dialog.getByLabel('Completion price').count(), 0);
    await dialog.getByRole('tab', { name: 'Other server' }).click();
    await dialog.getByLabel('Completion price').waitFor();
    await dialog.getByRole('combobox', { name: 'Kind of model' }).click();
    await page.getByRole('option', { name: 'Embeddings' }).click();
    await dialog.getByLabel('Completion price').waitFor({ state: 'detached' });
    await dialog.getByLabel('Model ID').fill('acme/added');
    await dialog.getByLabel('Base URL').fill('http://127.0.0.1:9');
    await dialog.getByLabel('Context length').fill('512');
    await checkViews(page);
    await dialog.getByRole('button', { name: 'Add model' }).click();
    const drawer = page.getByRole('dialog', { name: 'acme/added', exact: true });
    await drawer.getByText('text to embedding').waitFor();
    assert.equal(await drawer.getByText('Completion price').count(), 0);
    await drawer.getByRole('button', { name: 'Edit' }).click();
    const form = page.getByRole('dialog', { name: 'Edit acme/added' });
    await form.getByLabel('Prompt price').waitFor();
    assert.equal(await form.getByLabel('Completion price').count(), 0);
  });
});

const ONLY_EMBEDDER = `models: [{id: ${EMBEDDER}, engine: {file: 'scripted:{"dimensions": 6}'}}]`;

describe('a service with only an embedding model', WITH_BROWSER, () => {
  let stage: Stage;
  let page: Page;
  before(async () => {
    stage = await openStage(ONLY_EMBEDDER);
    ({ page } = stage.operator);
  });
  after(() => stage[Symbol.asyncDispose]());

  test('opens the playground with the comparison, and its chat says what is missing', async () => {
    await page.goto('/playground');
    await page.getByRole('heading', { name: 'Compare texts' }).waitFor();
    await page.getByRole('button', { name: 'Chat', exact: true }).click();
    await page.getByText('No models that generate text').waitFor();
    await checkViews(page);
  });
});

describe('a service without embedding models', WITH_BROWSER, () => {
  let stage: Stage;
  before(async () => {
    stage = await openStage();
  });
  after(() => stage[Symbol.asyncDispose]());

  test('explains what they are for, and where to add one', async () => {
    const { page } = stage.operator;
    await page.goto('/playground');
    await page.getByRole('button', { name: 'Embeddings', exact: true }).click();
    await page.getByText('No embedding models').waitFor();
    await checkViews(page);
    await page.getByRole('link', { name: 'Embeddings' }).click();
    await page.getByRole('heading', { name: 'Embeddings', exact: true }).waitFor();
    await page.goBack();
    await page.getByRole('link', { name: 'Add model' }).click();
    await page.getByRole('dialog', { name: 'Add model' }).waitFor();
  });
});

test('the setup of a service with only an embedding model sends it a text', WITH_BROWSER, async () => {
  await using service = await openConsole(ONLY_EMBEDDER);
  await using browser = await openBrowser();
  await using visitor = await browser.visit(service.url);
  const { page } = visitor;
  await page.goto(await setupLink(service));
  await page.getByLabel('Name').fill(OPERATOR.name);
  await page.getByLabel('Email').fill(OPERATOR.email);
  await page.getByLabel('Password', { exact: true }).fill(OPERATOR.password);
  await page.getByRole('button', { name: 'Continue' }).click();
  await page.getByRole('heading', { name: 'Your first API key' }).waitFor();
  await page.getByRole('button', { name: 'Continue' }).click();
  await page.getByRole('tabpanel', { name: 'curl' }).getByText('/v1/embeddings').waitFor();
  await page.getByRole('button', { name: 'Send request' }).click();
  await page.getByText('A vector of 6 numbers:').waitFor();
  await page.getByRole('link', { name: 'Open console' }).waitFor();
  await checkViews(page);
  assert.deepEqual(visitor.faults, []);
});
