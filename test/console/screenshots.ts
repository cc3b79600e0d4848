/**
 * Takes screenshots of every console page at three widths in both color schemes, with realistic data, into
 * `screenshots/`.
 *
 *   npm run screenshots -- --page keys --page usage --width 360 --scheme dark
 *
 * Reports pages that scroll horizontally, violate the Content-Security-Policy or throw, and with `--axe` axe violations.
 */
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import type { OpenedService } from '../harness.ts';
import { setupLink } from '../operator.ts';
import { keepBusy } from './busy.ts';
import { axe, openBrowser, SCHEMES, sidewaysScroll, WIDTHS, type View } from './browser.ts';
import { open, PAGES, type Looker } from './pages.ts';
import { openConsole, openLifelike, setUp, type Lifelike } from './service.ts';

const { values: options } = parseArgs({
  options: {
    page: { type: 'string', multiple: true },
    width: { type: 'string', multiple: true, default: WIDTHS.map(String) },
    scheme: { type: 'string', multiple: true, default: [...SCHEMES] },
    axe: { type: 'boolean', default: false },
    out: { type: 'string', default: join(import.meta.dirname, '..', '..', 'screenshots') },
  },
});
const pages = PAGES.filter(({ name }) => options.page?.some((given) => name.startsWith(given)) ?? true);
const views = SCHEMES.filter((scheme) => options.scheme.includes(scheme)).flatMap((scheme) =>
  WIDTHS.filter((width) => options.width.includes(String(width))).map((width): Required<View> => ({
    scheme,
    width,
  })),
);
if (pages.length === 0 || views.length === 0) {
  console.error(`No matching pages. Available: ${PAGES.map(({ name }) => name).join(', ')}.`);
  process.exit(1);
}

/** Timeout of a step, in milliseconds, so that a failing page does not delay the others. */
const STEP_MS = 10_000;

/** Excludes toasts, which are dialogs with a type. */
const DIALOG = '[role="alertdialog"], [role="dialog"]:not([data-type])';

await mkdir(options.out, { recursive: true });
await using browser = await openBrowser();
let failed = 0;
await attempt('nobody', async () => {
  await using fresh = await openConsole();
  await shoot('nobody', fresh, []);
});
await attempt('newcomer', async () => {
  await using fresh = await openConsole();
  await using newcomer = await browser.visit(fresh.url);
  await setUp(newcomer.context, fresh);
  await shoot('newcomer', fresh, await newcomer.context.cookies());
});
await attempt('operator', async () => {
  await using lifelike = await openLifelike(browser);
  await using _busy = await keepBusy(lifelike);
  await shoot('operator', lifelike, lifelike.cookies);
});
console.log(`${options.out}: ${pages.length} pages, ${views.length} views`);
process.exitCode = failed > 0 ? 1 : 0;

/** Runs the screenshots of one visitor. A failure does not stop the others. */
async function attempt(looker: Looker, look: () => Promise<void>): Promise<void> {
  if (!pages.some(({ by }) => by === looker)) return;
  try {
    await look();
  } catch (error) {
    failed++;
    console.error(`Failed as ${looker}:`, error);
  }
}

/** Takes the screenshots of one visitor, with these cookies. */
async function shoot(looker: Looker, service: OpenedService, cookies: Lifelike['cookies']): Promise<void> {
  const theirs = pages.filter(({ by }) => by === looker);
  for (const view of views) {
    await using visitor = await browser.visit(service.url, view);
    await visitor.context.addCookies(cookies);
    visitor.context.setDefaultTimeout(STEP_MS);
    for (const page of theirs) {
      visitor.faults.length = 0;
      const began = performance.now();
      const name = `${page.name}-${view.width}-${view.scheme}`;
      const notes = [];
      try {
        const path = page.name === 'setup' ? `/setup${new URL(await setupLink(service)).hash}` : page.path;
        await open(visitor.page, { ...page, path });
      } catch (error) {
        failed++;
        notes.push(firstLine(error));
      }
      const sideways = await sidewaysScroll(visitor.page);
      if (sideways > 0) notes.push(`scrolls ${sideways} px horizontally`);
      // With an open dialog, only the window is captured.
      const isOpen = (await visitor.page.locator(DIALOG).count()) > 0;
      await visitor.page.screenshot({ path: join(options.out, `${name}.png`), fullPage: !isOpen });
      if (options.axe) notes.push(...(await axe(visitor.page)));
      const took = ((performance.now() - began) / 1000).toFixed(1);
      console.log([`${name} ${took} s`, ...notes, ...visitor.faults.map(firstLine)].join('\n    '));
    }
  }
}

function firstLine(error: unknown): string {
  return String(error).split('\n', 1)[0] ?? '';
}
