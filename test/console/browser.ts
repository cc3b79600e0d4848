/**
 * A real Chromium for the console: one a test file, with a context of its own (cookies, storage) for each visitor.
 */
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import {
  chromium,
  type Browser,
  type BrowserContext,
  type BrowserContextOptions,
  type Page,
} from 'playwright-core';
import { findChromium } from './chromium.ts';

/** For tests that need a browser: why they cannot run here. */
export const WITH_BROWSER = {
  skip: findChromium() === undefined && 'There is no Chromium on the PATH, and CHROMIUM_PATH names none.',
};

/** The widths that every page is made for, in CSS pixels: a phone, a tablet, a desk. */
export const WIDTHS = [360, 768, 1440] as const;

/** The heights that go with them. */
const HEIGHTS: Readonly<Record<(typeof WIDTHS)[number], number>> = { 360: 740, 768: 1024, 1440: 900 };

export const SCHEMES = ['light', 'dark'] as const;

/** How a visitor looks at the console. */
export interface View {
  /** 1440 unless said otherwise. */
  width?: (typeof WIDTHS)[number];
  /** Light unless said otherwise. */
  scheme?: (typeof SCHEMES)[number];
}

/** Somebody at the console, and what went wrong on their pages. */
export interface Visitor extends AsyncDisposable {
  context: BrowserContext;
  page: Page;
  /** What no page may have: breaches of its policy, exceptions, and errors that a script wrote to the console. */
  faults: string[];
}

export interface TestBrowser extends AsyncDisposable {
  /** A visitor whom the service does not know yet. Paths are relative to `baseURL`. */
  visit(baseURL: string, view?: View): Promise<Visitor>;
}

/** How long a step in the browser may take before the test fails and says so, in milliseconds. */
const STEP_MS = 60_000;

/** Starts a browser. Rejects where there is none: see `WITH_BROWSER`. */
export async function openBrowser(): Promise<TestBrowser> {
  const browser = await chromium.launch({
    executablePath: findChromium(),
    // As root, and in containers with little shared memory, Chromium starts in no other way.
    args: ['--no-sandbox', '--disable-dev-shm-usage', '--font-render-hinting=none'],
  });
  return {
    visit: (baseURL, view = {}) => visit(browser, baseURL, view),
    [Symbol.asyncDispose]: () => browser.close(),
  };
}

async function visit(browser: Browser, baseURL: string, view: View): Promise<Visitor> {
  const { width = 1440, scheme = 'light' } = view;
  const options: BrowserContextOptions = {
    baseURL,
    viewport: { width, height: HEIGHTS[width] },
    colorScheme: scheme,
    reducedMotion: 'reduce',
    locale: 'en-GB',
    timezoneId: 'Europe/Zurich',
    hasTouch: width === 360,
    // Scroll bars lie above the page there.
    isMobile: width === 360,
  };
  const context = await browser.newContext(options);
  context.setDefaultTimeout(STEP_MS);
  await context.grantPermissions(['clipboard-read', 'clipboard-write']);
  const faults: string[] = [];
  await context.exposeBinding('sluicePolicyBroken', (_source, what: string) => faults.push(what));
  await context.addInitScript(REPORT_POLICY);
  context.on('weberror', (error) => faults.push(String(error.error())));
  context.on('console', (message) => {
    // A status that is no success is for the page to tell; Chromium writes each of them here as well.
    if (message.type() === 'error' && !message.text().startsWith('Failed to load resource')) {
      faults.push(message.text());
    }
  });
  const page = await context.newPage();
  return { context, page, faults, [Symbol.asyncDispose]: () => context.close() };
}

/** Runs in each page before its own scripts. */
const REPORT_POLICY = `document.addEventListener('securitypolicyviolation', (event) => {
  sluicePolicyBroken(event.violatedDirective + ' refused ' + event.blockedURI + ' at ' + event.sourceFile + ':' + event.lineNumber);
});`;

/** A finding of axe on a page. */
interface Finding {
  id: string;
  help: string;
  nodes: { html: string; failureSummary: string }[];
}

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

/** What axe finds on the page as it stands, best practices and WCAG up to 2.2 AA; each with the elements it is about. */
export async function axe(page: Page): Promise<string[]> {
  await page.evaluate(AXE);
  const findings = await page.evaluate<Finding[]>(
    `axe.run(document, { runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'] })
       .then(({ violations }) => violations)`,
  );
  return findings.flatMap(({ id, help, nodes }) =>
    nodes.map(({ html, failureSummary }) => `${id}: ${help}\n  ${html}\n  ${failureSummary}`),
  );
}

/** By how many CSS pixels the page is wider than its window: 0 where nothing scrolls sideways. */
export function sidewaysScroll(page: Page): Promise<number> {
  return page.evaluate<number>(
    'Math.max(0, document.documentElement.scrollWidth - document.documentElement.clientWidth)',
  );
}
