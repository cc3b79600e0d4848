/**
 * Takes screenshots of every console page at three widths in both color schemes, with realistic data, into
 * `screenshots/`. The width `resized` opens the page at 1440 pixels and then narrows the window to 768.
 *
 *   npm run screenshots -- --page keys --page usage --width 360 --width resized --scheme dark
 *
 * `--state` shows the same pages while their data loads (`slow`), cannot be loaded (`failing`), or as a member without
 * rights (`denied`). Pages that only differ in what was clicked are left out then.
 *
 * Reports pages that scroll horizontally, violate the Content-Security-Policy or throw, and with `--axe` axe violations.
 */
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import type { Route } from 'playwright-core';
import { ServiceError } from '../src/core/errors.ts';
import { errorBody } from '../src/core/error-body.ts';
import type { OpenedService } from '../test/harness.ts';
import { OPERATOR, setupLink } from '../test/operator.ts';
import {
  axe,
  openBrowser,
  SCHEMES,
  setView,
  sidewaysScroll,
  WIDTHS,
  type View,
} from '../test/console/browser.ts';
import { open, PAGES, type ConsolePage, type VisitorKind } from '../test/console/pages.ts';
import { openConsole, openSeededService, post, setUp, type SeededService } from '../test/console/service.ts';

/** Whether the service responds with data, late, with errors, or as to a member of one account. */
const STATES = ['data', 'slow', 'failing', 'denied'];

const { values: options } = parseArgs({
  options: {
    page: { type: 'string', multiple: true },
    width: { type: 'string', multiple: true, default: [...WIDTHS.map(String), 'resized'] },
    scheme: { type: 'string', multiple: true, default: [...SCHEMES] },
    state: { type: 'string', default: 'data' },
    axe: { type: 'boolean', default: false },
    out: { type: 'string', default: join(import.meta.dirname, '..', 'screenshots') },
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
const { state } = options;
if (pages.length === 0 || shots.length === 0 || !STATES.includes(state)) {
  console.error(
    `No matching pages. Available: ${PAGES.map(({ name }) => name).join(', ')}; states: ${STATES.join(', ')}.`,
  );
  process.exit(1);
}

/** Timeout of a step, in milliseconds. Long, because the machine may be busy. */
const STEP_MS = 120_000;

/** Excludes toasts, which are dialogs with a type. */
const DIALOG = '[role="alertdialog"], [role="dialog"]:not([data-type])';

/** Delay of each response in the state `slow`, and when the screenshot is taken, in milliseconds. */
const SLOW_MS = 2000;
const LOADING_MS = 1000;

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
  const cookies = state === 'denied' ? await cookiesOfMember(service) : service.cookies;
  await takeScreenshots(
    'operator',
    service,
    cookies,
    state === 'data' ? undefined : await addressable(service),
  );
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
  if (state !== 'data' && visitor !== 'operator') return;
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
  visited = pages.filter(({ by }) => by === kind),
): Promise<void> {
  for (const shot of shots) {
    await using visitor = await browser.visit(service.url, shot.opened);
    await visitor.context.addCookies(cookies);
    visitor.context.setDefaultTimeout(STEP_MS);
    if (state === 'slow' || state === 'failing') await visitor.context.route('**/api/**', respond);
    for (const page of visited) {
      visitor.faults.length = 0;
      const startedAt = performance.now();
      const name = [page.name, ...(state === 'data' ? [] : [state]), shot.name].join('-');
      const notes = [];
      try {
        const path = page.name === 'setup' ? `/setup${new URL(await setupLink(service)).hash}` : page.path;
        if (shot.opened !== shot.taken) await setView(visitor.page, shot.opened);
        if (state === 'slow') {
          await visitor.page.goto(path);
          await visitor.page.waitForTimeout(LOADING_MS);
        } else {
          await open(visitor.page, { ...page, path });
        }
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

/** Returns the operator's pages with a URL of their own, such as that of a dialog which the page opens with a click. */
async function addressable(service: SeededService): Promise<ConsolePage[]> {
  await using visitor = await browser.visit(service.url);
  await visitor.context.addCookies(service.cookies);
  const found: ConsolePage[] = [];
  for (const { name, path, by, into } of pages.filter(({ by }) => by === 'operator')) {
    if (into === undefined) {
      found.push({ name, path, by });
      continue;
    }
    await open(visitor.page, { path, into });
    const { pathname, search } = new URL(visitor.page.url());
    if (pathname + search !== path) found.push({ name, path: pathname + search, by });
  }
  return found;
}

/** Invites a plain member to the first account and returns the cookies of the member's session. */
async function cookiesOfMember(service: SeededService): Promise<SeededService['cookies']> {
  const { url, cookies } = service;
  await using operator = await browser.visit(url);
  await operator.context.addCookies(cookies);
  const invitation = { account_id: 'default', email: 'ines@acme.example', role: 'member' };
  const { link } = await post(operator.context, url, '/api/invitations', invitation);
  await using member = await browser.visit(url);
  const accepted = {
    token: new URL(String(link)).hash.slice(1),
    name: 'Inês Duarte',
    password: OPERATOR.password,
  };
  await post(member.context, url, '/api/invitations/accept', accepted);
  return await member.context.cookies();
}

/** Delays reads of the page, or answers them with an error. The session is not affected. */
async function respond(route: Route): Promise<void> {
  const request = route.request();
  const { pathname } = new URL(request.url());
  if (request.method() !== 'GET' || pathname === '/api/session') return route.continue();
  if (state === 'failing') {
    const error = new ServiceError('storage_unavailable', 'The database is not available.');
    const headers = { 'content-type': 'application/json', 'x-request-id': 'req_0123456789abcdef' };
    return route.fulfill({ status: error.status, headers, body: errorBody(error) });
  }
  await sleep(SLOW_MS);
  // The page may have been left.
  await route.continue().catch(() => {});
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
