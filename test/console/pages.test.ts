/** Every page, including while the window is resized: no axe or Content-Security-Policy violations, no horizontal scrolling. */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { sql } from 'kysely';
import { openDatabase } from '../../src/database/database.ts';
import type { OpenedService } from '../harness.ts';
import {
  axe,
  AXE_VIEW_RULES,
  openBrowser,
  setView,
  sidewaysScroll,
  WITH_BROWSER,
  type TestBrowser,
  type Visitor,
} from './browser.ts';
import { follow, PAGES, type ConsolePage, type VisitorKind } from './pages.ts';
import { openConsole, openSeededService, setUp, type SeededService } from './service.ts';

/** One page of each layout, which phones show with other elements than a desktop. */
const LAYOUTS = [
  'sign-in',
  'overview',
  'spend',
  'keys',
  'keys-create',
  'requests-filters',
  'receipt',
  'playground-compare',
  'models',
  'operator-operations',
  'docs-operation',
  'command-menu',
];

/** Pages that show the names of accounts, keys, users and models outside of tables. */
const NAMING = ['overview', 'usage', 'spend', 'members', 'operator-account', 'settings'];

describe('pages of the console', WITH_BROWSER, () => {
  const owned = new AsyncDisposableStack();
  let browser: TestBrowser;
  let visitor: Visitor;
  before(async () => {
    browser = owned.use(await openBrowser());
  });
  after(() => owned.disposeAsync());

  describe('of a new service', () => {
    let service: OpenedService;
    before(async () => {
      service = owned.use(await openConsole());
      visitor = owned.use(await browser.visit(service.url));
    });
    testPages('signed-out');
    test('is set up', async () => {
      await visitor.page.goto('about:blank');
      await setUp(visitor.context, service);
    });
    testPages('new-operator');
  });

  describe('of a service with weeks of usage', () => {
    let service: SeededService;
    before(async () => {
      service = owned.use(await openSeededService(browser, 1500));
      visitor = owned.use(await browser.visit(service.url));
      await visitor.context.addCookies(service.cookies);
    });
    testPages('operator');

    describe('with the longest names', () => {
      before(async () => {
        await using database = await openDatabase({ home: service.home, url: null });
        const name = 'W'.repeat(100);
        for (const table of ['accounts', 'users', 'keys'] as const)
          await database.kysely.updateTable(table).set({ name }).execute();
        const model = `${'w'.repeat(99)}/${'w'.repeat(100)}`;
        for (const table of ['usage_days', 'latency_days'])
          await sql`update or ignore ${sql.table(table)} set model = ${model}`.execute(database.kysely);
        await visitor.page.goto('about:blank');
      });
      testPages('operator', NAMING);
    });
  });

  /** Tests every page of this visitor, or those with these names. */
  function testPages(by: VisitorKind, names = PAGES.map(({ name }) => name)): void {
    for (const page of PAGES.filter((one) => one.by === by && names.includes(one.name))) {
      test(`${page.name} has no horizontal scrolling, policy violations or axe violations`, () =>
        checkPage(visitor, page));
    }
  }
});

/** Opens the page on a desktop, and then makes the window smaller. */
async function checkPage({ page, faults }: Visitor, shown: ConsolePage): Promise<void> {
  await setView(page, { width: 1440, scheme: 'light' });
  await follow(page, shown);
  assert.deepEqual(await axe(page), [], 'on a desktop');
  assert.equal(await sidewaysScroll(page), 0, 'on a desktop');
  await setView(page, { width: 768, scheme: 'light' });
  assert.equal(await sidewaysScroll(page), 0, 'on a tablet');
  await setView(page, { width: 360, scheme: 'dark' });
  assert.deepEqual(
    await axe(page, LAYOUTS.includes(shown.name) ? undefined : AXE_VIEW_RULES),
    [],
    'on a phone',
  );
  assert.equal(await sidewaysScroll(page), 0, 'on a phone');
  assert.deepEqual(faults.splice(0), []);
  assert.match(await page.title(), /Sluice/);
}
