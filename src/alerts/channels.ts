import type { Dispatcher } from 'undici';
import type { AlertsConfig, WebhookConfig } from '../config/alerts.ts';
import type { Mailer } from '../identity/mailer.ts';
import { proxyAgent, requestWithProxy } from '../support/proxy-agent.ts';
import type { Secret } from '../support/secret.ts';
import { VERSION } from '../support/version.ts';
import { accountOfBudget } from './account-conditions.ts';
import { signedHeaders } from './signature.ts';
import type { Alert, MessageEvent } from './store.ts';
import { treatmentOf } from '../core/alert-types.ts';

/** A message for a channel. `alert` null: a test. */
export interface Message {
  /** The same for all attempts. */
  id: string;
  event: MessageEvent | 'test';
  alert: Alert | null;
}

/** Where messages are sent to. */
export interface Channel {
  /** Unique: `email:<address>` or `webhook:<name>`. */
  readonly id: string;
  /** The ID without an address, for the log and metrics. */
  readonly label: string;
  /** The address, or the origin of the URL, whose path may be a secret. */
  readonly target: string;
  /** Sends a message. Rejects with an error whose message is for operators, once it is not delivered any more. */
  send(message: Message): Promise<void>;
}

/** Returns the addresses of the owners of an account. Rejects with a `DatabaseError`. */
type OwnerAddresses = (accountId: string) => Promise<string[]>;

/** How long a webhook may take, in milliseconds. */
const SEND_MS = 15_000;
const CONNECT_MS = 5000;
/** How much of a response is read, in bytes, so that its connection can be used again. */
const RESPONSE_BYTES = 16_384;
const MAX_ERROR = 300;

interface ChannelOptions {
  settings: AlertsConfig;
  /** Values of environment variables. */
  secrets: ReadonlyMap<string, Secret>;
  /** Null: no SMTP server is configured. */
  mailer: Mailer | null;
  /** Default: owners get no messages. */
  ownerAddresses?: OwnerAddresses;
  /** Returns the URL of the service. */
  publicUrl: () => string;
  /** The variables of proxies. */
  env: NodeJS.ProcessEnv;
  /** How long a webhook may take, in milliseconds. Default: 15 s. */
  timeoutMs?: number;
}

export class Channels implements AsyncDisposable {
  /** The configured channels, which get all alerts. */
  readonly operators: readonly Channel[];
  /** These and, if they get messages, the owners of the account that an alert is about. */
  readonly all: readonly Channel[];
  #agent: Dispatcher | null = null;
  readonly #stop = new AbortController();

