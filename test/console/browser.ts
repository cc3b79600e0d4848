/** A real Chromium for console tests: one per run, with a separate context (cookies, storage) per visitor. */
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { text } from 'node:stream/consumers';
import {
  chromium,
  type Browser,
  type BrowserContext,
  type BrowserContextOptions,
  type Download,
  type Page,
} from 'playwright-core';
import { until } from '../harness.ts';
import { findChromium, launchOptions } from './chromium.ts';
import { noon, shiftClock } from '../support/noon.ts';

/** Options that skip a test if there is no browser. */
export const WITH_BROWSER = {
  skip: findChromium() === undefined && 'Chromium is not on the PATH, and CHROMIUM_PATH is not set.',
};

/** The supported widths in CSS pixels: phone, tablet, desktop. */
export const WIDTHS = [360, 768, 1440] as const;

/** The window height of each width. */
const HEIGHTS: Readonly<Record<(typeof WIDTHS)[number], number>> = { 360: 740, 768: 1024, 1440: 900 };

export const SCHEMES = ['light', 'dark'] as const;

/** Window and color scheme of a visitor. */
export interface View {
  /** Default 1440. */
  width?: (typeof WIDTHS)[number];
  /** Default light. */
  scheme?: (typeof SCHEMES)[number];
}

/** A browser session and the errors on its pages. */
export interface Visitor extends AsyncDisposable {
  context: BrowserContext;
  page: Page;
  /** Content-Security-Policy violations, exceptions, and console errors. */
  faults: string[];
}

export interface TestBrowser extends AsyncDisposable {
  /** Opens a new session without cookies. Paths are relative to `baseURL`. `pixelRatio` is device pixels per CSS pixel. */
  visit(baseURL: string, view?: View, pixelRatio?: number): Promise<Visitor>;
}

/** Timeout of a browser step, in milliseconds. */
const STEP_MS = 60_000;

/** Opens the browser of the run. Rejects if there is none; see `WITH_BROWSER`. */
export async function openBrowser(): Promise<TestBrowser> {
  const browser = (await connect()) ?? (await chromium.launch(launchOptions()));
  return {
    visit: (baseURL, view = {}, pixelRatio = 1) => visit(browser, baseURL, view, pixelRatio),
    [Symbol.asyncDispose]: () => browser.close(),
  };
}

/** Connects to the browser that `test/run.ts` started; undefined: there is none, or it has ended. */
async function connect(): Promise<Browser | undefined> {
  const url = process.env.TEST_CHROMIUM_URL;
  return url ? await chromium.connect(url).catch(() => undefined) : undefined;
}

async function visit(browser: Browser, baseURL: string, view: View, pixelRatio: number): Promise<Visitor> {
  const { width = 1440, scheme = 'light' } = view;
  const options: BrowserContextOptions = {
    baseURL,
    viewport: { width, height: HEIGHTS[width] },
    deviceScaleFactor: pixelRatio,
    colorScheme: scheme,
    reducedMotion: 'reduce',
    locale: 'en-GB',
    timezoneId: 'Europe/Zurich',
    hasTouch: width === 360,
    // Scrollbars overlay the page on mobile devices.
    isMobile: width === 360,
  };
  const context = await browser.newContext(options);
  context.setDefaultTimeout(STEP_MS);
  await context.grantPermissions(['clipboard-read', 'clipboard-write']);
  const faults: string[] = [];
  await context.exposeBinding('sluicePolicyBroken', (_source, what: string) => faults.push(what));
  await context.addInitScript(REPORT_POLICY);
  if (noon.offsetMs !== 0) await context.addInitScript(shiftClock, noon.offsetMs);
  context.on('weberror', (error) => faults.push(String(error.error())));
  context.on('console', (message) => {
    // Chromium also logs error responses, which pages show themselves.
    if (message.type() === 'error' && !message.text().startsWith('Failed to load resource')) {
      faults.push(message.text());
    }
  });
  const page = await context.newPage();
  return { context, page, faults, [Symbol.asyncDispose]: () => context.close() };
}

/** Returns the content of a downloaded file. */
export async function textOf(download: Download | Promise<Download>): Promise<string> {
  // Not from its path, which a shared browser does not give.
  return await text(await (await download).createReadStream());
}

/** Removes the session of a visitor. Leaves the page first, because its running requests could set cookies again. */
export async function forgetSession({ context, page }: Visitor): Promise<void> {
  await page.goto('about:blank');
  await context.clearCookies();
}

