import { isIP } from 'node:net';
import type { Transporter } from 'nodemailer';
import type { SmtpConfig } from '../config/schema.ts';
import type { Log } from '../log.ts';
import type { Secret } from '../secret.ts';

const TIMEOUT_MS = 15_000;

/** Sends emails through the configured SMTP server. */
export class Mailer implements AsyncDisposable {
  readonly #smtp: SmtpConfig;
  readonly #password: Secret | undefined;
  readonly #log: Log;
  readonly #sending = new Set<Promise<void>>();
  #transport: Promise<Transporter> | null = null;

  constructor(smtp: SmtpConfig, password: Secret | undefined, log: Log) {
    this.#smtp = smtp;
    this.#password = password;
    this.#log = log;
  }

  /** Sends an email in the background. Failures are logged, without the recipient. */
  send(email: Email): void {
    const sending = this.deliver(email)
      .catch((error: Error) => this.#log.warn('email not sent', { error }))
      .finally(() => this.#sending.delete(sending));
    this.#sending.add(sending);
  }

  /** Sends an email. Rejects if the mail server does not accept it. */
  async deliver(email: Email): Promise<void> {
    this.#transport ??= this.#open();
    await (await this.#transport).sendMail({ from: this.#smtp.from, ...email });
  }

  /** Waits for emails that are being sent. */
  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.allSettled(this.#sending);
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
      connectionTimeout: TIMEOUT_MS,
      greetingTimeout: TIMEOUT_MS,
      socketTimeout: TIMEOUT_MS,
      disableFileAccess: true,
      disableUrlAccess: true,
    });
  }
}

/** Connections within this machine need no TLS. */
function isThisMachine(host: string): boolean {
  return host === 'localhost' || host === '::1' || (isIP(host) === 4 && host.startsWith('127.'));
}

/** Emails to users. Plain text, so that links can be checked before they are opened. */

export interface Email {
  to: string;
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
