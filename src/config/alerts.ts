import { z } from 'zod';
import { ALERT_TYPES } from '../core/alert-types.ts';
import { section, serverUrl, variableName, whole } from './model.ts';

/** The signing secret of a webhook: the base64 of 24 to 64 bytes. Groups: the base64. */
export const WEBHOOK_SECRET =
  /^(?:whsec_)?((?:[A-Za-z0-9+/]{4}){8,21}(?:[A-Za-z0-9+/]{2}==)?|(?:[A-Za-z0-9+/]{4}){8,20}[A-Za-z0-9+/]{3}=)$/;

const webhook = z
  .strictObject({
    name: z
      .string()
      .regex(/^[a-z0-9][a-z0-9-]{0,31}$/, 'expected lowercase letters, digits and "-"')
      .describe('Name of the webhook in the console, in metrics and in the log.'),
    url: serverUrl
      .optional()
      .describe(
        'URL that alerts are sent to. It may be a private address. Either this or `urlEnv` is required.',
      ),
    urlEnv: variableName
      .optional()
      .describe(
        'Name of the environment variable with the URL, if the URL itself is a secret, as with Slack.',
      ),
    format: z
      .enum(['json', 'slack'])
      .default('json')
      .describe(
        '`json`: a signed JSON object. `slack`: only `{"text": …}`, as incoming webhooks of Slack and Mattermost expect.',
      ),
    secretEnv: variableName
      .optional()
      .describe(
        'Name of the environment variable with the signing secret: `whsec_` and the base64 of 24 to 64 bytes. Required for `json`.',
      ),
  })
  .refine(({ url, urlEnv }) => (url === undefined) !== (urlEnv === undefined), {
    error: 'expected either `url` or `urlEnv`',
    path: ['url'],
  })
  .refine(({ format, secretEnv }) => (format === 'json') === (secretEnv !== undefined), {
    error:
      'expected the name of a variable for `format: json`, and none for `slack`, which checks no signature',
    path: ['secretEnv'],
  });

export const alertsSchema = section(
  'Alerts by email and webhook: see docs/alerts.md. Without recipients, alerts are only shown in the console.',
  {
    email: z
      .array(z.email('expected an email address').max(254))
      .max(20)
      .refine((list) => new Set(list).size === list.length, 'expected each address once')
      .default([])
      .describe('Email addresses that alerts are sent to, each in its own email. Requires `smtp`.'),
    emailOwners: z
      .boolean()
      .default(true)
      .describe(
        'Whether the owners of an account get an email when it has used 80% and 100% of a limit per day or month. Requires `smtp`.',
      ),
    webhooks: z
      .array(webhook)
      .max(20)
      .refine((list) => new Set(list.map(({ name }) => name)).size === list.length, 'expected unique names')
      .default([])
      .describe('Webhooks that alerts are sent to.'),
    disabled: z
      .array(z.enum(ALERT_TYPES))
      .default([])
      .describe('Types of alerts that are off. Default: all types are on.'),
    errorShare: z
      .number()
      .min(0.001)
      .max(1)
      .default(0.2)
      .describe(
        'Share of the requests to a model, or to the whole service, that must fail for `error_rate`, 0.001 to 1. Only failures of the service count: status 500 and above.',
      ),
    errorMinRequests: whole(1, 1_000_000)
      .default(20)
      .describe('Minimum number of requests in `errorWindowMs` for `error_rate`.'),
    errorWindowMs: whole(60_000, 86_400_000)
      .default(300_000)
      .describe('Period over which `error_rate` counts the requests of an instance, in milliseconds.'),
    replicaDownMs: whole(0, 86_400_000)
      .default(60_000)
      .describe('How long a replica must be down or paused for `replica_down`, in milliseconds.'),
    diskFreeBytes: whole(0)
      .default(1_073_741_824)
      .describe('Free space on the disk of the data directory below which `disk_low` fires, in bytes.'),
    keyExpiryDays: whole(1, 365)
      .default(7)
      .describe(
        'Days before the expiry of a key at which `key_expiring` fires. Keys that were created with less time are left out.',
      ),
    keepDays: whole(32, 3650)
      .default(90)
      .describe(
        'Number of days for which resolved alerts are kept. At least 32, so that a budget alert is sent once a month.',
      ),
  },
);

export type AlertsConfig = z.output<typeof alertsSchema>;
export type WebhookConfig = AlertsConfig['webhooks'][number];
