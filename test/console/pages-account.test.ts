import { testPages } from './page-checks.ts';
import { openSeededService } from './service.ts';

testPages(
  'account and settings pages',
  { by: 'operator', name: (name) => !name.startsWith('operator-') },
  async (browser, owned) => {
    const service = owned.use(await openSeededService(browser, 3000));
    return { service, cookies: service.cookies };
  },
);
