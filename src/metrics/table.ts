/** A metric of `GET /metrics`. */
export interface Metric {
  readonly name: string;
  readonly type: 'counter' | 'gauge' | 'histogram' | 'summary';
  readonly help: string;
  readonly labels: readonly string[];
  /** Upper bounds of the buckets of a histogram, ascending, without infinity. */
  readonly buckets?: readonly number[];
}

/** The buckets of vLLM's histograms, so that its dashboards work once the metric names in them are replaced. */
const TTFT_BUCKETS = [
  0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640,
  2560,
] as const;
const TOKEN_BUCKETS = [
  0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80,
] as const;
const REQUEST_BUCKETS = [
  0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680,
] as const;

const DELAY_BUCKETS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10] as const;

/** All metrics. `docs/metrics.md` has the same table. */
export const METRICS = {
  requests: {
    name: 'sluice_requests_total',
    type: 'counter',
    help: 'Generation requests that have ended, including refused ones. `code` is the error code, `client_disconnected` if the client disconnected, or `ok`. `status` is the HTTP status; for a stream that failed after its 200 was sent, the status that its error would otherwise have had.',
    labels: ['model', 'endpoint', 'status', 'code'],
  },
  timeToFirstToken: {
    name: 'sluice_time_to_first_token_seconds',
    type: 'histogram',
    help: 'Time from the arrival of a request to its first token.',
    labels: ['model'],
    buckets: TTFT_BUCKETS,
  },
  interToken: {
    name: 'sluice_inter_token_seconds',
    type: 'histogram',
    help: 'Average time between two tokens of a response: one observation per response with at least two tokens.',
    labels: ['model'],
    buckets: TOKEN_BUCKETS,
  },
  duration: {
    name: 'sluice_request_duration_seconds',
    type: 'histogram',
    help: 'Time from the arrival of a request to its end. Only requests that were sent to a replica.',
    labels: ['model'],
    buckets: REQUEST_BUCKETS,
  },
  queueWait: {
    name: 'sluice_queue_wait_seconds',
    type: 'histogram',
    help: 'Time from the arrival of a request until it has a slot or, on servers that do not report slots, until it is sent.',
    labels: ['model'],
    buckets: REQUEST_BUCKETS,
  },
  promptTokens: {
    name: 'sluice_prompt_tokens_total',
    type: 'counter',
    help: 'Prompt tokens of requests that have ended, including cached ones.',
    labels: ['model'],
  },
  cachedTokens: {
    name: 'sluice_cached_prompt_tokens_total',
    type: 'counter',
    help: 'Prompt tokens that replicas reported as read from their prefix cache.',
    labels: ['model'],
  },
  completionTokens: {
    name: 'sluice_completion_tokens_total',
    type: 'counter',
    help: 'Completion tokens of requests that have ended.',
    labels: ['model'],
  },
  cost: {
    name: 'sluice_cost_usd_total',
    type: 'counter',
    help: 'Cost charged to accounts, in USD.',
    labels: ['model'],
  },
  retries: {
    name: 'sluice_retries_total',
    type: 'counter',
    help: 'Times that a request was sent to another replica because the previous one failed or refused it before any token.',
    labels: ['model'],
  },
  continuations: {
    name: 'sluice_continuations_total',
    type: 'counter',
    help: 'Times that another replica, or the restarted engine, continued a response after a failure.',
    labels: ['model'],
  },
  denials: {
    name: 'sluice_limit_denials_total',
    type: 'counter',
    help: 'Requests refused by a limit of a plan or a key. `limit` is its setting, such as `tokensPerMinute`.',
    labels: ['model', 'limit'],
  },
  running: {
    name: 'sluice_requests_running',
    type: 'gauge',
    help: 'Requests of this instance that are being processed by replicas.',
    labels: ['model'],
  },
  waiting: {
    name: 'sluice_requests_waiting',
    type: 'gauge',
    help: 'Requests that are waiting until a replica has room.',
    labels: ['model'],
  },
  replicaState: {
    name: 'sluice_replica_state',
    type: 'gauge',
    help: '1 for the current state of a replica (`downloading`, `loading`, `ready`, `paused`, `drained`, `unloaded`, `idle` or `down`), 0 for the others. `paused`: the circuit breaker is open, or the server responded with 429.',
    labels: ['model', 'replica', 'state'],
  },
  breakerPauses: {
    name: 'sluice_replica_breaker_pauses_total',
    type: 'counter',
    help: 'Times that the circuit breaker has paused a replica, including after failed trials.',
    labels: ['model', 'replica'],
  },
  replicaRunning: {
    name: 'sluice_replica_requests_running',
    type: 'gauge',
    help: 'Requests of this instance that a replica is processing.',
    labels: ['model', 'replica'],
  },
  slots: {
    name: 'sluice_replica_slots',
    type: 'gauge',
    help: 'Slots of a replica. Missing for servers that do not report them.',
    labels: ['model', 'replica'],
  },
  slotsInUse: {
    name: 'sluice_replica_slots_in_use',
    type: 'gauge',
    help: 'Slots of a replica that are in use, including those used by other instances. Missing for servers that do not report them.',
    labels: ['model', 'replica'],
  },
  replicaQueued: {
    name: 'sluice_replica_requests_queued',
    type: 'gauge',
    help: 'Requests that are waiting inside a replica. Missing for servers that do not report them.',
    labels: ['model', 'replica'],
  },
  replicaPrefill: {
    name: 'sluice_replica_prefill_tokens',
    type: 'gauge',
    help: 'Tokens of prompts of this instance that a replica has been processing for more than a second. 0 if there are none, or if the server does not report them.',
    labels: ['model', 'replica'],
  },
  replicaPrefillDone: {
    name: 'sluice_replica_prefill_done_tokens',
    type: 'gauge',
    help: 'How many of the tokens in `sluice_replica_prefill_tokens` are computed or were cached.',
    labels: ['model', 'replica'],
  },
  draftTokens: {
    name: 'sluice_engine_draft_tokens_total',
    type: 'counter',
    help: 'Tokens that an embedded engine has drafted from repetitions, since its process started. Missing for other servers.',
    labels: ['model', 'replica'],
  },
  acceptedDraftTokens: {
    name: 'sluice_engine_accepted_draft_tokens_total',
    type: 'counter',
    help: 'Drafted tokens that were the same as the sampled ones, and so became part of a completion. Missing for other servers.',
    labels: ['model', 'replica'],
  },
  replicaMemory: {
    name: 'sluice_replica_memory_bytes',
    type: 'gauge',
    help: 'Resident memory of the process of a replica. Missing for servers that do not report it.',
    labels: ['model', 'replica'],
  },
  conversations: {
    name: 'sluice_engine_conversations',
    type: 'gauge',
    help: 'Conversations that lost their slot in an embedded engine and are kept in files.',
    labels: ['model', 'replica'],
  },
  conversationBytes: {
    name: 'sluice_engine_conversation_bytes',
    type: 'gauge',
    help: 'Size of these files.',
    labels: ['model', 'replica'],
  },
  conversationSaves: {
    name: 'sluice_engine_conversation_saves_total',
    type: 'counter',
    help: 'Conversations that were saved since the engine started.',
    labels: ['model', 'replica'],
  },
  conversationLoads: {
    name: 'sluice_engine_conversation_loads_total',
    type: 'counter',
    help: 'Conversations that were loaded, instead of computed again, since the engine started.',
    labels: ['model', 'replica'],
  },
  conversationLoadSeconds: {
    name: 'sluice_engine_conversation_load_seconds_total',
    type: 'counter',
    help: 'Total time of these loads.',
    labels: ['model', 'replica'],
  },
  engineRestarts: {
    name: 'sluice_engine_restarts_total',
    type: 'counter',
    help: 'Restarts of an embedded engine process.',
    labels: ['model', 'replica'],
  },
  modelSwaps: {
    name: 'sluice_model_swaps_total',
    type: 'counter',
    help: 'Embedded models that were unloaded because another one needed their memory.',
    labels: [],
  },
  ledgerWrites: {
    name: 'sluice_ledger_write_seconds',
    type: 'summary',
    help: 'Duration of ledger writes: each is one transaction with the rows of many requests.',
    labels: [],
  },
  ledgerRows: {
    name: 'sluice_ledger_rows_total',
    type: 'counter',
    help: 'Rows that the ledger has written: opened and settled requests, and checkpoints.',
    labels: [],
  },
  ledgerFailures: {
    name: 'sluice_ledger_write_failures_total',
    type: 'counter',
    help: 'Ledger writes that failed or were refused by the database.',
    labels: [],
  },
  ledgerLag: {
    name: 'sluice_ledger_lag_seconds',
    type: 'gauge',
    help: 'How long the current ledger write or database outage has lasted; 0 if there is none.',
    labels: [],
  },
  ledgerWritable: {
    name: 'sluice_ledger_writable',
    type: 'gauge',
    help: '1 if the ledger can be written; 0 if new requests get 503 `storage_unavailable`.',
    labels: [],
  },
  limitsReachable: {
    name: 'sluice_limits_store_reachable',
    type: 'gauge',
    help: '1 if the Valkey or Redis server for limits is reachable, or none is configured; otherwise 0.',
    labels: [],
  },
  alertsFiring: {
    name: 'sluice_alerts_firing',
    type: 'gauge',
    help: 'Alerts of all instances that are firing, as of the latest check.',
    labels: [],
  },
  alertMessages: {
    name: 'sluice_alert_messages_total',
    type: 'counter',
    help: 'Attempts to send a message about an alert: `sent` or `failed`. A failed message is sent again later.',
    labels: ['channel', 'outcome'],
  },
  memory: {
    name: 'sluice_memory_bytes',
    type: 'gauge',
    help: 'Memory of the service process, without engines: `resident`, `heap_used`, `heap_total`, or `external` to the JavaScript heap.',
    labels: ['type'],
  },
  eventLoopDelay: {
    name: 'sluice_event_loop_delay_seconds',
    type: 'histogram',
    help: 'How late a timer of the event loop ran: one observation every 50 ms. Includes up to 1 ms of rounding.',
    labels: [],
    buckets: DELAY_BUCKETS,
  },
} as const satisfies Record<string, Metric>;
