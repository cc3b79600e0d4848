import type { Page, Request } from 'playwright-core';
import { scripted } from '../support/scripted-engine/directive.ts';
import { until } from '../harness.ts';

/** The visitor: signed out, the operator of a seeded service, or the operator of a new service. */
export type VisitorKind = 'signed-out' | 'operator' | 'new-operator';

/** A page of the console in a certain state. */
export interface ConsolePage {
  /** Name of the screenshots. */
  name: string;
  path: string;
  by: VisitorKind;
  /** Brings the opened page into the state. */
  into?: (page: Page) => Promise<void>;
}

/** All pages in all relevant states. */
export const PAGES: readonly ConsolePage[] = [
  { name: 'setup', path: '/setup', by: 'signed-out' },
  { name: 'sign-in', path: '/sign-in', by: 'signed-out' },
  { name: 'reset-password', path: '/reset-password', by: 'signed-out' },
  { name: 'invitation', path: '/invitation', by: 'signed-out' },
  { name: 'overview-empty', path: '/', by: 'new-operator' },
  { name: 'keys-empty', path: '/keys', by: 'new-operator' },
  { name: 'usage-empty', path: '/usage', by: 'new-operator' },
  { name: 'spend-empty', path: '/spend', by: 'new-operator' },
  { name: 'requests-empty', path: '/requests', by: 'new-operator' },
  { name: 'overview', path: '/', by: 'operator' },
  { name: 'keys', path: '/keys', by: 'operator' },
  { name: 'keys-create', path: '/keys?create=1', by: 'operator' },
  { name: 'key', path: '/keys', by: 'operator', into: dialogOfFirstRow },
  { name: 'key-revoke', path: '/keys', by: 'operator', into: askToRevoke },
  { name: 'usage', path: '/usage', by: 'operator' },
  { name: 'spend', path: '/spend', by: 'operator' },
  { name: 'spend-budget', path: '/spend?by=account', by: 'operator', into: openBudget },
  { name: 'requests', path: '/requests', by: 'operator' },
  {
    name: 'requests-filters',
    path: '/requests?duration=0.5&tokens=200&note=truncated',
    by: 'operator',
    into: openFilters,
  },
  { name: 'refused', path: '/requests?status=refused&scope=all', by: 'operator' },
  { name: 'receipt', path: '/requests', by: 'operator', into: openReceipt },
  { name: 'playground', path: '/playground', by: 'operator' },
  { name: 'playground-compare', path: '/playground', by: 'operator', into: compare },
  { name: 'playground-markdown', path: '/playground', by: 'operator', into: showMarkdown },
  { name: 'playground-conversations', path: '/playground', by: 'operator', into: listConversations },
  { name: 'playground-tools', path: '/playground', by: 'operator', into: editTools },
  { name: 'playground-calls', path: '/playground', by: 'operator', into: callTools },
  { name: 'playground-embeddings', path: '/playground?mode=embeddings', by: 'operator', into: compareTexts },
  { name: 'playground-embeddings-empty', path: '/playground?mode=embeddings', by: 'new-operator' },
  { name: 'models', path: '/models', by: 'operator' },
  { name: 'models-add', path: '/models?add=1', by: 'operator' },
  { name: 'models-add-chosen', path: '/models?add=Qwen/Qwen3-0.6B', by: 'operator' },
  { name: 'models-add-server', path: '/models?add=1', by: 'operator', into: chooseServer },
  { name: 'model', path: '/models?model=HuggingFaceTB/SmolLM2-360M-Instruct', by: 'operator' },
  { name: 'model-remote', path: '/models?model=google/gemma-3-27b-it', by: 'operator' },
  { name: 'members', path: '/members', by: 'operator' },
  { name: 'operator-accounts', path: '/operator/accounts', by: 'operator' },
  { name: 'operator-account', path: '/operator/accounts', by: 'operator', into: firstLinkOfTable },
  { name: 'operator-users', path: '/operator/accounts?tab=users', by: 'operator' },
  { name: 'operator-plans', path: '/operator/plans', by: 'operator' },
  { name: 'operator-operations', path: '/operator/operations', by: 'operator' },
  { name: 'operator-replica', path: '/operator/operations', by: 'operator', into: openFirstReplica },
  { name: 'operator-audit', path: '/operator/audit', by: 'operator' },
  { name: 'operator-alerts', path: '/operator/alerts', by: 'operator' },
  { name: 'operator-alert', path: '/operator/alerts', by: 'operator', into: openFirstAlert },
  { name: 'operator-alerts-empty', path: '/operator/alerts', by: 'new-operator' },
  { name: 'settings', path: '/settings', by: 'operator' },
  { name: 'settings-security', path: '/settings?tab=security', by: 'operator' },
  { name: 'settings-sessions', path: '/settings?tab=sessions', by: 'operator' },
  { name: 'docs', path: '/docs', by: 'operator' },
  { name: 'docs-operation', path: '/docs/createChatCompletion', by: 'operator' },
  { name: 'guide', path: '/docs/guide/limits', by: 'operator' },
  { name: 'command-menu', path: '/models', by: 'operator', into: (page) => openDialog(page, 'Control+k') },
  { name: 'shortcuts', path: '/models', by: 'operator', into: (page) => openDialog(page, '?') },
  { name: 'not-found', path: '/no-such-page', by: 'operator' },
];