  constructor(options: ChannelOptions) {
    const { settings, mailer, ownerAddresses, publicUrl, env } = options;
    // An invalid variable of a proxy is an error of the message, and does not keep the service from starting.
    const agent = () =>
      (this.#agent ??= proxyAgent(env, { connect: { timeout: CONNECT_MS }, connections: 2 }));
    this.operators = [
      ...settings.email.map((to) => emailChannel(to, mailer, publicUrl, this.#stop.signal)),
      ...settings.webhooks.map((webhook) => webhookChannel(webhook, options, agent)),
    ];
    const owners =
      mailer === null || ownerAddresses === undefined || !settings.emailOwners
        ? []
        : [ownersChannel(ownerAddresses, mailer, publicUrl, this.#stop.signal)];
    this.all = [...this.operators, ...owners];
  }

  /** Returns the IDs of the channels that get alerts about this condition. */
  idsFor(condition: string): string[] {
    const channels = accountOfBudget(condition) === null ? this.operators : this.all;
    return channels.map(({ id }) => id);
  }

  of(id: string): Channel | undefined {
    return this.all.find((channel) => channel.id === id);
  }

  /** Closes connections, including those in use. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
    await this.#agent?.destroy();
  }
}

function emailChannel(
  to: string,
  mailer: Mailer | null,
  publicUrl: () => string,
  stop: AbortSignal,
): Channel {
  return {
    id: `email:${to}`,
    label: 'email',
    target: to,
    async send(message) {
      if (mailer === null) throw new Error('no SMTP server is configured');
      await deliver(mailer, to, message, `${publicUrl()}/operator/alerts`, stop);
    },
  };
}

/** Sends alerts about an account to its owners, who know each other, in one email. */
function ownersChannel(
  ownerAddresses: OwnerAddresses,
  mailer: Mailer,
  publicUrl: () => string,
  stop: AbortSignal,
): Channel {
  return {
    id: 'owners',
    label: 'owners',
    target: 'the owners of the account',
    async send(message) {
      const account = accountOfBudget(message.alert?.condition ?? '');
      const addresses = account === null ? [] : await ownerAddresses(account);
      if (addresses.length === 0) return;
      await deliver(mailer, addresses, message, `${publicUrl()}/usage?account=${account}`, stop);
    },
  };
}

async function deliver(
  mailer: Mailer,
  to: string | readonly string[],
  message: Message,
  link: string,
  stop: AbortSignal,
): Promise<void> {
  const { title, text } = wordsOf(message);
  try {
    await mailer.deliver(
      { to, subject: `[Sluice] ${title}`, text: `${text}\n\n${link}\n`, id: message.id },
      stop,
    );
  } catch (error) {
    throw new Error(reasonOf(error), { cause: error });
  }
}

function webhookChannel(
  { name, url: configured, urlEnv, format, secretEnv }: WebhookConfig,
  { secrets, publicUrl, timeoutMs = SEND_MS }: ChannelOptions,
  agent: () => Dispatcher,
): Channel {
  // `loadConfig` has checked the variables.
  const url = new URL(configured ?? secrets.get(urlEnv ?? '')?.reveal() ?? '');
  const secret = secretEnv === undefined ? undefined : secrets.get(secretEnv);
  return {
    id: `webhook:${name}`,
    label: `webhook:${name}`,
    target: url.origin,
    async send(message) {
      const atMs = Date.now();
      const body = JSON.stringify(
        format === 'slack' ? slackBody(message, publicUrl()) : jsonBody(message, atMs, publicUrl()),
      );
      const signature = secret === undefined ? {} : signedHeaders(secret, { id: message.id, atMs, body });
      const status = await post(url, body, signature, { agent: agent(), timeoutMs });
      if (status >= 300 && status < 400) {
        throw new Error(`the server responded with a redirect (status ${status}), which is not followed`);
      }
      if (status < 200 || status >= 300) throw new Error(`the server responded with status ${status}`);
    },
  };
}

/** Returns the status. Does not follow redirects. */
async function post(
  url: URL,
  body: string,
  signature: Record<string, string>,
  { agent, timeoutMs }: { agent: Dispatcher; timeoutMs: number },
): Promise<number> {
  const signal = AbortSignal.timeout(timeoutMs);
  try {
    const response = await requestWithProxy(url, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'user-agent': `sluice/${VERSION}`, ...signature },
      body,
      dispatcher: agent,
      signal,
    });
    // The status is enough; the rest is read only so that the connection can be used again.
    await response.body.dump({ limit: RESPONSE_BYTES, signal }).catch(() => {});
    return response.statusCode;
  } catch (error) {
    const reason = signal.aborted ? `no response within ${timeoutMs / 1000} s` : reasonOf(error);
    throw new Error(reason, { cause: error });
  }
}

/** The JSON body, in the form that Standard Webhooks recommends. */
function jsonBody({ event, alert }: Message, atMs: number, service: string) {
  const timestamp = new Date(atMs).toISOString();
  if (alert === null) {
    return { type: 'alert.test', timestamp, data: { ...TEST, service } };
  }
  return {
    type: `alert.${event}`,
    timestamp,
    data: {
      id: alert.id,
      alert_type: alert.type,
      condition: alert.condition,
      severity: treatmentOf(alert.type).severity,
      title: alert.title,
      text: alert.text,
      fired_at: new Date(alert.firedAt).toISOString(),
      resolved_at: alert.resolvedAt === null ? null : new Date(alert.resolvedAt).toISOString(),
      service,
    },
  };
}

/**
 * Slack reads `&`, `<` and `>` as markup. Mattermost reads Markdown links and the names of groups, such as `@all`, which
 * are harmless with a space of no width in them.
 */
function slackBody(message: Message, service: string): { text: string } {
  const { title, text } = wordsOf(message);
  const escaped = `*${title}*\n${text}\n${service}/operator/alerts`
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll(/(?<!\w)@|\](?=\()/g, '$&\u200b');
  return { text: escaped };
}

const TEST = {
  title: 'Test of the alerts',
  text: 'This is a test. Alerts of this Sluice service are sent here.',
};

function wordsOf({ event, alert }: Message): { title: string; text: string } {
  if (alert === null) return TEST;
  const { title, text } = alert;
  if (event === 'firing') return { title, text };
  return { title: `Resolved: ${title}`, text: 'This is over: no instance has found it again.' };
}

/** Returns the reason of a failure in one line. */
function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return 'unknown error';
  const { message } = error.message === '' && error.cause instanceof Error ? error.cause : error;
  const code = 'code' in error && typeof error.code === 'string' ? error.code : 'failed';
  return (message || code).replaceAll(/[\p{Cc}\s]+/gu, ' ').slice(0, MAX_ERROR);
}
