import { isIP } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import type { Transporter } from 'nodemailer';
import type { SmtpConfig } from '../config/schema.ts';
import type { Log } from '../support/log.ts';
import type { Secret } from '../support/secret.ts';

/** How long a mail server may take to respond to a new connection, in milliseconds. */
const CONNECT_MS = 15_000;
/** How long emails may take when the service stops, in milliseconds. */
const LAST_MS = 15_000;

/** Sends emails through the configured SMTP server. */
export class Mailer implements AsyncDisposable {
  readonly #smtp: SmtpConfig;
  readonly #password: Secret | undefined;
  readonly #log: Log;
  readonly #sending = new Set<Promise<void>>();
  readonly #stop = new AbortController();
  #transport: Promise<Transporter> | null = null;

  constructor(smtp: SmtpConfig, password: Secret | undefined, log: Log) {
    this.#smtp = smtp;
    this.#password = password;
    this.#log = log;
  }

  /** Sends an email in the background. Failures are logged, without the recipient. */
  send(email: Email): void {
    const sending = this.deliver(email)
      .catch((error: Error) => this.#log.warn('email not sent', { error: withoutAddresses(error.message) }))
      .finally(() => this.#sending.delete(sending));
    this.#sending.add(sending);
  }

  /**
   * Sends an email. Rejects if the mail server does not accept it, and when `signal` is aborted. Waits for 10 minutes for
   * each response, because a server that has the email may deliver it even after the sender has given up
   * (https://www.rfc-editor.org/rfc/rfc5321#section-4.5.3.2.6).
   */
  async deliver({ id, to, ...email }: Email, signal?: AbortSignal): Promise<void> {
    this.#transport ??= this.#open();
    const { from } = this.#smtp;
    const [, domain] = /@([^\s<>]+)>?$/.exec(from) ?? [];
    await (
      await this.#transport
    ).sendMail({
      from,
      ...email,
      // Not a text, in which an address could name others.
      to: [to].flat().map((address) => ({ name: '', address })),
      ...(id !== undefined && domain !== undefined && { messageId: `<${id}@${domain}>` }),
      signal: signal ?? this.#stop.signal,
    });
  }

  /** Waits for emails that are being sent, for at most 15 seconds. */
  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.race([Promise.allSettled(this.#sending), pause(LAST_MS, null, { ref: false })]);
    this.#stop.abort();
    (await this.#transport?.catch(() => null))?.close();
  }

  async #open(): Promise<Transporter> {
    const { createTransport } = await import('nodemailer');
    const { host, port, secure, user } = this.#smtp;
    return createTransport({
      host,
      port,
      secure,
      requireTLS: !secure && !isThisMachine(host),
      ...(user !== undefined && this.#password && { auth: { user, pass: this.#password.reveal() } }),
      connectionTimeout: CONNECT_MS,
      greetingTimeout: CONNECT_MS,
      disableFileAccess: true,
      disableUrlAccess: true,
    });
  }
}

/** Replaces email addresses, which mail servers repeat in their responses. For the log. */
export function withoutAddresses(text: string): string {
  return text.replaceAll(/[^\s<>@]+@[^\s<>@]+/g, '…');
}

/** Connections within this machine need no TLS. */
function isThisMachine(host: string): boolean {
  return host === 'localhost' || host === '::1' || (isIP(host) === 4 && host.startsWith('127.'));
}

/** Emails to users. Plain text, so that links can be checked before they are opened. */

export interface Email {
  /** Identifies the email if it is sent again, so that its receiver can ignore it. */
  id?: string;
  /** One address, or several, whose owners see each other. */
  to: string | readonly string[];
  subject: string;
  text: string;
}

export function resetEmail({ email, name }: { email: string; name: string }, link: string): Email {
  return {
    to: email,
    subject: 'Reset your Sluice password',
    text: `Hello ${name},

Open this link to set a new password for Sluice:

${link}

The link works once and expires after one hour.

If you did not request a new password, ignore this email. Your password has not changed.
`,
  };
}

export function invitationEmail(
  { email, expires_at: expiresAt }: { email: string; expires_at: number },
  accountName: string,
  link: string,
): Email {
  const until = new Date(expiresAt).toISOString().slice(0, 10);
  return {
    to: email,
    subject: `Join ${accountName} on Sluice`,
    text: `Hello,

You have been invited to join the account ${accountName} on Sluice. Open this link to accept the invitation:

${link}

The link works once and expires on ${until}.

If you did not expect this invitation, ignore this email.
`,
  };
}
