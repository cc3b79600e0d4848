/** Until people can sign in: the session of an operator as the contract has it, and an admin's key for the rest. */
import type { BrowserContext } from 'playwright-core';
import type { OpenedService } from '../harness.ts';

const SESSION = {
  person: {
    id: 'person_operator',
    name: 'Zoë Lindqvist',
    email: 'zoe@acme.example',
    operator: true,
    two_factor: false,
    has_password: true,
    providers: [],
    created_at: '2026-09-01T08:00:00.000Z',
  },
  accounts: [
    { id: 'default', name: 'Acme', role: 'owner', plan: 'scale', status: 'active' },
    {
      id: 'acct_6e6f72746877696e64206c61',
      name: 'Northwind Labs',
      role: 'member',
      plan: 'scale',
      status: 'active',
    },
  ],
  setup_needed: false,
  sign_in: { providers: [], password_reset: false, second_factor_due: false },
  version: '0.1.0',
};

export async function standIn({
  service,
  url,
}: OpenedService): Promise<(context: BrowserContext) => Promise<void>> {
  const { key } = await service.keys.create({ name: 'stand-in', kind: 'admin' });
  return async (context) => {
    await context.setExtraHTTPHeaders({ authorization: `Bearer ${key.reveal()}` });
    await context.route('**/api/session', (route) =>
      route.fulfill({ json: { ...SESSION, public_url: url } }),
    );
  };
}
