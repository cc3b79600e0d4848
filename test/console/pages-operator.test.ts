import { testPages } from './every-page.ts';
import { openLifelike } from './service.ts';

testPages(
  'operator pages',
  { by: 'operator', name: (name) => name.startsWith('operator-') },
  async (browser, owned) => {
    const service = owned.use(await openLifelike(browser, 3000));
    return { service, cookies: service.cookies };
  },
);
