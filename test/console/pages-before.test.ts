import { testPages } from './page-checks.ts';
import { openConsole, setUp } from './service.ts';

testPages('pages without a session', { by: 'signed-out' }, async (_browser, owned) => ({
  service: owned.use(await openConsole()),
  cookies: [],
}));

testPages('pages of a new service', { by: 'new-operator' }, async (browser, owned) => {
  const service = owned.use(await openConsole());
  await using visitor = await browser.visit(service.url);
  await setUp(visitor.context, service);
  return { service, cookies: await visitor.context.cookies() };
});
