/** Every page, including while the window is resized: no axe or Content-Security-Policy violations, no horizontal scrolling. */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { sql } from 'kysely';
import { openDatabase } from '../../src/database/database.ts';
import type { OpenedService } from '../harness.ts';
import {
  axe,
  openBrowser,
  setView,
  sidewaysScroll,
  WITH_BROWSER,
  type TestBrowser,
  type View,
  type Visitor,
} from './browser.ts';
import { open, PAGES, type VisitorKind } from './pages.ts';
import { openConsole, openSeededService, setUp, type SeededService } from './service.ts';

/** Each page is opened in the first view, and the window is then resized to the next ones. */
const VIEWS: readonly (Required<View> & { axe: boolean })[] = [
  { width: 1440, scheme: 'light', axe: true },
  // Not checked with axe: the elements are those of the phone view, in the colors of the desktop view.
  { width: 768, scheme: 'light', axe: false },
  { width: 360, scheme: 'dark', axe: true },
];

/** The service under test, and the cookies of the visitor. */
interface Target {
  service: OpenedService;
  cookies: SeededService['cookies'];
}

testPages('pages without a session', 'signed-out', async (_browser, owned) => ({
  service: owned.use(await openConsole()),
  cookies: [],
}));

testPages('pages of a new service', 'new-operator', async (browser, owned) => {
  const service = owned.use(await openConsole());
  await using visitor = await browser.visit(service.url);
  await setUp(visitor.context, service);
  return { service, cookies: await visitor.context.cookies() };
});

testPages('pages of an operator', 'operator', async (browser, owned) => {
  const service = owned.use(await openSeededService(browser, 3000));
  return { service, cookies: service.cookies };
});

/** Pages that show the names of accounts, keys, users and models outside of tables. */
const NAMING = ['overview', 'usage', 'members', 'operator-account', 'settings'];

testPages(
  'pages with the longest names',
  'operator',
  async (browser, owned) => {
    const service = owned.use(await openSeededService(browser, 500));
    await using database = await openDatabase({ home: service.home, url: null });
    const name = 'W'.repeat(100);
    for (const table of ['accounts', 'users', 'keys'] as const)
      await database.kysely.updateTable(table).set({ name }).execute();
    const model = `${'w'.repeat(99)}/${'w'.repeat(100)}`;
    for (const table of ['usage_days', 'latency_days'])
      await sql`update or ignore ${sql.table(table)} set model = ${model}`.execute(database.kysely);
    return { service, cookies: service.cookies };
  },
  NAMING,
);

/** Tests every page of this visitor, or those with these names. */
function testPages(
  title: string,
  by: VisitorKind,
  openTarget: (browser: TestBrowser, owned: AsyncDisposableStack) => Promise<Target>,
  names = PAGES.map(({ name }) => name),
): void {
  describe(title, WITH_BROWSER, () => {
    const owned = new AsyncDisposableStack();
    let visitor: Visitor;
    before(async () => {
      const browser = owned.use(await openBrowser());
      const { service, cookies } = await openTarget(browser, owned);
      visitor = owned.use(await browser.visit(service.url));
      await visitor.context.addCookies(cookies);
    });
    after(() => owned.disposeAsync());

    for (const page of PAGES.filter((one) => one.by === by && names.includes(one.name))) {
      test(`${page.name} has no horizontal scrolling, policy violations or axe violations`, async () => {
        for (const [index, view] of VIEWS.entries()) {
          await setView(visitor.page, view);
          if (index === 0) await open(visitor.page, page);
          const message = `${view.width} px, ${view.scheme}`;
          if (view.axe) assert.deepEqual(await axe(visitor.page), [], message);
          assert.equal(await sidewaysScroll(visitor.page), 0, message);
        }
        assert.deepEqual(visitor.faults.splice(0), []);
        assert.match(await visitor.page.title(), /Sluice/);
      });
    }
  });
}
