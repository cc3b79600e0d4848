import assert from 'node:assert/strict';
import { openDatabase } from '../src/database/database.ts';
import { createSetupLink } from '../src/identity/setup.ts';
import type { OpenedService } from './harness.ts';

/** Who signs in, and with what. */
export interface Credentials {
  name: string;
  email: string;
  password: string;
}

/** The first operator of every service in these tests. */
export const OPERATOR: Credentials = {
  name: 'Zoë Lindqvist',
  email: 'zoe@acme.example',
  password: 'correct horse battery staple',
};

/** A set-up link, as an operator at the machine gets it, to where this service listens. SQLite alone. */
export async function setupLink({ home, url }: Pick<OpenedService, 'home' | 'url'>): Promise<string> {
  await using database = await openDatabase({ home, url: null });
  const link = await createSetupLink(database, url);
  assert.ok(link, 'the service is set up already');
  return link;
}

/** The token alone. */
export async function setupToken(service: Pick<OpenedService, 'home' | 'url'>): Promise<string> {
  return new URL(await setupLink(service)).hash.slice(1);
}
