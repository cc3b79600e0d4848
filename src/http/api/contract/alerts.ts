import { z } from 'zod';
import { operations } from './operation.ts';
import { component, filterText, id, moment, newestPageQuery, pageOf, time } from './schemas.ts';

const count = z.int();
const severity = z.enum(['warning', 'critical']);
const silencedUntil = time.nullable().describe('Until when no messages are sent; null: not silenced.');

const alertMessage = z.object({
  event: z.enum(['firing', 'resolved']),
  channel: z.string().describe('`email:<address>` or `webhook:<name>`.'),
  state: z
    .enum(['pending', 'sent', 'failed', 'silenced'])
    .describe('`pending`: it will be sent, perhaps again. `failed`: it is not sent any more.'),
  attempts: count,
  sent_at: time.nullable(),
  error: z.string().nullable().describe('Why the latest attempt failed; null: none failed.'),
});

const alert = component(
  'Alert',
  z.object({
    id: z.string(),
    type: z.string(),
    severity,
    condition: z.string().describe('What is wrong: the type and its subject.'),
    title: z.string(),
    text: z.string(),
    fired_at: time,
    resolved_at: time.nullable().describe('Null: it is firing.'),
    silenced_until: silencedUntil,
    messages: z.array(alertMessage).describe('Empty: no channel was configured.'),
  }),
);

const alertSettings = component(
  'AlertSettings',
  z.object({
    firing: count.describe('Number of firing alerts, as of the latest check of this instance.'),
    channels: z.array(
      z.object({
        id: z.string().describe('`email:<address>` or `webhook:<name>`.'),
        target: z.string().describe('The address, or scheme and host of the URL.'),
      }),
    ),
    types: z.array(
      z.object({
        type: z.string(),
        severity,
        description: z.string(),
        enabled: z.boolean(),
        silenced_until: silencedUntil,
      }),
    ),
    thresholds: z.object({
      error_share: z.number(),
      error_min_requests: count,
      error_window_ms: count,
      replica_down_ms: count,
      disk_free_bytes: count,
      key_expiry_days: count,
      keep_days: count,
    }),
  }),
);

const testResults = component(
  'AlertTestResults',
  z.object({
    data: z.array(
      z.object({
        channel: z.string(),
        target: z.string(),
        error: z.string().nullable().describe('Null: the message was sent.'),
        duration_ms: count,
      }),
    ),
  }),
);

const silenceTarget = {
  type: filterText.optional().describe('A type of alerts. Either this or `alert_id` is required.'),
  alert_id: id.optional().describe('An alert. Later alerts about the same condition are silenced, too.'),
};

const silence = component(
  'AlertSilence',
  z.object({
    target: z.string().describe('The type, or the condition of the alert.'),
    silenced_until: silencedUntil,
  }),
);

export const alertOperations = operations({
  listAlerts: {
    route: 'GET /api/alerts',
    summary: 'List the alerts of all instances with their messages, newest first.',
    access: 'operator',
    query: z.strictObject(newestPageQuery),
    response: pageOf('AlertPage', alert),
  },
  readAlertSettings: {
    route: 'GET /api/alerts/settings',
    summary: 'Get the channels, types and thresholds of alerts, and the number of firing ones.',
    access: 'operator',
    response: alertSettings,
  },
  testAlerts: {
    route: 'POST /api/alerts/test',
    summary: 'Send a test message to each channel from this instance, and return the results.',
    access: 'operator',
    response: testResults,
  },
  silenceAlerts: {
    route: 'POST /api/alerts/silence',
    summary:
      'Send no messages about a type of alerts, or about one alert, until a time in the next 366 days.',
    access: 'operator',
    body: component(
      'AlertSilencing',
      z.strictObject({ ...silenceTarget, until: moment.describe('ISO 8601 with a time zone.') }),
    ),
    response: silence,
    errors: ['not_found'],
  },
  unsilenceAlerts: {
    route: 'POST /api/alerts/unsilence',
    summary: 'End a silence. Alerts that fired in the meantime and are still firing are sent.',
    access: 'operator',
    body: component('AlertUnsilencing', z.strictObject(silenceTarget)),
    response: silence,
    errors: ['not_found'],
  },
});
