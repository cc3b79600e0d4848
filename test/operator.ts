import assert from 'node:assert/strict';
import { openDatabase } from '../src/database/database.ts';
import { createSetupLink } from '../src/identity/setup.ts';
import type { OpenedService } from './harness.ts';

export interface Credentials {
  name: string;
  email: string;
  password: string;
}

/** The first operator. */
export const OPERATOR: Credentials = {
  name: 'Zoë Lindqvist',
  email: 'zoe@acme.example',
  password: 'correct horse battery staple',
};

/** Creates a setup link for a service on SQLite. */
export async function setupLink({ home, url }: Pick<OpenedService, 'home' | 'url'>): Promise<string> {
  await using database = await openDatabase({ home, url: null });
  const link = await createSetupLink(database, url);
  assert.ok(link, 'the service is set up already');
  return link;
}

/** Creates a setup link and returns its token. */
export async function setupToken(service: Pick<OpenedService, 'home' | 'url'>): Promise<string> {
  return new URL(await setupLink(service)).hash.slice(1);
}
