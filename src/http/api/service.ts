import { statfs } from 'node:fs/promises';
import { setTimeout as pause } from 'node:timers/promises';
import type { z } from 'zod';
import { namesOf } from '../../accounts/names.ts';
import { drainReplica, resumeReplica } from '../../accounts/drained-replicas.ts';
import { recordAudit } from '../../accounts/audit.ts';
import { perMillionText } from '../../accounts/ledger/cost.ts';
import { countInstances } from '../../accounts/ledger/instance.ts';
import type { AccountDatabase } from '../../accounts/store.ts';
import { recommendedJson } from '../../core/sampling.ts';
import { prefillJson } from './receipt-json.ts';
import type { Router } from '../../routing/router.ts';
import type { ReplicaState } from '../../routing/replica.ts';
import type { ModelOverview, ReplicaOverview } from '../../routing/served-model.ts';
import type { HttpContext } from '../context.ts';
import { serviceOperations, type accountLoad, type replica, type servedModel } from './contract/service.ts';
import { endpoints } from './endpoint.ts';
import { iso, pageJson } from './json.ts';

export const serviceEndpoints = endpoints(serviceOperations, {
  listServedModels: async ({ context, principal }) => {
    const mayUse = ({ id }: ModelOverview) => principal.key?.models?.has(id) !== false;
    const items = context.router.overview().filter(mayUse);
    const data = await Promise.all(items.map((model) => modelJson(context, model, principal.operator)));
    return { data, next_cursor: null };
  },
  listEngines: async ({ context }) =>
    pageJson({ items: context.router.reports(), nextCursor: null }, replicaJson),
  restartEngine: async ({ database, context, actor, body }) => {
    const model = context.router.model(body.model);
    const target = model.replica(body.name);
    target.assertRestartable();
    await recordAudit(database, actor, {
      action: 'engine.restart',
      subject: `engine:${model.id}`,
      detail: { replica: body.name },
    });
    target.restart();
    return replicaJson(model.report(target));
  },
  drainReplica: async ({ database, context, actor, body: { model: id, name } }) => {
    const model = context.router.model(id);
    const target = model.replica(name);
    await drainReplica(database, { model: id, server: target.server }, actor);
    await context.drains.refresh();
    return replicaJson(model.report(target));
  },
  resumeReplica: async ({ database, context, actor, body: { model: id, name } }) => {
    const model = context.router.model(id);
    const target = model.replica(name);
    await resumeReplica(database, { model: id, server: target.server }, actor);
    await context.drains.refresh();
    return replicaJson(model.report(target));
  },
  readLoad: async ({ database, context }) => {
    const models = context.router.overview();
    return {
      instance: context.installation.instance,
      instances: await nullIfUnavailable(countInstances(database)),
      in_flight: models.reduce((sum, model) => sum + inFlight(model), 0),
      waiting: models.reduce((sum, { waiting }) => sum + waiting, 0),
      accounts: await accountsJson(database, context.router),
      seconds: context.load.lastSeconds().map((second) => ({
        at: iso(second.atMs),
        requests: second.requests,
        errors: second.errors,
        prompt_tokens: second.promptTokens,
        completion_tokens: second.completionTokens,
        ttft_ms: second.ttftMs,
      })),
    };
  },
  readHealth: async ({ database, limiter, context }) => {
    const { installation, version } = context;
    const [instances, disk] = await Promise.all([
      nullIfUnavailable(countInstances(database)),
      nullIfUnavailable(statfs(installation.home)),
    ]);
    return {
      version,
      node_version: process.versions.node,
      started_at: iso(installation.startedAt),
      instance: installation.instance,
      instances,
      database: databaseJson(database, context, instances !== null),
      ledger: ledgerJson(context),
      refused_requests: context.inference.crashSuspects.refused.map((suspect) => ({
        request_id: suspect.requestId,
        account_id: suspect.accountId,
        key_id: suspect.keyId,
        model: suspect.model,
        crashes: suspect.crashes,
        refused_until: iso(suspect.expiresAt),
      })),
      limits_store: { kind: limiter.store, reachable: limiter.reachable },
      disk: {
        free_bytes: disk && disk.bavail * disk.bsize,
        total_bytes: disk && disk.blocks * disk.bsize,
      },
      backup: installation.backups && backupJson(installation.backups.status),
      mail: installation.mail,
      providers: [...installation.providers],
      recommended_model: installation.recommendedModel && {
        id: installation.recommendedModel.id,
        size_bytes: installation.recommendedModel.sizeBytes,
        memory_bytes: installation.recommendedModel.memoryBytes,
      },
    };
  },
});

