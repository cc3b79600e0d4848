import { isIP } from 'node:net';
import type { Transporter } from 'nodemailer';
import type { SmtpConfig } from '../config/schema.ts';
import type { Log } from '../log.ts';
import type { Secret } from '../secret.ts';
import type { Message } from './messages.ts';

/** How long the server may be silent, in milliseconds. */
const SILENCE_MS = 15_000;

/** Sends messages through the mail server of the configuration. */
export class Mailer implements AsyncDisposable {
  readonly #smtp: SmtpConfig;
  readonly #password: Secret | undefined;
  readonly #log: Log;
  readonly #running = new Set<Promise<void>>();
  #transport: Promise<Transporter> | null = null;

  constructor(smtp: SmtpConfig, password: Secret | undefined, log: Log) {
    this.#smtp = smtp;
    this.#password = password;
    this.#log = log;
  }

  /** Sends a message and does not wait; what goes wrong is told by the log, without whom it was for. */
  send(message: Message): void {
    const sending = this.#deliver(message)
      .catch((error: Error) => this.#log.warn('email not sent', { error }))
      .finally(() => this.#running.delete(sending));
    this.#running.add(sending);
  }

  /** Waits for what is on its way. */
  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.allSettled(this.#running);
    (await this.#transport?.catch(() => null))?.close();
  }

  async #deliver(message: Message): Promise<void> {
    this.#transport ??= this.#open();
    await (await this.#transport).sendMail({ from: this.#smtp.from, ...message });
  }

  async #open(): Promise<Transporter> {
    // Loaded only where it is used.
    const { createTransport } = await import('nodemailer');
    const { host, port, secure, user } = this.#smtp;
    return createTransport({
      host,
      port,
      secure,
      requireTLS: !secure && !isThisMachine(host),
      ...(user !== undefined && this.#password && { auth: { user, pass: this.#password.reveal() } }),
      connectionTimeout: SILENCE_MS,
      greetingTimeout: SILENCE_MS,
      socketTimeout: SILENCE_MS,
      disableFileAccess: true,
      disableUrlAccess: true,
    });
  }
}

/** What goes to this machine itself is on no wire. */
function isThisMachine(host: string): boolean {
  return host === 'localhost' || host === '::1' || (isIP(host) === 4 && host.startsWith('127.'));
}
