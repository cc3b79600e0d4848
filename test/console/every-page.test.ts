/** What holds of each page whatever it is for: no finding of axe, no breach of the policy, no scrolling sideways. */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { OpenedService } from '../harness.ts';
import { axe, openBrowser, sidewaysScroll, WITH_BROWSER, type TestBrowser, type View } from './browser.ts';
import { open, PAGES, type Looker } from './pages.ts';
import { openConsole, openLifelike, setUp, type Lifelike } from './service.ts';

/** Between them every width and both schemes; a phone in the dark is what most is wrong with. */
const VIEWS: readonly Required<View>[] = [
  { width: 1440, scheme: 'light' },
  { width: 768, scheme: 'dark' },
  { width: 360, scheme: 'dark' },
  { width: 360, scheme: 'light' },
];

describe('every page', WITH_BROWSER, () => {
  let browser: TestBrowser;
  const owned = new AsyncDisposableStack();
  const seen = new Map<Looker, { service: OpenedService; cookies: Lifelike['cookies'] }>();
  before(async () => {
    browser = owned.use(await openBrowser());
    seen.set('nobody', { service: owned.use(await openConsole()), cookies: [] });
    const fresh = owned.use(await openConsole());
    await using newcomer = await browser.visit(fresh.url);
    await setUp(newcomer.context, fresh);
    seen.set('newcomer', { service: fresh, cookies: await newcomer.context.cookies() });
    const lifelike = owned.use(await openLifelike(browser, 3000));
    seen.set('operator', { service: lifelike, cookies: lifelike.cookies });
  });
  after(() => owned.disposeAsync());

  for (const page of PAGES) {
    test(page.name, async () => {
      const looker = seen.get(page.by);
      assert.ok(looker);
      for (const view of VIEWS) {
        await using visitor = await browser.visit(looker.service.url, view);
        await visitor.context.addCookies(looker.cookies);
        await open(visitor.page, page);
        const what = `${page.name} at ${view.width} px, ${view.scheme}`;
        assert.deepEqual(await axe(visitor.page), [], what);
        assert.deepEqual(visitor.faults, [], what);
        assert.equal(await sidewaysScroll(visitor.page), 0, what);
        assert.match(await visitor.page.title(), /Sluice/, what);
      }
    });
  }
});
