/**
 * Takes screenshots of every console page at three widths in both color schemes, with realistic data, into
 * `screenshots/`. The width `resized` opens the page at 1440 pixels and then narrows the window to 768.
 *
 *   npm run screenshots -- --page keys --page usage --width 360 --width resized --scheme dark
 *
 * Reports pages that scroll horizontally, violate the Content-Security-Policy or throw, and with `--axe` axe violations.
 */
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import type { OpenedService } from '../harness.ts';
import { setupLink } from '../operator.ts';
import { axe, openBrowser, SCHEMES, setView, sidewaysScroll, WIDTHS, type View } from './browser.ts';
import { open, PAGES, type VisitorKind } from './pages.ts';
import { openConsole, openSeededService, setUp, type SeededService } from './service.ts';

const { values: options } = parseArgs({
  options: {
    page: { type: 'string', multiple: true },
    width: { type: 'string', multiple: true, default: [...WIDTHS.map(String), 'resized'] },
    scheme: { type: 'string', multiple: true, default: [...SCHEMES] },
    axe: { type: 'boolean', default: false },
    out: { type: 'string', default: join(import.meta.dirname, '..', '..', 'screenshots') },
  },
});
const pages = PAGES.filter(({ name }) => options.page?.some((given) => name.startsWith(given)) ?? true);
/** The window when the page is opened, and when the screenshot is taken. */
interface Shot {
  name: string;
  opened: Required<View>;
  taken: Required<View>;
}

const shots = SCHEMES.filter((scheme) => options.scheme.includes(scheme)).flatMap((scheme) => [
  ...WIDTHS.filter((width) => options.width.includes(String(width))).map((width): Shot => {
    const view = { width, scheme };
    return { name: `${width}-${scheme}`, opened: view, taken: view };
  }),
  ...(options.width.includes('resized') ? [resized(scheme)] : []),
]);
if (pages.length === 0 || shots.length === 0) {
  console.error(`No matching pages. Available: ${PAGES.map(({ name }) => name).join(', ')}.`);
  process.exit(1);
}

/** Timeout of a step, in milliseconds. Long, because the machine may be busy. */
const STEP_MS = 120_000;

/** Excludes toasts, which are dialogs with a type. */
const DIALOG = '[role="alertdialog"], [role="dialog"]:not([data-type])';

/** Number of concurrent streams that keep models busy, and maximum tokens of each response. */
const STREAMS = 5;
const MAX_TOKENS = 400;

await mkdir(options.out, { recursive: true });
await using browser = await openBrowser();
let failed = 0;
await attempt('signed-out', async () => {
  await using service = await openConsole();
  await takeScreenshots('signed-out', service, []);
});
await attempt('new-operator', async () => {
  await using service = await openConsole();
  await using operator = await browser.visit(service.url);
  await setUp(operator.context, service);
  await takeScreenshots('new-operator', service, await operator.context.cookies());
});
await attempt('operator', async () => {
  await using service = await openSeededService(browser);
  await using _busy = await keepBusy(service);
  await takeScreenshots('operator', service, service.cookies);
});
console.log(`${options.out}: ${pages.length} pages, ${shots.length} views`);
process.exitCode = failed > 0 ? 1 : 0;

function resized(scheme: Required<View>['scheme']): Shot {
  return {
    name: `resized-${scheme}`,
    opened: { width: 1440, scheme },
    taken: { width: 768, scheme },
  };
}

/** Runs the screenshots of one visitor. A failure does not stop the others. */
async function attempt(visitor: VisitorKind, run: () => Promise<void>): Promise<void> {
  if (!pages.some(({ by }) => by === visitor)) return;
  try {
    await run();
  } catch (error) {
    failed++;
    console.error(`Failed as ${visitor}:`, error);
  }
}

/** Takes the screenshots of one visitor, with these cookies. */
async function takeScreenshots(
  kind: VisitorKind,
  service: OpenedService,
  cookies: SeededService['cookies'],
): Promise<void> {
  const visited = pages.filter(({ by }) => by === kind);
  for (const shot of shots) {
    await using visitor = await browser.visit(service.url, shot.opened);
    await visitor.context.addCookies(cookies);
    visitor.context.setDefaultTimeout(STEP_MS);
    for (const page of visited) {
      visitor.faults.length = 0;
      const startedAt = performance.now();
      const name = `${page.name}-${shot.name}`;
      const notes = [];
      try {
        const path = page.name === 'setup' ? `/setup${new URL(await setupLink(service)).hash}` : page.path;
        if (shot.opened !== shot.taken) await setView(visitor.page, shot.opened);
        await open(visitor.page, { ...page, path });
        if (shot.opened !== shot.taken) await setView(visitor.page, shot.taken);
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
      const seconds = ((performance.now() - startedAt) / 1000).toFixed(1);
      console.log([`${name} ${seconds} s`, ...notes, ...visitor.faults.map(firstLine)].join('\n    '));
    }
  }
}

/** Keeps ready models busy with a few streams, for live pages, until disposed. */
async function keepBusy({ service, url }: OpenedService): Promise<AsyncDisposable> {
  const { key } = await service.keys.create({ name: 'status-page' });
  const stop = new AbortController();
  // A loading model refuses requests immediately, so a stream to it would retry forever. Embedding models refuse chats.
  const models = service.router
    .overview()
    .filter(({ replicas }) => replicas.some(({ state }) => state.state === 'ready'))
    .map(({ id }) => id)
    .filter((id) => !service.router.model(id).card()?.architecture.modality.endsWith('embedding'));
  const streams = Array.from({ length: STREAMS }, async (_, stream) => {
    while (!stop.signal.aborted) {
      const response = await fetch(`${url}/v1/chat/completions`, {
        method: 'POST',
        headers: { authorization: `Bearer ${key.reveal()}` },
        body: JSON.stringify({
          model: models[stream % models.length],
          stream: true,
          max_tokens: MAX_TOKENS,
          messages: [{ role: 'user', content: 'Is everything running?' }],
        }),
        signal: stop.signal,
      });
      await response.text();
    }
  });
  // The signal ends each stream.
  const ended = Promise.allSettled(streams);
  return {
    async [Symbol.asyncDispose]() {
      stop.abort();
      await ended;
    },
  };
}

function firstLine(error: unknown): string {
  return String(error).split('\n', 1)[0] ?? '';
}
