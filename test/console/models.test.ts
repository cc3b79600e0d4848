/** The Models page: adding, using, changing and removing models of a running service. */
import assert from 'node:assert/strict';
import { readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import type { Locator, Page } from 'playwright-core';
import { DEFAULT_MODEL_ID } from '../../src/config/schema.ts';
import { openDatabase } from '../../src/database/database.ts';
import { MODELS_REVISION } from '../../src/database/schema.ts';
import { WITH_MODEL } from '../outside/clients/fixture.ts';
import { ONE_WORD } from '../support/default-model.ts';
import { MODEL, scriptedYaml } from '../harness.ts';
import { FakeHub } from '../models/fake-hub.ts';
import { buildGguf, TINY_METADATA } from '../models/gguf-builder.ts';
import { axe, setView, sidewaysScroll, WITH_BROWSER } from './browser.ts';
import { openStage, type Stage } from './stage.ts';

const WITH_BOTH = { skip: WITH_BROWSER.skip || WITH_MODEL.skip };

/** Timeout of steps in which an engine loads a model or generates, in milliseconds. */
const ENGINE_MS = 180_000;

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

/** The details of a model. The name is exact because toasts are also dialogs, with the ID in their names. */
const drawerOf = (page: Page, id: string) => page.getByRole('dialog', { name: id, exact: true });

/** The row of a model in the table. */
const rowOf = (page: Page, id: string) =>
  page.getByRole('table', { name: 'Models' }).getByRole('row').filter({ hasText: id });

/** Opens the details of a model. */
const openModel = (page: Page, id: string) =>
  rowOf(page, id).getByRole('button', { name: id, exact: true }).click();

/** Opens the dialog that adds a model, on this tab. */
async function openAdd(page: Page, tab: string): Promise<Locator> {
  await page.getByRole('button', { name: 'Add model' }).click();
  const dialog = page.getByRole('dialog', { name: 'Add model' });
  await dialog.getByRole('tab', { name: tab }).click();
  return dialog;
}

describe('a second model', WITH_BOTH, () => {
  const ID = 'local/second';
  let stage: Stage;
  let page: Page;
  let hub: FakeHub;
  let drawer: Locator;
  before(async () => {
    hub = await FakeHub.open();
    const file = await readFile(process.env.SLUICE_TEST_MODEL ?? '');
    hub.files.set('second.gguf', file);
    // The first response almost stops in the middle. A download without any bytes would fail after a while.
    hub.script = [{ stallAfter: file.length / 2, dripMs: 1000 }];
    const engine = { file: process.env.SLUICE_TEST_MODEL, slots: 1, contextTokens: 512, threads: 1 };
    // The engine of the added model has several threads, which wait for each other on a busy machine.
    const engines = { stallMs: ENGINE_MS };
    stage = await openStage(JSON.stringify({ models: [{ id: DEFAULT_MODEL_ID, engine }], engine: engines }));
    ({ page } = stage.operator);
    drawer = drawerOf(page, ID);
  });
  after(async () => {
    await stage[Symbol.asyncDispose]();
    await hub[Symbol.asyncDispose]();
  });

  test('is added by its address, and the progress of its download is shown', async () => {
    await page.goto('/models');
    await rowOf(page, DEFAULT_MODEL_ID).getByText('Ready').last().waitFor();
    const dialog = await openAdd(page, 'File or URL');
    await dialog.getByLabel('Source').fill(hub.storeUrl('second.gguf'));
    await dialog.getByLabel('Prompt price', { exact: true }).fill('0.50');
    await dialog.getByLabel('Context length').fill('512');
    await dialog.getByRole('button', { name: 'Add model' }).click();
    const progress = drawer.getByRole('progressbar', { name: 'Downloading' });
    await progress.and(page.locator('[aria-valuetext="49.2 MB of 98.4 MB"]')).waitFor();
    await drawer.getByText('Not downloaded').waitFor();
    await checkViews(page);
  });

  test('can be canceled while it is downloaded, and resumed', async () => {
    await drawer.getByRole('button', { name: `Cancel download of ${ID}` }).click();
    await page.getByText(`Download of ${ID} canceled`).waitFor();
    await drawer.getByText('The file is not downloaded.').waitFor();
    assert.equal(hub.fetches.length, 1);
    await drawer.getByRole('button', { name: `Resume download: ${ID}` }).click();
    await drawer.getByText('Ready', { exact: true }).waitFor({ timeout: ENGINE_MS });
    assert.match(hub.fetches[1]?.range ?? '', /^bytes=\d{8}-$/);
    await drawer.getByText('Downloaded, 98.4 MB').waitFor();
    await drawer.getByText('$0.50 per million tokens').waitFor();
    await drawer.getByText('512 tokens').waitFor();
  });

  test('responds in the playground', async () => {
    // Changes the page's request to make the completion the same on every machine.
    await page.route('**/v1/chat/completions', (route, request) =>
      route.continue({
        postData: JSON.stringify({
          ...(request.postDataJSON() as object),
          max_tokens: 4,
          logit_bias: ONE_WORD,
        }),
      }),
    );
    await drawer.getByRole('link', { name: 'Try in playground' }).click();
    await page.getByLabel('Message', { exact: true }).fill('Say hello.');
    const sending = page.waitForRequest('**/v1/chat/completions');
    await page.getByRole('button', { name: 'Send', exact: true }).click();
    assert.equal(((await sending).postDataJSON() as { model: string }).model, ID);
    const answer = page.getByRole('article', { name: 'Assistant' });
    await answer.getByText('4 tokens', { exact: true }).waitFor({ timeout: ENGINE_MS });
    await answer.getByText('the the the the').waitFor();
  });

  test('is removed with its file', async () => {
    await page.goto('/models');
    await openModel(page, ID);
    await drawer.getByRole('button', { name: 'Remove' }).click();
    const question = page.getByRole('alertdialog', { name: `Remove ${ID}?` });
    await question.getByText('Its downloaded file (98.4 MB) is deleted.').waitFor();
    await checkViews(page);
    await question.getByRole('button', { name: 'Remove model' }).click();
    await page.getByText(`${ID} was removed`).waitFor();
    await drawer.waitFor({ state: 'detached' });
    await rowOf(page, DEFAULT_MODEL_ID).waitFor();
    // The list is fetched again in the background.
    await rowOf(page, ID).waitFor({ state: 'detached' });
    const files = await readdir(join(stage.service.home, 'models'), { recursive: true });
    assert.deepEqual(
      files.filter((name) => name.includes('second')),
      [],
    );
  });
});

describe('models of a running service', WITH_BROWSER, () => {
  const REMOTE = 'acme/remote';
  let stage: Stage;
  let page: Page;
  before(async () => {
    const memory = 'engine: {maxMemoryBytes: 2500000000, minStayMs: 600000}\n';
    const yaml = scriptedYaml({}, `aliases:\n  gpt-4o-mini: ${MODEL}\n${memory}`);
    stage = await openStage(yaml.replace('    engine:', '    keep: true\n    engine:'));
    ({ page } = stage.operator);
    await page.goto('/models');
  });
  after(() => stage[Symbol.asyncDispose]());

  test('a model that needs too much memory is refused, and the page offers models to unload', async () => {
    const file = join(stage.service.home, 'large.gguf');
    await writeFile(file, buildGguf({ metadata: { ...TINY_METADATA, 'llama.block_count': 4_000_000_000 } }));
    const dialog = await openAdd(page, 'File or URL');
    await dialog.getByLabel('Source').fill(file);
    await dialog.getByRole('button', { name: 'Add model' }).click();
    const refusal = dialog.getByRole('alert').filter({ hasText: 'Not enough memory' });
    await refusal.getByText(/local\/large needs [\d,]+ MB of memory; [\d,]+ MB are available/).waitFor();
    await refusal.getByText(/Models of the catalog that fit now/).waitFor();
    await checkViews(page);
    await refusal.getByRole('button', { name: `Unload ${MODEL}` }).click();
    await page.getByText(`${MODEL} was unloaded`).waitFor();
    await refusal.waitFor({ state: 'detached' });
    await dialog.getByRole('button', { name: 'Cancel' }).click();
    await page.getByRole('alertdialog').getByRole('button', { name: 'Discard' }).click();
    await dialog.waitFor({ state: 'detached' });
  });

  test('an unloaded model is loaded again', async () => {
    await rowOf(page, MODEL).getByText('Not loaded').last().waitFor();
    await openModel(page, MODEL);
    const drawer = drawerOf(page, MODEL);
    await drawer.getByText('Requests for the model are refused.').waitFor();
    await drawer.getByRole('button', { name: `Load: ${MODEL}` }).click();
    await drawer.getByText('Ready').waitFor();
    await page.keyboard.press('Escape');
    await drawer.waitFor({ state: 'detached' });
  });

  test('a model of the configuration is read-only, but can be unloaded', async () => {
    await openModel(page, MODEL);
    const drawer = drawerOf(page, MODEL);
    await drawer.getByText('Defined in the configuration file').waitFor();
    await drawer.getByText('gpt-4o-mini').waitFor();
    for (const name of ['Edit', 'Remove', 'Make default'])
      assert.equal(await drawer.getByRole('button', { name }).count(), 0, name);
    await drawer.getByRole('button', { name: 'Unload' }).click();
    const question = page.getByRole('alertdialog', { name: `Unload ${MODEL}?` });
    await question.getByText('until you load it again or the service restarts').waitFor();
    await question.getByRole('button', { name: 'Cancel' }).click();
    await page.keyboard.press('Escape');
    await drawer.waitFor({ state: 'detached' });
  });

  test('a model whose definition is not valid offers only what removes it', async () => {
    const id = 'test/damaged';
    await using database = await openDatabase({ home: stage.service.home, url: null });
    const row = { id, node: '', definition: 'not JSON', loaded: 1, created_at: 1 };
    await database.kysely.insertInto('models').values(row).execute();
    await database.kysely
      .updateTable('settings')
      .set({ value: '7777' })
      .where('name', '=', MODELS_REVISION)
      .execute();
    await page.goto('/models');
    await rowOf(page, id).getByText('Down').last().waitFor();
    assert.equal(await page.getByRole('dialog').count(), 0);
    await page.getByRole('button', { name: `Actions for ${id}` }).click();
    await page.getByRole('menuitem', { name: 'Manage' }).waitFor();
    assert.deepEqual(await page.getByRole('menuitem').allInnerTexts(), ['Manage']);
    await page.getByRole('menuitem', { name: 'Manage' }).click();
    await drawerOf(page, id).getByRole('button', { name: 'Remove' }).click();
    await page.getByRole('alertdialog').getByRole('button', { name: 'Remove model' }).click();
    await page.getByText(`${id} was removed`).waitFor();
    await page.goto('/models');
  });

  test('the catalog shows which models fit, and another model can be chosen instead', async () => {
    const dialog = await openAdd(page, 'Catalog');
    await dialog.getByText(/of memory is available on the machine/).waitFor();
    await dialog.getByRole('searchbox').fill('qwen3-0.6b');
    const entry = dialog.getByRole('button', { name: /Qwen\/Qwen3-0\.6B/ });
    for (const fact of [
      '640 MB file',
      /^uses .* of memory$/,
      '40,960 tokens of context',
      'Q8_0',
      'Apache-2.0',
    ])
      await entry.getByText(fact).waitFor();
    await entry.click();
    await dialog.getByRole('button', { name: 'Download 640 MB' }).waitFor();
    await dialog.getByRole('button', { name: 'Choose another model' }).click();
    await dialog.getByRole('searchbox').fill('no such model');
    await dialog.getByText('No matching models').waitFor();
    await page.keyboard.press('Escape');
    await dialog.waitFor({ state: 'detached' });
  });

  test('a model on another server is added, and errors are shown at their fields', async () => {
    const dialog = await openAdd(page, 'Other server');
    await dialog.getByLabel('Model ID').fill(MODEL);
    await dialog.getByLabel('Base URL').fill('http://127.0.0.1:9');
    await dialog.getByLabel('Context length').fill('many');
    await dialog.getByRole('button', { name: 'Add model' }).click();
    await dialog.getByText('Enter a number of tokens, such as 4096.').waitFor();
    await dialog.getByLabel('Context length').fill('4,096');
    await dialog.getByRole('button', { name: 'Add model' }).click();
    await dialog.getByText(`The model \`${MODEL}\` already exists.`).waitFor();
    await dialog.getByLabel('Model ID').fill(REMOTE);
    await dialog.getByLabel('API key variable').fill('PATH');
    await dialog.getByRole('button', { name: 'Add model' }).click();
    await dialog.getByText(/must be the name of a variable that starts with SLUICE_REPLICA_/).waitFor();
    await dialog.getByLabel('API key variable').fill('');
    await dialog.getByRole('button', { name: 'Add model' }).click();
    await drawerOf(page, REMOTE).getByText('Its health check failed').waitFor();
  });

  test('replicas are added and removed, and link to the Operations page', async () => {
    const drawer = drawerOf(page, REMOTE);
    const replicas = drawer.getByRole('list', { name: 'Replicas' });
    await drawer.getByRole('button', { name: 'Add replica' }).click();
    await page.getByLabel('Base URL').fill('http://127.0.0.1:1');
    await checkViews(page);
    await page.getByRole('button', { name: 'Add replica' }).click();
    await replicas.getByText('http://127.0.0.1:1').waitFor();
    await drawer.getByRole('button', { name: 'Remove http://127.0.0.1:9' }).click();
    const question = page.getByRole('alertdialog', { name: `Remove this replica of ${REMOTE}?` });
    await question.getByRole('button', { name: 'Remove replica' }).click();
    await replicas.getByText('http://127.0.0.1:9').waitFor({ state: 'detached' });
    await replicas.getByRole('link', { name: 'http://127.0.0.1:1' }).click();
    await drawerOf(page, REMOTE).getByRole('button', { name: 'Drain' }).waitFor();
    await page.goBack();
  });

  test('the price and the context length of an added model are changed', async () => {
    const drawer = drawerOf(page, REMOTE);
    await drawer.getByRole('button', { name: 'Edit' }).click();
    const editing = page.getByRole('dialog', { name: `Edit ${REMOTE}` });
    await editing.waitFor();
    await page.goBack();
    await drawer.getByRole('button', { name: 'Edit' }).click();
    await editing.waitFor();
    assert.equal(await editing.getByLabel('Context length').inputValue(), '4096');
    await editing.getByLabel('Completion price').fill('1.25');
    await editing.getByLabel('Context length').fill('');
    await editing.getByLabel('Cached prompt price').fill('0.50');
    await editing.getByRole('button', { name: 'Save' }).click();
    await editing.getByText(/expected at most `prompt`, the price of other prompt tokens/).waitFor();
    await editing.getByLabel('Prompt price', { exact: true }).fill('0.75');
    await editing.getByRole('button', { name: 'Save' }).click();
    await drawer.getByText('$0.50 per million tokens').waitFor();
    await drawer.getByText('$1.25 per million tokens').waitFor();
    assert.equal(await drawer.getByText('4,096 tokens').count(), 0);
    await drawer.getByRole('button', { name: 'Edit' }).click();
    assert.equal(await editing.getByLabel('Cached prompt price').inputValue(), '0.5');
    await editing.getByLabel('Cached prompt price').fill('');
    await editing.getByRole('button', { name: 'Save' }).click();
    await drawer.getByText('$0.50 per million tokens').waitFor({ state: 'detached' });
    await drawer.getByText('$0.75 per million tokens').waitFor();
  });

  test('saving a model keeps what somebody else changed, and Escape asks before it drops changes', async () => {
    const drawer = drawerOf(page, REMOTE);
    await drawer.getByRole('button', { name: 'Edit' }).click();
    const editing = page.getByRole('dialog', { name: `Edit ${REMOTE}` });
    await editing.getByLabel('Context length').fill('2048');
    await page.evaluate(
      (model) =>
        fetch('/api/models/update', {
          method: 'POST',
          headers: { 'content-type': 'application/json' },
          body: JSON.stringify({ model, pricing: { prompt: '3', completion: '4', input_cache_read: null } }),
        }),
      REMOTE,
    );
    await page.keyboard.press('Escape');
    await page.getByRole('alertdialog').getByRole('button', { name: 'Cancel' }).click();
    await editing.getByRole('button', { name: 'Save' }).click();
    await drawer.getByText('2,048 tokens').waitFor();
    await drawer.getByText('$3.00 per million tokens').waitFor();
  });

  test('another model becomes the default, and is listed first', async () => {
    const drawer = drawerOf(page, REMOTE);
    await drawer.getByRole('button', { name: 'Make default' }).click();
    await page.getByText(`${REMOTE} is now the default model`).waitFor();
    await drawer.getByRole('button', { name: 'Make default' }).waitFor({ state: 'detached' });
    await page.keyboard.press('Escape');
    await drawer.waitFor({ state: 'detached' });
    const first = page.getByRole('table', { name: 'Models' }).getByRole('row').nth(1);
    await first.getByRole('button', { name: REMOTE, exact: true }).waitFor();
    await first.getByText('Default', { exact: true }).waitFor();
  });

  test('a model shows what it waits for, and can be kept in memory', async () => {
    const [first, second] = ['test/first', 'test/second'];
    for (const id of [first, second]) {
      const dialog = await openAdd(page, 'File or URL');
      await dialog.getByLabel('Source').fill('scripted:{"memoryBytes":1500000000}');
      await dialog.getByLabel('Model ID').fill(id);
      await dialog.getByRole('button', { name: 'Add model' }).click();
      await drawerOf(page, id).getByText('Until others need it').waitFor();
      if (id === second) break;
      await drawerOf(page, id).getByText('Ready', { exact: true }).waitFor();
      await page.keyboard.press('Escape');
      await drawerOf(page, id).waitFor({ state: 'detached' });
    }
    const drawer = drawerOf(page, second);
    await drawer.getByText(`Waiting for ${first}, which was loaded a moment ago.`).waitFor();
    await checkViews(page);
    await drawer.getByRole('button', { name: 'Edit' }).click();
    const editing = page.getByRole('dialog', { name: `Edit ${second}` });
    await editing.getByRole('checkbox', { name: /Keep in memory/ }).check();
    await editing.getByRole('button', { name: 'Save' }).click();
    await drawer.getByText('Always').waitFor();
  });

  test('a service without models offers to add one', async () => {
    await page.route('**/api/models', (route) => route.fulfill({ json: { data: [], next_cursor: null } }));
    await page.goto('/models');
    await page.getByText('Add a model from the catalog, a file or another server.').waitFor();
    await checkViews(page);
    await page.getByRole('button', { name: 'Add model' }).click();
    await page.getByRole('dialog', { name: 'Add model' }).waitFor();
    await page.unroute('**/api/models');
  });
});
