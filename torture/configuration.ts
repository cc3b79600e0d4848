/** What every copy of the service under torture is configured with. */

export const EMBEDDED_MODEL = 'torture/embedded';
export const REPLICA_MODEL = 'torture/replicas';

/** Engines beside the services. */
export const REPLICAS = 2;

/** USD per million tokens. */
const PRICE = { prompt: '0.15', completion: '0.6' } as const;

/** Milliseconds. Short, so that a run holds many leases. */
export const LEASE_MS = 2000;
export const LOAD_STALL_MS = 5000;
const SETTLE_WAIT_MS = 2000;

/** What the account on the plan `budget` may use; a run exhausts it. */
export const BUDGET_TOKENS = 20_000;

/** As YAML; `replicaPorts` are where the engines beside the services listen. */
export function configuration(replicaPorts: readonly number[]): string {
  const pricing = `{ prompt: "${PRICE.prompt}", completion: "${PRICE.completion}" }`;
  const replicas = replicaPorts.map((port) => `{ url: "http://127.0.0.1:${port}", dialect: sluice }`);
  return `
models:
  - id: ${EMBEDDED_MODEL}
    pricing: ${pricing}
    engine: { file: 'scripted:{"slots":8}' }
  - id: ${REPLICA_MODEL}
    pricing: ${pricing}
    replicas: [${replicas.join(', ')}]
plans:
  roomy:
    requestsPerMinute: 1000000
    tokensPerMinute: 1000000000
    requestsInFlight: 10000
    tokensPerDay: 1000000000
    tokensPerMonth: 1000000000
    usdPerMonth: "1000"
  tight: { requestsPerMinute: 300, tokensPerMinute: 50000, requestsInFlight: 2 }
  budget: { tokensPerDay: ${BUDGET_TOKENS}, usdPerMonth: "1000" }
defaultPlan: roomy
# What a caller is told must not run ahead of the engine: a 200 then always has its row.
stream: { holdMs: 60000 }
queue: { maxWaitMs: 5000 }
engine: { stallMs: 1500, loadStallMs: ${LOAD_STALL_MS}, firstByteMs: 3000, silenceMs: 3000 }
ledger: { leaseMs: ${LEASE_MS}, settleWaitMs: ${SETTLE_WAIT_MS}, checkpointMs: 250, checkpointTokens: 16 }
drainMs: 1500
`;
}
