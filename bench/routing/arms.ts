import { createAccount } from '../../src/accounts/accounts.ts';
import { createKey } from '../../src/accounts/key-table.ts';
import { openDatabase } from '../../src/database/database.ts';
import { POLICIES, type PolicyName } from '../../src/routing/placement.ts';
import { findProgram, startRouter } from '../gateway/peers.ts';
import { startSluice, type Server } from '../../test/support/measured-servers.ts';
import type { Target } from './client.ts';
import { ACCOUNTS } from './load.ts';

/** A router with its settings. It is restarted for every measurement. */
export interface Arm {
  name: string;
  start(engines: readonly string[]): Promise<{ target: Target; server: Server }>;
}

/** An arm for each policy. */
export const SLUICE: readonly Arm[] = (Object.keys(POLICIES) as PolicyName[]).map((policy) => ({
  name: `sluice ${policy}`,
  async start(engines) {
    const keys: string[] = [];
    const server = await startSluice(configuration(engines, policy), {}, async (home) => {
      keys.push(...(await createKeys(home)));
    });
    return { server, target: { url: server.url, keys } };
  },
}));

/** Creates the accounts and returns one key for each. */
async function createKeys(home: string): Promise<string[]> {
  await using database = await openDatabase({ home, url: null });
  const by = { id: 'cli:bench', ip: null };
  const keys: string[] = [];
  for (let index = 0; index < ACCOUNTS; index++) {
    const name = `account-${index}`;
    const { id } = await createAccount(database, { name }, by);
    const { key } = await createKey(database, { name, accountId: id }, by);
    keys.push(key.reveal());
  }
  return keys;
}

function configuration(engines: readonly string[], policy: PolicyName): string {
  return `
models:
  - id: bench/model
    replicas: [${engines.map((url) => `{url: '${url}', dialect: vllm}`).join(', ')}]
plans: {bench: {}}
defaultPlan: bench
queue: {maxRequests: 10000, maxWaitMs: 120000}
routing: {policy: ${policy}}
`;
}

/** Other routers, with the arguments that precede the common ones. */
const PEERS = { 'vllm-router': [], smg: ['launch', '--backend', 'vllm'] } as const;

/** Returns an arm for each router of `PEERS` that is on the PATH or in `programs`. */
export function peerArms(programs: Readonly<Record<string, string | undefined>>): Arm[] {
  return Object.entries(PEERS).flatMap(([name, command]) => {
    const program = programs[name] ?? findProgram(name);
    if (program === null) return [];
    return {
      name,
      async start(engines) {
        const { server } = await startRouter(name, program, command, engines, 'cache_aware');
        return { server, target: { url: server.url, keys: null } };
      },
    };
  });
}
