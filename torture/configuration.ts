/** What every copy of the service under torture is configured with. */

export const EMBEDDED_MODEL = 'torture/embedded';
export const REPLICA_MODEL = 'torture/replicas';
/** Its replica reports the usage that a prompt asks for. */
export const LIAR_MODEL = 'torture/liar';

/** Engines beside the services. */
export const REPLICAS = 2;

/** USD per million tokens. */
const PRICE = { prompt: '0.15', completion: '0.6' } as const;

/** Milliseconds. Short, so that a run holds many leases. */
export const LEASE_MS = 2000;
/** Longer than a program takes to start on a busy machine; else no embedded engine would ever be ready there. */
export const LOAD_STALL_MS = 10_000;
const SETTLE_WAIT_MS = 2000;

/** Largest body, and what the bodies of one account may have together, in bytes. */
export const BODY_BYTES = 200_000;

/** How long a body may take to arrive, and a caller to read nothing, in milliseconds. */
const BODY_MS = 1000;
export const READ_STALL_MS = 1500;

/** What the account on the plan `budget` may use; a run exhausts it. */
export const BUDGET_TOKENS = 20_000;

/** As YAML, for engines beside the services on these ports. */
export function configuration(replicaPorts: readonly number[], liarPort: number): string {
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
  - id: ${LIAR_MODEL}
    pricing: ${pricing}
    replicas: [{ url: "http://127.0.0.1:${liarPort}", dialect: vllm }]
plans:
  roomy:
    requestsPerMinute: 1000000
    tokensPerMinute: 1000000000
    requestsInFlight: 10000
    tokensPerDay: 1000000000
    tokensPerMonth: 1000000000
    usdPerMonth: "1000"
  hostile: { tokensPerDay: 1000000000, usdPerMonth: "1000" }
  tight: { requestsPerMinute: 300, tokensPerMinute: 50000, requestsInFlight: 2 }
  budget: { tokensPerDay: ${BUDGET_TOKENS}, usdPerMonth: "1000" }
defaultPlan: roomy
# What a caller is told must not run ahead of the engine: a 200 then always has its row.
stream: { holdMs: 60000, stallMs: ${READ_STALL_MS} }
limits: { bodyBytes: ${BODY_BYTES}, bodyBytesInMemory: ${4 * BODY_BYTES}, bodyMs: ${BODY_MS} }
queue: { maxWaitMs: 5000 }
engine: { stallMs: 1500, loadStallMs: ${LOAD_STALL_MS}, firstByteMs: 3000, silenceMs: 3000 }
ledger: { leaseMs: ${LEASE_MS}, settleWaitMs: ${SETTLE_WAIT_MS}, checkpointMs: 250, checkpointTokens: 16 }
drainMs: 1500
`;
}