type Target = Pick<ConsolePage, 'path' | 'into'>;

/** Loads the page and waits until its fonts and data are loaded. */
export function open(page: Page, target: Target): Promise<void> {
  return show(page, target, () => page.goto(target.path));
}

/**
 * Opens the page like `open`, but as a link of the console does, which does not load the console again. Loads it if there
 * is nothing to follow the link from: no page yet, the page itself, or an open dialog, which may stay open.
 */
export function follow(page: Page, target: Target): Promise<void> {
  const url = JSON.stringify(target.path);
  return show(page, target, async () => {
    const isFollowed = await page.evaluate<boolean>(`(() => {
      const isOpen = document.querySelector('[role="alertdialog"], [role="dialog"]') !== null;
      if (isOpen || document.querySelector('main') === null || location.pathname + location.search === ${url}) return false;
      history.pushState(null, '', ${url});
      return true;
    })()`);
    if (!isFollowed) await page.goto(target.path);
  });
}

async function show(page: Page, { into }: Target, go: () => Promise<unknown>): Promise<void> {
  const running = runningRequests(page);
  await go();
  await settle(page, running);
  if (into === undefined) return;
  await into(page);
  await settle(page, running);
}

const RUNNING = new WeakMap<Page, Set<Request>>();

/** Returns the requests of this page without a complete response, except those to models, which can take long. */
function runningRequests(page: Page): ReadonlySet<Request> {
  const known = RUNNING.get(page);
  if (known !== undefined) return known;
  const running = new Set<Request>();
  RUNNING.set(page, running);
  page.on('request', (request) => {
    if (request.isNavigationRequest()) running.clear();
    if (!new URL(request.url()).pathname.startsWith('/v1/')) running.add(request);
  });
  page.on('requestfinished', (request) => running.delete(request));
  page.on('requestfailed', (request) => running.delete(request));
  return running;
}

async function settle(page: Page, running: ReadonlySet<Request>): Promise<void> {
  // `waitForFunction` uses eval, which the Content-Security-Policy forbids.
  await until(async () => (await page.evaluate<boolean>(NOTHING_LOADS)) && running.size === 0);
}

/** Waits two frames, in which a page draws its data and starts to load what depends on it. */
const NOTHING_LOADS = `(async () => {
  await document.fonts.ready;
  for (const _ of [1, 2]) await new Promise((resolve) => requestAnimationFrame(resolve));
  return document.querySelector('main') !== null
    && document.querySelector('[aria-busy="true"], [data-skeleton]') === null
    && [...document.querySelectorAll('[role="status"]')].every(({ textContent }) => textContent !== 'Loading');
})()`;

async function askToRevoke(page: Page): Promise<void> {
  await page.getByRole('button', { name: 'Actions for production-api' }).click();
  await page.getByRole('menuitem', { name: 'Revoke' }).click();
  await page.getByRole('alertdialog').waitFor();
}

async function openFilters(page: Page): Promise<void> {
  await page.getByRole('button', { name: 'More filters' }).click();
  await page.getByRole('dialog', { name: 'More filters' }).waitFor();
}

async function openBudget(page: Page): Promise<void> {
  await page
    .getByRole('button', { name: /^(Set|Edit) budget of / })
    .first()
    .click();
  await page.getByRole('dialog').waitFor();
}

/** Presses a shortcut that loads and opens a dialog. */
async function openDialog(page: Page, shortcut: string): Promise<void> {
  await page.keyboard.press(shortcut);
  await page.getByRole('dialog').waitFor();
}

async function compare(page: Page): Promise<void> {
  await page.getByRole('button', { name: 'Compare' }).click();
}

async function compareTexts(page: Page): Promise<void> {
  await page.getByLabel('Text 1').fill('The river rises in spring.');
  await page.getByLabel('Text 2').fill('Der Fluss steigt im Frühling.');
  await page.getByRole('button', { name: 'Compare', exact: true }).click();
  await page.getByText(/^Cosine /).waitFor();
}

