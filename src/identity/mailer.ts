import { isIP } from 'node:net';
import type { Transporter } from 'nodemailer';
import type { SmtpConfig } from '../config/schema.ts';
import type { Log } from '../log.ts';
import type { Secret } from '../secret.ts';
import type { Email } from './emails.ts';

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
    const sending = this.#deliver(email)
      .catch((error: Error) => this.#log.warn('email not sent', { error }))
      .finally(() => this.#sending.delete(sending));
    this.#sending.add(sending);
  }

  /** Waits for emails that are being sent. */
  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.allSettled(this.#sending);
    (await this.#transport?.catch(() => null))?.close();
  }

  async #deliver(email: Email): Promise<void> {
    this.#transport ??= this.#open();
    await (await this.#transport).sendMail({ from: this.#smtp.from, ...email });
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
