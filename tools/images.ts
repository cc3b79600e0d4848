/**
 * Takes the screenshots that README.md and docs/console.md show: pages of the console with sample data, in light mode
 * at twice the pixel density. Saves them to `docs/images/`. Run `npm run images` after a visible change to one of the
 * pages in `NAMES`.
 */
import { join } from 'node:path';
import { openBrowser } from '../test/console/browser.ts';
import { open, PAGES } from '../test/console/pages.ts';
import { openSeededService } from '../test/console/service.ts';
import { ROOT } from '../test/docs/markdown.ts';

const NAMES = ['usage', 'receipt', 'keys', 'playground'];

await using browser = await openBrowser();
await using service = await openSeededService(browser);
await using visitor = await browser.visit(service.url, {}, 2);
await visitor.context.addCookies(service.cookies);
for (const page of PAGES.filter(({ name }) => NAMES.includes(name))) {
  await open(visitor.page, page);
  await visitor.page.screenshot({ path: join(ROOT, 'docs', 'images', `${page.name}.png`) });
}