/** Holds back the responses to changes by this method at this URL pattern, after the service has sent them. */
export async function holdResponse(
  page: Page,
  url: string,
  method = 'POST',
): Promise<{
  /** Resolves when the service has responded. */
  arrived: Promise<void>;
  /** Passes the response to the page. */
  release: () => Promise<void>;
}> {
  const arrived = Promise.withResolvers<void>();
  const released = Promise.withResolvers<void>();
  const passed = Promise.withResolvers<void>();
  await page.route(url, async (route) => {
    if (route.request().method() !== method) return route.continue();
    const response = await route.fetch();
    arrived.resolve();
    await released.promise;
    await route.fulfill({ response });
    passed.resolve();
  });
  return {
    arrived: arrived.promise,
    release: async () => {
      released.resolve();
      await passed.promise;
      await page.unroute(url);
    },
  };
}

/** Resizes the window and changes the color scheme of an open page. Resolves when the page has been drawn again. */
export async function setView(page: Page, { width, scheme }: Required<View>): Promise<void> {
  await page.setViewportSize({ width, height: HEIGHTS[width] });
  await page.emulateMedia({ colorScheme: scheme });
  await page.evaluate(DRAWN_AGAIN);
}

/** Waits two frames, because charts are drawn after a change, and repeats because transitions can start others. */
const DRAWN_AGAIN = `(async () => {
  const frame = () => new Promise((resolve) => requestAnimationFrame(resolve));
  const transitions = () => document.getAnimations().filter((animation) => animation instanceof CSSTransition);
  do {
    await frame();
    await frame();
    await Promise.allSettled(transitions().map(({ finished }) => finished));
  } while (transitions().length > 0);
})()`;

/** Runs in each page before its scripts. */
const REPORT_POLICY = `document.addEventListener('securitypolicyviolation', (event) => {
  sluicePolicyBroken(event.violatedDirective + ' refused ' + event.blockedURI + ' at ' + event.sourceFile + ':' + event.lineNumber);
});`;

/** A violation found by axe. */
interface AxeViolation {
  id: string;
  help: string;
  nodes: { html: string; failureSummary: string }[];
}

/** Best practices, and WCAG up to 2.2 AA. */
const AXE_RULES = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'];

/** The rules whose result depends on the color scheme and the width of the window, not only on the elements. */
export const AXE_VIEW_RULES = ['color-contrast', 'target-size'];

/** Number of rows of a table, and of elements of a list, that axe checks. */
const AXE_ROWS = 8;

/** axe prepares nothing but what is used: no list of what passes, and no style sheets, which only an experimental rule reads. */
const AXE_LIMITS = { resultTypes: ['violations'], preload: { assets: ['media'] } };

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

/**
 * Returns the violations of these rules that axe finds on the page, one per element. Hides the rows of long tables and
 * lists while axe runs, because they repeat the rows above them and take most of its time.
 */
export async function axe(page: Page, rules: readonly string[] = AXE_RULES): Promise<string[]> {
  // A menu or dialog that is being closed is outside the landmarks of the page.
  await until(() => page.evaluate<boolean>("document.querySelector('[data-ending-style]') === null"));
  if (await page.evaluate<boolean>('window.axe === undefined')) await page.evaluate(AXE);
  const violations = await page.evaluate<AxeViolation[]>(
    `(async () => {
      const rows = [...document.querySelectorAll(':is(tr, li):nth-child(n + ${AXE_ROWS + 1}):not([hidden])')];
      for (const row of rows) row.hidden = true;
      try {
        return (await axe.run(document, ${JSON.stringify({ ...AXE_LIMITS, runOnly: rules })})).violations;
      } finally {
        for (const row of rows) row.hidden = false;
      }
    })()`,
  );
  return violations.flatMap(({ id, help, nodes }) =>
    nodes.map(({ html, failureSummary }) => `${id}: ${help}\n  ${html}\n  ${failureSummary}`),
  );
}

/** Returns the horizontal overflow of the page in CSS pixels. */
export function sidewaysScroll(page: Page): Promise<number> {
  return page.evaluate<number>(
    'Math.max(0, document.documentElement.scrollWidth - document.documentElement.clientWidth)',
  );
}

/** Returns all that a page has stored in its browser, as JSON. */
export function storedText(page: Page): Promise<string> {
  return page.evaluate<string>(`(async () => {
    const resultOf = (request) =>
      new Promise((resolve, reject) => {
        request.onsuccess = () => resolve(request.result);
        request.onerror = () => reject(request.error);
      });
    const records = [];
    // Opening a database that does not exist would create it.
    for (const { name } of await indexedDB.databases()) {
      const database = await resultOf(indexedDB.open(name));
      for (const store of database.objectStoreNames)
        records.push(...await resultOf(database.transaction(store).objectStore(store).getAll()));
      database.close();
    }
    return JSON.stringify([{ ...localStorage }, { ...sessionStorage }, records]);
  })()`);
}
