/** By keyboard alone: where the focus is, that it can be seen, and that a window keeps it and gives it back. */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { Page } from 'playwright-core';
import { until } from '../harness.ts';
import { WITH_BROWSER } from './browser.ts';
import { newKey, openStage, type Stage } from './stage.ts';

/** More stops than any page has. */
const MANY = 200;

interface Stop {
  /** What it is, for words. */
  what: string;
  /** It looks other than without the focus, or one of those around it does. */
  seen: boolean;
}

const IN_DIALOG = `document.activeElement.closest('[role="dialog"], [role="alertdialog"]') !== null`;

describe('the keyboard', WITH_BROWSER, () => {
  let stage: Stage;
  let page: Page;
  before(async () => {
    stage = await openStage();
    ({ page } = stage.operator);
    await newKey(stage.service);
  });
  after(() => stage[Symbol.asyncDispose]());

  test('the first stop skips to the page', async () => {
    await page.goto('/keys');
    await page.getByRole('row', { name: /app/ }).waitFor();
    await page.keyboard.press('Tab');
    assert.match((await stop(page)).what, /Skip to the page/);
    await page.keyboard.press('Enter');
    await page.keyboard.press('Tab');
    assert.match((await stop(page)).what, /Create key/);
  });

  for (const path of ['/keys', '/usage', '/requests', '/playground', '/models', '/members', '/settings']) {
    test(`every stop on ${path} can be seen, and all are reached in turn`, async () => {
      await page.goto(path);
      await page.getByRole('heading', { level: 1 }).waitFor();
      await page.waitForLoadState('networkidle');
      const stops: Stop[] = [];
      for (let count = 0; count < MANY; count++) {
        await page.keyboard.press('Tab');
        const here = await stop(page);
        // Round the page once: the browser's own parts come next.
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

  test('a window takes the focus, keeps it, closes with Escape and gives it back', async () => {
    await page.goto('/keys');
    const button = page.getByRole('button', { name: 'Create key' });
    await button.focus();
    await page.keyboard.press('Enter');
    await page.getByRole('dialog').getByLabel('Name').waitFor();
    for (let count = 0; count < 30; count++) {
      // At its ends a guard passes the focus on, a moment later.
      await until(() => page.evaluate<boolean>(IN_DIALOG));
      await page.keyboard.press(count % 7 === 6 ? 'Shift+Tab' : 'Tab');
    }
    await page.keyboard.press('Escape');
    await page.getByRole('dialog').waitFor({ state: 'hidden' });
    await until(async () => /Create key/.test((await stop(page)).what));
  });

  test('a key is made without a mouse', async () => {
    await page.goto('/keys');
    await page.getByRole('button', { name: 'Create key' }).focus();
    await page.keyboard.press('Enter');
    await page.getByRole('dialog').getByLabel('Name').waitFor();
    await page.keyboard.type('by hand');
    await page.keyboard.press('Enter');
    await page.getByRole('dialog', { name: 'Your key by hand' }).waitFor();
  });

  test('a menu opens, is gone through with arrows, and closes back to its button', async () => {
    await page.goto('/keys');
    await page.getByRole('button', { name: 'Actions for app' }).focus();
    await page.keyboard.press('Enter');
    await page.getByRole('menuitem', { name: 'Details' }).waitFor();
    await page.keyboard.press('ArrowDown');
    await page.keyboard.press('Escape');
    await page.getByRole('menu').waitFor({ state: 'hidden' });
    await until(async () => /Actions for app/.test((await stop(page)).what));
  });
});

/** Where the focus is. Seen is what has an outline, a ring or another border than it has without the focus. */
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
