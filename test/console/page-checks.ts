/** Checks of every page: no axe violations, no Content-Security-Policy violations, no horizontal scrolling. */
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
import { open, PAGES, type VisitorKind } from './pages.ts';
import type { SeededService } from './service.ts';

/** Covers every width and both color schemes. Phones in the dark scheme have the most problems. */
const VIEWS: readonly Required<View>[] = [
  { width: 1440, scheme: 'light' },
  { width: 768, scheme: 'dark' },
  { width: 360, scheme: 'dark' },
];

/** The service under test, and the cookies of the visitor. */
export interface Target {
  service: OpenedService;
  cookies: SeededService['cookies'];
}

/** Tests every page of this visitor whose name matches. */
export function testPages(
  title: string,
  { by, name = () => true }: { by: VisitorKind; name?: (name: string) => boolean },
  openTarget: (browser: TestBrowser, owned: AsyncDisposableStack) => Promise<Target>,
): void {
  describe(title, WITH_BROWSER, () => {
    const owned = new AsyncDisposableStack();
    /** One visitor per view for all pages, so that the scripts are loaded and compiled once. */
    const visitors = new Map<Required<View>, Visitor>();
    before(async () => {
      const browser = owned.use(await openBrowser());
      const { service, cookies } = await openTarget(browser, owned);
      for (const view of VIEWS) {
        const visitor = owned.use(await browser.visit(service.url, view));
        await visitor.context.addCookies(cookies);
        visitors.set(view, visitor);
      }
    });
    after(() => owned.disposeAsync());

    for (const page of PAGES.filter((one) => one.by === by && name(one.name))) {
      test(`${page.name} has no horizontal scrolling, policy violations or axe violations`, async () => {
        for (const [view, visitor] of visitors) {
          await open(visitor.page, page);
          const message = `${view.width} px, ${view.scheme}`;
          assert.deepEqual(await axe(visitor.page), [], message);
          assert.deepEqual(visitor.faults.splice(0), [], message);
          assert.equal(await sidewaysScroll(visitor.page), 0, message);
          assert.match(await visitor.page.title(), /Sluice/, message);
        }
      });
    }
  });
}
