import { loggable } from '../database/errors.ts';
import { withoutAddresses } from '../identity/mailer.ts';
import type { Log } from '../support/log.ts';
import type { Channel, Channels, Message } from './channels.ts';
import type { AlertStore, ClaimedMessage, LocalMessage, Outcome } from './store.ts';
import { messageOf } from '../support/thrown.ts';

/** Attempts per message. With the pauses between them, they last about 4 hours. */
export const MAX_ATTEMPTS = 12;
const FIRST_PAUSE_MS = 10_000;
const LONGEST_PAUSE_MS = 3_600_000;

/**
 * Returns the pause after a failed attempt, in milliseconds: doubles with each from 10 s up to an hour, and is shortened
 * by up to half, so that instances and messages do not retry at the same time. Null: there is no further attempt.
 */
export function pauseAfter(attempts: number, random: number): number | null {
  if (attempts >= MAX_ATTEMPTS) return null;
  const longest = Math.min(FIRST_PAUSE_MS * 2 ** (attempts - 1), LONGEST_PAUSE_MS);
  return Math.round(longest * (1 - random / 2));
}

/** Messages of one channel that one call sends at most, so that a call ends. */
const BATCH = 50;

interface OutboxOptions {
  store: AlertStore;
  channels: Channels;
  log: Log;
  /** Called after each attempt. */
  onAttempt: (channel: Channel, sent: boolean) => void;
  /** Returns Unix milliseconds. */
  now: () => number;
}

/**
 * Sends the messages that wait in the database. Each channel sends one message at a time, and a slow channel does not
 * delay the others.
 */
export class Outbox {
  readonly #options: OutboxOptions;
  /** Channels that are sending. */
  readonly #sending = new Map<string, Promise<void>>();
  /** The messages that they send. */
  readonly #claimed = new Set<ClaimedMessage>();
  #stopped = false;

  constructor(options: OutboxOptions) {
    this.#options = options;
  }

  /**
   * Starts to send what is due, and keeps the messages that are being sent, however long this takes. Resolves when each
   * channel has started. Rejects with a `DatabaseError`.
   */
  async start(): Promise<void> {
    const { store, channels } = this.#options;
    for (const message of this.#claimed) await store.renew(message);
    const free = channels.all.filter(({ id }) => !this.#sending.has(id));
    const due = await store.dueChannels(free.map(({ id }) => id));
    for (const channel of free) if (due.includes(channel.id)) this.#run(channel);
  }

  /** Waits until no channel is sending. */
  async idle(): Promise<void> {
    await Promise.all(this.#sending.values());
  }

  /** Starts no further message. */
  stop(): void {
    this.#stopped = true;
  }

  /** Sends messages of an alert that is not in the database, and updates them. Never rejects. */
  async sendLocal(messages: readonly LocalMessage[], alert: Message['alert']): Promise<void> {
    const { channels, now } = this.#options;
    await Promise.all(
      messages.map(async (message) => {
        const channel = channels.of(message.channel);
        if (channel === undefined) return;
        message.attempts++;
        const outcome = await this.#attempt(
          channel,
          { id: message.id, event: 'firing', alert },
          message.attempts,
        );
        message.error = outcome.sent ? null : outcome.error;
        if (outcome.sent) Object.assign(message, { state: 'sent', sentAt: now() });
        else if (outcome.retryInMs === null) message.state = 'failed';
        else message.nextAt = now() + outcome.retryInMs;
      }),
    );
  }

  #run(channel: Channel): void {
    const { id } = channel;
    const sending = this.#drain(channel)
      .catch((error: unknown) =>
        this.#options.log.warn('cannot read or update the messages of alerts', {
          channel: channel.label,
          error: loggable(error),
        }),
      )
      .finally(() => this.#sending.delete(id));
    this.#sending.set(id, sending);
  }

  async #drain(channel: Channel): Promise<void> {
    const { store } = this.#options;
    for (let count = 0; count < BATCH && !this.#stopped; count++) {
      const message = await store.claim(channel.id);
      if (message === null) return;
      this.#claimed.add(message);
      const outcome = await this.#attempt(channel, message, message.attempts);
      this.#claimed.delete(message);
      await store.finish(message, outcome);
      // The channel probably fails for the next message, too.
      if (!outcome.sent) return;
    }
  }

  async #attempt(channel: Channel, message: Message, attempts: number): Promise<Outcome> {
    const { log, onAttempt } = this.#options;
    try {
      await channel.send(message);
      onAttempt(channel, true);
      return { sent: true };
    } catch (error) {
      onAttempt(channel, false);
      const reason = messageOf(error);
      const retryInMs = pauseAfter(attempts, Math.random());
      log.warn('alert not sent', {
        channel: channel.label,
        attempt: attempts,
        retryInMs,
        reason: withoutAddresses(reason),
      });
      return { sent: false, error: reason, retryInMs };
    }
  }
}
