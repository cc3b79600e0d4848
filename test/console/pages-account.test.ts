import { testPages } from './every-page.ts';
import { openLifelike } from './service.ts';

testPages(
  "an account's pages, and one's own",
  { by: 'operator', name: (name) => !name.startsWith('operator-') },
  async (browser, owned) => {
    const service = owned.use(await openLifelike(browser, 3000));
    return { service, cookies: service.cookies };
  },
);
