/** Download size of the first page. */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { OpenedService } from '../harness.ts';
import { openBrowser, WITH_BROWSER, type TestBrowser } from './browser.ts';
import { open } from './pages.ts';
import { openConsole, setUp } from './service.ts';

/** Maximum compressed size of scripts and styles, in bytes. */
const MOST = 200_000;

describe('the first page', WITH_BROWSER, () => {
  let browser: TestBrowser;
  let service: OpenedService;
  before(async () => {
    browser = await openBrowser();
    service = await openConsole();
  });
  after(async () => {
    await service[Symbol.asyncDispose]();
    await browser[Symbol.asyncDispose]();
  });

  test('loads at most 200 KB of compressed scripts and styles', async () => {
    await using first = await browser.visit(service.url);
    await setUp(first.context, service);
    for (const path of ['/sign-in', '/', '/keys']) {
      await using visitor = await browser.visit(service.url);
      if (path !== '/sign-in') await visitor.context.addCookies(await first.context.cookies());
      const sizes: Promise<[path: string, bytes: number]>[] = [];
      visitor.page.on('requestfinished', (request) => {
        const { pathname } = new URL(request.url());
        if (!['script', 'stylesheet'].includes(request.resourceType())) return;
        sizes.push(request.sizes().then(({ responseBodySize }) => [pathname, responseBodySize]));
      });
      await open(visitor.page, { path });
      const all = await Promise.all(sizes);
      const total = all.reduce((sum, [, bytes]) => sum + bytes, 0);
      assert.ok(total > 50_000, `too little was loaded: ${total} bytes`);
      assert.ok(total <= MOST, `${path}: ${total} bytes: ${JSON.stringify(all)}`);
    }
  });

  test('assets are compressed and cached forever; the page itself is revalidated', async () => {
    const page = await fetch(service.url, { headers: { accept: 'text/html', 'accept-encoding': 'br' } });
    assert.equal(page.headers.get('cache-control'), 'no-cache');
    const script = /src="(\/assets\/[^"]+\.js)"/.exec(await page.text())?.[1];
    assert.ok(script);
    for (const encoding of ['br', 'gzip']) {
      const response = await fetch(service.url + script, { headers: { 'accept-encoding': encoding } });
      assert.equal(response.headers.get('content-encoding'), encoding);
      assert.equal(response.headers.get('cache-control'), 'public, max-age=31536000, immutable');
      assert.match(response.headers.get('vary') ?? '', /accept-encoding/i);
      await response.body?.cancel();
    }
  });
});
