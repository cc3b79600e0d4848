/** The configuration of all instances. */

export const EMBEDDED_MODEL = 'torture/embedded';
export const REPLICA_MODEL = 'torture/replicas';
/** A model whose replica reports the false usage that the prompt selects. */
export const FALSE_USAGE_MODEL = 'torture/false-usage';

/** Number of engine servers. */
export const REPLICAS = 2;

/** USD per million tokens. */
const PRICE = { prompt: '0.15', completion: '0.6', input_cache_read: '0.05' } as const;

/** Milliseconds. Short, so that many leases expire in a run. */
export const LEASE_MS = 2000;
/** Longer than an engine process takes to start on a busy machine. */
export const LOAD_STALL_MS = 10_000;
const SETTLE_WAIT_MS = 2000;

/** Maximum size of a body, in bytes. */
export const BODY_BYTES = 4_000_000;

/** Timeouts of a body and of an unread response, in milliseconds. */
const BODY_MS = 1000;
export const READ_STALL_MS = 1500;

/** Timeout of the first byte of a stream. A response that is not streamed may take longer. */
export const FIRST_BYTE_MS = 3000;
/** The wait that a replica requests with each 429. */
export const RETRY_AFTER_MS = 4000;

/** The limit of the account on the plan `budget`, which a run reaches. */
export const BUDGET_TOKENS = 20_000;

/** The variable with the signing secret of the webhook. */
export const WEBHOOK_SECRET = 'TORTURE_WEBHOOK_SECRET';

interface Addresses {
  replicaPorts: readonly number[];
  falseUsagePort: number;
  limitedPort: number;
  webhookUrl: string;
  backupDirectory: string;
}

/** Returns the configuration as YAML. */
export function configuration({
  replicaPorts,
  falseUsagePort,
  limitedPort,
  webhookUrl,
  backupDirectory,
}: Addresses): string {
  const pricing = JSON.stringify(PRICE);
  const replicas = replicaPorts.map((port) => `{ url: "http://127.0.0.1:${port}", dialect: sluice }`);
  return `
models:
  - id: ${EMBEDDED_MODEL}
    pricing: ${pricing}
    engine: { file: 'scripted:{"slots":8}' }
  - id: ${REPLICA_MODEL}
    pricing: ${pricing}
    replicas: [${replicas.join(', ')}]
  - id: ${FALSE_USAGE_MODEL}
    pricing: ${pricing}
    replicas:
      - { url: "http://127.0.0.1:${falseUsagePort}", dialect: vllm }
      - { url: "http://127.0.0.1:${limitedPort}", dialect: vllm }
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
# The status is sent only after the engine has responded, so that every 200 has a row.
stream: { holdMs: 60000, stallMs: ${READ_STALL_MS} }
limits: { bodyBytes: ${BODY_BYTES}, bodyBytesInMemory: ${24 * BODY_BYTES}, bodyMs: ${BODY_MS} }
queue: { maxWaitMs: 5000 }
engine: { stallMs: 1500, loadStallMs: ${LOAD_STALL_MS}, firstByteMs: ${FIRST_BYTE_MS}, silenceMs: 3000 }
ledger: { leaseMs: ${LEASE_MS}, settleWaitMs: ${SETTLE_WAIT_MS}, checkpointMs: 250, checkpointTokens: 16 }
drainMs: 1500
alerts:
  webhooks: [{ name: torture, url: "${webhookUrl}", secretEnv: ${WEBHOOK_SECRET} }]
  # The disk is small. It is full in one of the faults, which is the alert of the ledger.
  diskFreeBytes: 0
  replicaDownMs: 0
  errorMinRequests: 5
  errorWindowMs: 60000
backup: { everyHours: 1, keep: 7, directory: "${backupDirectory}" }
`;
}
