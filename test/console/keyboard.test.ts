/** Keyboard use: focus order, visible focus, and focus trapping and restoring of dialogs. */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { Page } from 'playwright-core';
import { MODEL, until } from '../harness.ts';
import { axe, WITH_BROWSER } from './browser.ts';
import { open } from './pages.ts';
import { newKey, openStage, type Stage } from './stage.ts';

/** More tab stops than any page has. */
const MANY = 200;

interface Stop {
  /** Description of the element. */
  what: string;
  /** The focus is visible on it or on one of its parents. */
  seen: boolean;
}

const IN_DIALOG = `document.activeElement.closest('[role="dialog"], [role="alertdialog"]') !== null`;

describe('keyboard use', WITH_BROWSER, () => {
  let stage: Stage;
  let page: Page;
  before(async () => {
    stage = await openStage();
    ({ page } = stage.operator);
    await newKey(stage.service);
  });
  after(() => stage[Symbol.asyncDispose]());

  test('the first tab stop skips to the main content', async () => {
    await page.goto('/keys');
    await page.getByRole('row', { name: /app/ }).waitFor();
    await page.keyboard.press('Tab');
    assert.match((await stop(page)).what, /Skip to main content/);
    await page.keyboard.press('Enter');
    await page.keyboard.press('Tab');
    assert.match((await stop(page)).what, /Refresh/);
  });

  for (const path of [
    '/',
    '/keys',
    '/usage',
    '/requests',
    '/playground',
    '/models',
    '/members',
    '/settings',
    '/spend',
    '/operator/accounts',
  ]) {
    test(`every tab stop on ${path} is reachable and has a visible focus`, async () => {
      await open(page, { path });
      const stops: Stop[] = [];
      for (let count = 0; count < MANY; count++) {
        await page.keyboard.press('Tab');
        const here = await stop(page);
        // The end of the page: the browser's own controls come next.
        if (here.what === 'body') break;
        stops.push(here);
      }
      assert.ok(stops.length > 10 && stops.length < MANY, `${stops.length} stops`);
      assert.deepEqual(
        stops.filter(({ seen }) => !seen),
        [],
      );
    });
  }

  test('Ctrl+K opens the command menu, which finds pages, models and endpoints', async () => {
    await page.goto('/keys');
    await page.getByRole('row', { name: /app/ }).waitFor();
    const menu = page.getByRole('dialog', { name: 'Command menu' });
    for (const [typed, found, path] of [
      ['usage', 'Usage', '/usage'],
      ['revoke key', 'Revoke key', '/docs/revokeKey'],
      ['plans limits', 'Plans and limits', '/docs/guide/limits'],
      [MODEL, MODEL, '/playground'],
    ] as const) {
      await page.keyboard.press('Control+k');
      await menu.getByRole('combobox').fill(typed);
      await menu.getByRole('option').first().filter({ hasText: found }).waitFor();
      await menu.getByRole('combobox').press('Enter');
      await menu.waitFor({ state: 'hidden' });
      await page.waitForURL(({ pathname }) => pathname === path);
    }
    await page.keyboard.press('Control+k');
    await menu.getByRole('combobox').fill('no such thing');
    await menu.getByText('No matches').waitFor();
    assert.deepEqual(await axe(page), []);
    await page.keyboard.press('Escape');
    await menu.waitFor({ state: 'hidden' });
  });

  test('the command menu finds a key by its name, an account, and a request by its ID', async () => {
    const id = '019aca11-0000-7000-8000-000000000001';
    for (const [text, option, path] of [
      ['app', /^app/, '/keys'],
      ['default', /^Default/i, '/operator/accounts/default'],
      [`chatcmpl-${id}`, /^Request/, `/requests/${id}`],
    ] as const) {
      await page.goto('/members');
      await page.getByRole('heading', { name: 'Members', level: 1 }).waitFor();
      await page.keyboard.press('Control+k');
      await page.getByRole('combobox', { name: 'Search pages and commands' }).fill(text);
      await page.getByRole('option', { name: option }).click();
      await page.waitForURL(({ pathname }) => pathname === path);
    }
  });

  test('/ focuses the search of the page or opens the command menu, except while typing', async () => {
    await page.goto('/requests');
    const search = page.getByRole('main').getByRole('searchbox');
    await search.waitFor();
    await page.keyboard.press('/');
    await until(() => page.evaluate<boolean>(`document.activeElement.matches('[type="search"]')`));
    await page.keyboard.press('/');
    assert.equal(await search.inputValue(), '/');
    await page.goto('/settings');
    await page.getByRole('heading', { level: 1 }).waitFor();
    await page.keyboard.press('/');
    await page.getByRole('dialog', { name: 'Command menu' }).waitFor();
    await page.keyboard.press('Escape');
  });

  test('? shows the shortcuts, and single keys can be turned off', async () => {
    await page.goto('/keys');
    await page.getByRole('row', { name: /app/ }).waitFor();
    await page.keyboard.press('?');
    const help = page.getByRole('dialog', { name: 'Keyboard shortcuts' });
    await help.getByText('Open the command menu', { exact: true }).waitFor();
    assert.deepEqual(await axe(page), []);
    await help.getByRole('switch', { name: 'Single-key shortcuts' }).click();
    await page.keyboard.press('Escape');
    await help.waitFor({ state: 'hidden' });
    await page.keyboard.press('?');
    await page.keyboard.press('Control+k');
    const menu = page.getByRole('dialog', { name: 'Command menu' });
    await menu.getByRole('combobox').fill('keyboard');
    await menu.getByRole('option').first().filter({ hasText: 'Keyboard' }).waitFor();
    await menu.getByRole('combobox').press('Enter');
    await help.getByRole('switch', { name: 'Single-key shortcuts' }).click();
    await page.keyboard.press('Escape');
    await help.waitFor({ state: 'hidden' });
  });

  test('a dialog traps the focus, closes with Escape and restores the focus', async () => {
    await page.goto('/keys');
    await page.getByRole('row', { name: /app/ }).waitFor();
    await page.getByRole('button', { name: 'Create key' }).press('Enter');
    await page.getByRole('dialog').getByLabel('Name').waitFor();
    for (let count = 0; count < 30; count++) {
      // At the ends a focus guard passes the focus on asynchronously.
      await until(() => page.evaluate<boolean>(IN_DIALOG));
      await page.keyboard.press(count % 7 === 6 ? 'Shift+Tab' : 'Tab');
    }
    await page.keyboard.press('Escape');
    await page.getByRole('dialog').waitFor({ state: 'hidden' });
    await until(async () => /Create key/.test((await stop(page)).what));
  });

  test('a menu opens, moves with arrow keys, and returns the focus to its button', async () => {
    await page.goto('/keys');
    await page.getByRole('button', { name: 'Actions for app' }).press('Enter');
    await page.getByRole('menuitem', { name: 'View details' }).waitFor();
    await page.keyboard.press('ArrowDown');
    await page.keyboard.press('Escape');
    await page.getByRole('menu').waitFor({ state: 'hidden' });
    await until(async () => /Actions for app/.test((await stop(page)).what));
  });
});

/** Returns the focused element, and whether its focus is visible as an outline, ring, border or background. */
function stop(page: Page): Promise<Stop> {
  return page.evaluate<Stop>(`(() => {
    const element = document.activeElement ?? document.body;
    const looks = () => {
      const all = [];
      for (let one = element; one && all.length < 3; one = one.parentElement) {
        const { outlineStyle, outlineWidth, outlineColor, boxShadow, borderColor, backgroundColor } = getComputedStyle(one);
        all.push([outlineStyle, outlineWidth, outlineColor, boxShadow, borderColor, backgroundColor].join(' '));
      }
      return all.join('; ');
    };
    const name = element.getAttribute('aria-label') ?? element.textContent ?? '';
    const what = element === document.body ? 'body' : element.tagName.toLowerCase() + ' ' + name.trim().slice(0, 60);
    const style = getComputedStyle(element);
    const seen = (style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 1) || (() => {
      const focused = looks();
      element.blur();
      const plain = looks();
      element.focus();
      return focused !== plain;
    })();
    return { what, seen };
  })()`);
}
