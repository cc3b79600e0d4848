/** Images in the playground: chosen, pasted and dropped, on a narrow window, and for models without images. */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { Page } from 'playwright-core';
import { HttpReplica, respondHello } from '../replicas/replicas.ts';
import { MODEL, until } from '../harness.ts';
import { PIXEL, png } from '../images/samples.ts';
import { axe, setView, sidewaysScroll, WITH_BROWSER } from './browser.ts';
import { openStage, type Stage } from './stage.ts';

const VISION = 'acme/vision';
const [, DATA = ''] = PIXEL.split(',');
const FILE = { name: 'dot.png', mimeType: 'image/png', buffer: png() };

describe('images in the playground', WITH_BROWSER, () => {
  let vllm: HttpReplica;
  let stage: Stage;
  let page: Page;
  before(async () => {
    const models = { data: [{ id: VISION, max_model_len: 8192 }] };
    vllm = await HttpReplica.listen((response, request, body): unknown =>
      request.method === 'POST'
        ? respondHello(response, request, body)
        : response.end(JSON.stringify(request.url === '/v1/models' ? models : {})),
    );
    const replicas = [{ url: vllm.url, dialect: 'vllm' }];
    stage = await openStage(
      JSON.stringify({
        models: [
          { id: MODEL, engine: { file: 'scripted:{}' } },
          { id: VISION, replicas, images: {} },
        ],
      }),
    );
    ({ page } = stage.operator);
    const states = () => stage.service.service.router.cards().length;
    await until(() => states() === 2);
    await page.goto(`/playground?model=${encodeURIComponent(VISION)}`);
  });
  after(async () => {
    await stage[Symbol.asyncDispose]();
    await vllm[Symbol.asyncDispose]();
  });

  const message = () => page.getByLabel('Message', { exact: true });
  const images = () => page.getByRole('list', { name: 'Images' });
  const choose = () => page.locator('input[type=file]');

  /** Pastes or drops a file on the message, as the browser does. */
  async function give(
    type: 'paste' | 'drop',
    mimeType = 'image/png',
    texts: Record<string, string> = {},
  ): Promise<void> {
    await page.evaluate(`{
      const bytes = Uint8Array.from(atob(${JSON.stringify(DATA)}), (character) => character.charCodeAt(0));
      const transfer = new DataTransfer();
      transfer.items.add(new File([bytes], 'given.png', { type: ${JSON.stringify(mimeType)} }));
      for (const [type, text] of Object.entries(${JSON.stringify(texts)})) transfer.setData(type, text);
      const options = { bubbles: true, cancelable: true };
      document.querySelector('textarea[aria-label="Message"]').dispatchEvent(
        ${JSON.stringify(type)} === 'paste'
          ? new ClipboardEvent('paste', { ...options, clipboardData: transfer })
          : new DragEvent('drop', { ...options, dataTransfer: transfer }),
      );
    }`);
  }

  test('chosen, pasted and dropped images are shown, can be removed, and are sent with the text', async () => {
    await choose().setInputFiles(FILE);
    await images().getByRole('img', { name: 'Attachment 1' }).waitFor();
    await give('paste');
    await images().getByRole('img', { name: 'Attachment 2' }).waitFor();
    await give('drop');
    await images().getByRole('button', { name: 'Remove image 3' }).click();
    await images().getByRole('img', { name: 'Attachment 3' }).waitFor({ state: 'detached' });
    await message().fill('What is this?');
    await message().press('Enter');
    await page.getByRole('article', { name: 'Assistant' }).getByText('hé 東京').waitFor();
    const part = { type: 'image_url', image_url: { url: PIXEL } };
    assert.deepEqual(vllm.bodies.at(-1)?.['messages'], [
      { role: 'user', content: [part, part, { type: 'text', text: 'What is this?' }] },
    ]);
  });

  test('a copied file comes with its name, and formatted text with a picture of it', async () => {
    await give('paste', 'image/png', { 'text/plain': 'a', 'text/html': '<b>a</b>' });
    await give('paste', 'image/png', { 'text/plain': 'given.png' });
    await images().getByRole('button', { name: 'Remove image 1' }).click();
    assert.equal(await images().getByRole('img', { name: 'Attachment' }).count(), 2);
  });

  test('sent images survive a reload', async () => {
    await page.reload();
    await page.getByRole('article', { name: 'User' }).getByRole('img', { name: 'Attachment 2' }).waitFor();
  });

  test('large images are stored once they are sent, and the page says so', async () => {
    const notice = page.getByText('The images are too large to be stored');
    await choose().setInputFiles({ ...FILE, buffer: png(1, 1, [1, 1], 6_000_000) });
    await notice.waitFor();
    await message().press('Enter');
    await notice.waitFor({ state: 'detached' });
    await page.reload();
    const sent = page.getByRole('article', { name: 'User' }).last();
    const source = await sent.getByRole('img', { name: 'Attachment 1' }).getAttribute('src');
    assert.ok((source ?? '').length > 8_000_000);
  });

  test('images that a tab cannot keep come back from the stored conversation', async () => {
    // Later messages stay in the tab.
    await page.evaluate(`IDBObjectStore.prototype.put = () => {
      throw new DOMException('full', 'QuotaExceededError');
    };`);
    await message().fill('And now?');
    await message().press('Enter');
    await page.getByText('The images are too large to be stored').waitFor();
    page.once('dialog', (dialog) => void dialog.accept());
    await page.reload();
    const users = page.getByRole('article', { name: 'User' });
    await users.last().getByText('And now?').waitFor();
    const source = await users.nth(-2).getByRole('img', { name: 'Attachment 1' }).getAttribute('src');
    assert.ok((source ?? '').length > 8_000_000);
  });

  test('images fit a narrow window, and have no accessibility violations', async () => {
    await choose().setInputFiles([FILE, FILE, FILE, FILE, FILE]);
    await images().getByRole('img', { name: 'Attachment 5' }).waitFor();
    await setView(page, { width: 360, scheme: 'light' });
    assert.equal(await sidewaysScroll(page), 0);
    assert.deepEqual(await axe(page), []);
    await setView(page, { width: 1440, scheme: 'light' });
  });

  test('a file that is no image is refused with the formats that are', async () => {
    await give('paste', 'image/tiff');
    await page.getByText('given.png is not a PNG, JPEG, GIF or WebP image.').first().waitFor();
  });

  test('a model that takes only text gets no images, and the page says why', async () => {
    await page.goto(`/playground?model=${encodeURIComponent(MODEL)}`);
    await message().waitFor();
    await give('paste');
    await page.getByText(`${MODEL} takes only text. Select a model that takes images.`).first().waitFor();
    assert.ok(await page.getByRole('button', { name: 'Images are for messages of the user' }).isDisabled());
  });
});