/** A response with every kind of block. */
const MARKDOWN = `## Why the sky is blue

Sunlight contains **all colors**. The air scatters _short_ wavelengths more than long ones, by about $I \\propto 1/\\lambda^4$: see [Rayleigh scattering](https://en.wikipedia.org/wiki/Rayleigh_scattering).

| Color | Wavelength (nm) | Scattering, compared with red |
|:------|----------------:|:-----------------------------:|
| Blue  | 450             | 5.9×                          |
| Green | 530             | 3.1×                          |
| Red   | 700             | 1×                            |

1. Measure the intensity:
   - at noon, and
   - at \`sunset\`.
2. Compare both.

- [x] Done
- [ ] ~~Not~~ done

> The sky would be violet if our eyes were as sensitive to it.

\`\`\`python
def scattering(wavelength_nm: float) -> float:
    """Returns the scattering compared with red light."""
    return (700 / wavelength_nm) ** 4  # Rayleigh
\`\`\`

---
That is all.`;

async function showMarkdown(page: Page): Promise<void> {
  await clearPlayground(page);
  await page
    .getByLabel('Message', { exact: true })
    .fill(`Why is the sky blue? ${scripted({ text: MARKDOWN })}`);
  await page.getByRole('button', { name: 'Send', exact: true }).click();
  await page.getByText('Throughput').waitFor();
}

async function listConversations(page: Page): Promise<void> {
  await clearPlayground(page);
  for (const title of [
    'Why is the sky blue?',
    'Plan a week in the Alps, with a train on every day and no hotel twice',
  ]) {
    await page
      .getByLabel('Message', { exact: true })
      .fill(`${title}\n${scripted({ tokens: 4, tokenMs: 0 })}`);
    await page.getByRole('button', { name: 'Send', exact: true }).click();
    await page.getByText('Throughput').waitFor();
    await page.getByRole('button', { name: 'New chat' }).click();
  }
  await page.getByRole('button', { name: 'Conversations' }).click();
  await page.getByRole('dialog').waitFor();
}

/** Opens the editors of tools and reasoning, with a preset. */
async function editTools(page: Page): Promise<void> {
  await clearPlayground(page);
  const parameters = page.getByRole('button', { name: /^Parameters/ });
  if ((await parameters.getAttribute('aria-expanded')) === 'false') await parameters.click();
  await page.getByRole('button', { name: 'Reasoning', exact: true }).click();
  await page.getByRole('button', { name: 'Tools', exact: true }).click();
  await page.getByRole('button', { name: 'Weather', exact: true }).click();
}

/** Sends a message to which the model responds with reasoning and calls, and enters one of their results. */
async function callTools(page: Page): Promise<void> {
  await clearPlayground(page);
  const calls = ['Zurich', 'Bern'].map((city) => ({ name: 'get_weather', arguments: { city } }));
  const reasoning = 'The user compares two cities, so I need the weather in both of them.';
  await page.getByLabel('Message', { exact: true }).fill(scripted({ reasoning, calls, tokenMs: 0 }));
  await page.getByRole('button', { name: 'Send', exact: true }).click();
  await page.getByLabel('Result of get_weather, call 1').fill('{ "temperature": 21, "unit": "celsius" }');
  await page.locator('summary').filter({ hasText: 'Reasoning' }).press('Enter');
}

/** Removes what an earlier page stored. Leaves the playground first, because it stores its input when it is left. */
async function clearPlayground(page: Page): Promise<void> {
  const url = page.url();
  await page.goto('/members');
  await page.evaluate('localStorage.clear(); sessionStorage.clear();');
  await page.goto(url);
}

async function firstLinkOfTable(page: Page): Promise<void> {
  await page.getByRole('main').getByRole('row').nth(1).getByRole('link').first().click();
}

async function dialogOfFirstRow(page: Page): Promise<void> {
  await firstLinkOfTable(page);
  await page.getByRole('dialog').waitFor();
}

/** A pane on wide windows, else a dialog. */
async function openReceipt(page: Page): Promise<void> {
  await page
    .getByRole('table', { name: 'Requests', exact: true })
    .getByRole('row', { name: /Completed/ })
    .first()
    .getByRole('link')
    .click();
  await page.getByRole('heading', { name: 'Request', exact: true }).waitFor();
}

async function openFirstAlert(page: Page): Promise<void> {
  await page.getByRole('table', { name: 'Alerts' }).getByRole('button').first().click();
  await page.getByRole('dialog').waitFor();
}

async function openFirstReplica(page: Page): Promise<void> {
  const rows = page.getByRole('table', { name: 'Replicas' }).getByRole('row');
  await rows.nth(1).getByRole('button').first().click();
  await page.getByRole('dialog').waitFor();
}

async function chooseServer(page: Page): Promise<void> {
  await page.getByRole('tab', { name: 'Other server' }).click();
}
