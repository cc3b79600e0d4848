import type { ListedAlert, SilenceTarget } from '../../alerts/store.ts';
import { ALERT_TYPES, ALERTS, treatmentOf } from '../../core/alert-types.ts';
import { alertOperations } from './contract/alerts.ts';
import { endpoints } from './endpoint.ts';
import { iso, pageJson } from './json.ts';

export const alertEndpoints = endpoints(alertOperations, {
  listAlerts: async ({ context, query }) => pageJson(await context.alerts.store.list(query), alertJson),
  readAlertSettings: async ({ context: { alerts } }) => {
    const { settings, channels, firing, store } = alerts;
    const silences = new Map((await store.silences()).map(({ target, until }) => [target, until]));
    return {
      firing,
      channels: channels.operators.map(({ id, target }) => ({ id, target })),
      types: ALERT_TYPES.map((type) => ({
        type,
        severity: ALERTS[type].severity,
        description: ALERTS[type].description,
        enabled: !settings.disabled.includes(type),
        silenced_until: iso(silences.get(type) ?? null),
      })),
      thresholds: {
        error_share: settings.errorShare,
        error_min_requests: settings.errorMinRequests,
        error_window_ms: settings.errorWindowMs,
        replica_down_ms: settings.replicaDownMs,
        disk_free_bytes: settings.diskFreeBytes,
        key_expiry_days: settings.keyExpiryDays,
        keep_days: settings.keepDays,
      },
    };
  },
  testAlerts: async ({ context, actor }) => ({
    data: (await context.alerts.test(actor)).map(({ channel, target, error, durationMs }) => ({
      channel,
      target,
      error,
      duration_ms: durationMs,
    })),
  }),
  silenceAlerts: async ({ context, actor, body }) => {
    const { target, until } = await context.alerts.store.silence(
      targetIn(body),
      Date.parse(body.until),
      actor,
    );
    return { target, silenced_until: iso(until) };
  },
  unsilenceAlerts: async ({ context, actor, body }) => {
    const target = await context.alerts.store.unsilence(targetIn(body), actor);
    return { target, silenced_until: null };
  },
});

function targetIn(body: { type?: string | undefined; alert_id?: string | undefined }): SilenceTarget {
  return { type: body.type, alertId: body.alert_id };
}

export function alertJson(alert: ListedAlert) {
  return {
    id: alert.id,
    type: alert.type,
    severity: treatmentOf(alert.type).severity,
    condition: alert.condition,
    title: alert.title,
    text: alert.text,
    fired_at: iso(alert.firedAt),
    resolved_at: iso(alert.resolvedAt),
    silenced_until: iso(alert.silencedUntil),
    messages: alert.messages.map(({ event, channel, state, attempts, sentAt, error }) => ({
      event,
      channel,
      state,
      attempts,
      sent_at: iso(sentAt),
      error,
    })),
  };
}
