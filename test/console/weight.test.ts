/** What a browser has to fetch before the first page can be used. */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { OpenedService } from '../harness.ts';
import { openBrowser, WITH_BROWSER, type TestBrowser } from './browser.ts';
import { open } from './pages.ts';
import { openConsole, setUp } from './service.ts';

/** The most that script and style of the first page may be, compressed, in bytes. */
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

  test('is at most 200 KB of script and style, compressed, with an empty cache', async () => {
    await using first = await browser.visit(service.url);
    await setUp(first.context, service);
    for (const path of ['/sign-in', '/keys']) {
      await using visitor = await browser.visit(service.url);
      if (path === '/keys') await visitor.context.addCookies(await first.context.cookies());
      const sizes: Promise<[path: string, bytes: number]>[] = [];
      visitor.page.on('requestfinished', (request) => {
        const { pathname } = new URL(request.url());
        if (!['script', 'stylesheet'].includes(request.resourceType())) return;
        sizes.push(request.sizes().then(({ responseBodySize }) => [pathname, responseBodySize]));
      });
      await open(visitor.page, { path });
      const all = await Promise.all(sizes);
      const total = all.reduce((sum, [, bytes]) => sum + bytes, 0);
      assert.ok(total > 50_000, `something was fetched: ${total}`);
      assert.ok(total <= MOST, `${path}: ${total} bytes: ${JSON.stringify(all)}`);
    }
  });

  test('comes compressed, once and for all, and the page itself is asked for anew', async () => {
    const page = await fetch(service.url, { headers: { accept: 'text/html', 'accept-encoding': 'br' } });
    assert.equal(page.headers.get('cache-control'), 'no-cache');
    const script = /src="(\/assets\/[^"]+\.js)"/.exec(await page.text())?.[1];
    assert.ok(script);
    for (const encoding of ['br', 'gzip']) {
      const answer = await fetch(service.url + script, { headers: { 'accept-encoding': encoding } });
      assert.equal(answer.headers.get('content-encoding'), encoding);
      assert.equal(answer.headers.get('cache-control'), 'public, max-age=31536000, immutable');
      assert.match(answer.headers.get('vary') ?? '', /accept-encoding/i);
      await answer.body?.cancel();
    }
  });
});