function backupJson(status: NonNullable<HttpContext['installation']['backups']>['status']) {
  return {
    every_hours: status.everyHours,
    keep: status.keep,
    last_at: iso(status.lastAt),
    failed_at: iso(status.failedAt),
    reason: status.reason,
  };
}

const MAX_ACCOUNTS = 100;

async function accountsJson(
  database: AccountDatabase,
  router: Router,
): Promise<z.input<typeof accountLoad>[]> {
  const accounts = router.accounts().slice(0, MAX_ACCOUNTS);
  const ids = accounts.map(({ accountId }) => accountId);
  const names = await nullIfUnavailable(namesOf(database, 'accounts', ids));
  return accounts.map(({ model, accountId, running, waiting, weight }) => ({
    model,
    account_id: accountId,
    account_name: names?.get(accountId) ?? null,
    running,
    waiting,
    weight,
  }));
}

const TIMEOUT_MS = 2000;

/** Returns null if the check fails or takes too long. */
async function nullIfUnavailable<T>(check: Promise<T>): Promise<T | null> {
  return await Promise.race([check.catch(() => null), pause(TIMEOUT_MS, null, { ref: false })]);
}

type UnpausedState = Exclude<ReplicaState, { state: 'paused' | 'drained' }>;

type Progress = Pick<
  z.input<typeof servedModel>,
  'state' | 'fraction' | 'received_bytes' | 'total_bytes' | 'reason' | 'retry_in_ms'
>;

const PROGRESS = { fraction: null, received_bytes: null, total_bytes: null, reason: null, retry_in_ms: null };

function progressOf(state: UnpausedState): Progress {
  switch (state.state) {
    case 'ready':
      return { ...PROGRESS, state: 'ready' };
    case 'loading':
      return { ...PROGRESS, state: 'loading', fraction: state.fraction, reason: state.waitsFor ?? null };
    case 'downloading': {
      const { receivedBytes = null, totalBytes = null } = state.pull ?? {};
      const fraction = receivedBytes !== null && totalBytes ? receivedBytes / totalBytes : null;
      return {
        ...PROGRESS,
        state: 'downloading',
        fraction,
        received_bytes: receivedBytes,
        total_bytes: totalBytes,
      };
    }
    case 'unloaded':
    case 'idle':
      return { ...PROGRESS, state: state.state };
    case 'down':
      return { ...PROGRESS, state: 'down', reason: state.reason, retry_in_ms: state.retryInMs };
  }
}

const READY = { state: 'ready' } as const;
const DRAINED = { state: 'down', reason: 'drained', retryInMs: null } as const;

/** Returns the state of a model whose replicas are all in this state. */
function modelStateOf(state: ReplicaState): UnpausedState {
  switch (state.state) {
    // A paused replica still gets requests if no other is ready.
    case 'paused':
      return READY;
    case 'drained':
      return DRAINED;
    default:
      return state;
  }
}

/** Replica states, from ready to down. The state of a model is the first of these that one of its replicas has. */
const BY_PROGRESS = ['ready', 'idle', 'loading', 'downloading', 'unloaded', 'down'] as const;

