/** What holds of each page whatever it is for: no finding of axe, no breach of the policy, no scrolling sideways. */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { OpenedService } from '../harness.ts';
import {
  axe,
  openBrowser,
  sidewaysScroll,
  WITH_BROWSER,
  type TestBrowser,
  type View,
  type Visitor,
} from './browser.ts';
import { open, PAGES, type Looker } from './pages.ts';
import type { Lifelike } from './service.ts';

/** Between them every width and both schemes; a phone in the dark is what most is wrong with. */
const VIEWS: readonly Required<View>[] = [
  { width: 1440, scheme: 'light' },
  { width: 768, scheme: 'dark' },
  { width: 360, scheme: 'dark' },
];

/** What is looked at: the service, and the cookies of who looks. */
export interface Looked {
  service: OpenedService;
  cookies: Lifelike['cookies'];
}

/** Tests every page that this looker sees and whose name agrees. `open` makes what is looked at. */
export function testPages(
  what: string,
  { by, name = () => true }: { by: Looker; name?: (name: string) => boolean },
  make: (browser: TestBrowser, owned: AsyncDisposableStack) => Promise<Looked>,
): void {
  describe(what, WITH_BROWSER, () => {
    const owned = new AsyncDisposableStack();
    /** One for each view, who goes from page to page: the scripts of the console are loaded and compiled once. */
    const visitors = new Map<Required<View>, Visitor>();
    before(async () => {
      const browser = owned.use(await openBrowser());
      const { service, cookies } = await make(browser, owned);
      for (const view of VIEWS) {
        const visitor = owned.use(await browser.visit(service.url, view));
        await visitor.context.addCookies(cookies);
        visitors.set(view, visitor);
      }
    });
    after(() => owned.disposeAsync());

    for (const page of PAGES.filter((one) => one.by === by && name(one.name))) {
      test(`${page.name} keeps to its width and its policy, and axe finds nothing`, async () => {
        for (const [view, visitor] of visitors) {
          await open(visitor.page, page);
          const seen = `${view.width} px, ${view.scheme}`;
          assert.deepEqual(await axe(visitor.page), [], seen);
          assert.deepEqual(visitor.faults.splice(0), [], seen);
          assert.equal(await sidewaysScroll(visitor.page), 0, seen);
          assert.match(await visitor.page.title(), /Sluice/, seen);
        }
      });
    }
  });
}