export async function modelJson(
  { router, registry }: HttpContext,
  overview: ModelOverview,
  operator: boolean,
): Promise<z.input<typeof servedModel>> {
  const model = router.model(overview.id);
  // Read before the details, because the model may be removed in the meantime.
  const { modality, ...origin } = registry.origin(overview.id);
  const isDefault = router.defaultModel === overview.id;
  const details = operator ? await registry.details(overview.id) : null;
  const { price } = model;
  const card = model.card();
  const states = overview.replicas.map(({ state }) => modelStateOf(state));
  const furthest = BY_PROGRESS.flatMap((name) => states.find(({ state }) => state === name) ?? [])[0];
  const progress = progressOf(furthest ?? { state: 'down', reason: 'no replicas', retryInMs: null });
  return {
    id: overview.id,
    required: overview.required,
    ...progress,
    reason: operator ? progress.reason : null,
    waiting: overview.waiting,
    in_flight: inFlight(overview),
    replicas: states.length,
    replicas_ready: overview.replicas.filter(({ state }) => state.state === 'ready').length,
    pricing: {
      prompt: perMillionText(price.prompt),
      completion: perMillionText(price.completion),
      input_cache_read: price.inputCacheRead === null ? null : perMillionText(price.inputCacheRead),
    },
    context_length: card?.context_length ?? null,
    max_completion_tokens: card?.max_completion_tokens ?? null,
    quantization: card?.quantization ?? null,
    modality: card?.architecture.modality ?? modality,
    instruct_type: card?.architecture.instruct_type ?? null,
    recommended_sampling: recommendedJson(card?.recommendedSampling ?? {}),
    is_default: isDefault,
    ...origin,
    source: details?.source ?? null,
    aliases: [...(details?.aliases ?? [])],
    context_tokens: details?.contextTokens ?? null,
    size_bytes: details?.sizeBytes ?? null,
    keep: details?.keep ?? null,
    downloaded: details?.downloaded ?? null,
    license: details?.license ?? null,
    memory_bytes: details?.memoryBytes ?? null,
    deletes_file: details?.deletesFile ?? null,
    tools: card?.tools ?? null,
    reasoning: card?.reasoning ?? null,
  };
}

function inFlight({ replicas }: ModelOverview): number {
  return replicas.reduce((sum, replica) => sum + replica.inFlight, 0);
}

function replicaStateJson(state: ReplicaState) {
  switch (state.state) {
    case 'paused':
      return { ...PROGRESS, state: state.state, reason: state.reason, retry_in_ms: state.retryInMs };
    case 'drained':
      return { ...PROGRESS, state: state.state };
    default:
      return progressOf(state);
  }
}

function replicaJson(overview: ReplicaOverview): z.input<typeof replica> {
  const { health, tokensPerSecond } = overview;
  return {
    model: overview.model,
    name: overview.name,
    url: overview.address,
    dialect: overview.dialect,
    ...replicaStateJson(overview.state),
    drained: overview.drained,
    restartable: overview.restartable,
    in_flight: overview.inFlight,
    slots: health?.slots ?? null,
    slots_in_use: health?.slotsInUse ?? null,
    queued: health?.queued ?? null,
    prefill: prefillJson(overview.prefill),
    cache_usage: health?.cacheUsage ?? null,
    tokens_per_second: tokensPerSecond === null ? null : Math.round(tokensPerSecond * 10) / 10,
    prompt_tokens: health?.promptTokens ?? null,
    cached_tokens: health?.cachedTokens ?? null,
    completion_tokens: health?.completionTokens ?? null,
    draft_tokens: health?.draftTokens ?? null,
    accepted_draft_tokens: health?.acceptedDraftTokens ?? null,
    memory_bytes: health?.memoryBytes ?? null,
    conversations: health?.conversations ? conversationsJson(health.conversations) : null,
    restarts: overview.restarts,
    started_at: iso(overview.startedAt),
    backend: overview.backend,
    output: [...overview.output],
  };
}

type Conversations = NonNullable<NonNullable<ReplicaOverview['health']>['conversations']>;

function conversationsJson({ entries, bytes, saves, loads, loadMs }: Conversations) {
  return { entries, bytes, saves, loads, load_ms: loadMs };
}

function databaseJson({ location }: AccountDatabase, { inference }: HttpContext, reachable: boolean) {
  return {
    kind: location.kind,
    reachable,
    writable: reachable && inference.accounting.ledger.health.writable,
  };
}

function ledgerJson({ inference }: HttpContext) {
  const { health } = inference.accounting.ledger;
  if (health.writable) return { writable: true, failing_for_ms: null, waiting: 0, reason: null };
  return {
    writable: false,
    failing_for_ms: health.sinceMs,
    waiting: health.waiting,
    reason: health.reason,
  };
}
