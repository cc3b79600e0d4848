import { createHmac } from 'node:crypto';
import { WEBHOOK_SECRET } from '../config/alerts.ts';
import type { Secret } from '../support/secret.ts';

/**
 * Returns the headers of Standard Webhooks (https://www.standardwebhooks.com) for a message. The signature is the
 * HMAC-SHA256 of the ID, the time in Unix seconds and the body, so that a receiver can refuse repeated messages.
 */
export function signedHeaders(
  secret: Secret,
  { id, atMs, body }: { id: string; atMs: number; body: string },
): Record<string, string> {
  const timestamp = String(Math.floor(atMs / 1000));
  const [, base64 = ''] = WEBHOOK_SECRET.exec(secret.reveal()) ?? [];
  const signature = createHmac('sha256', Buffer.from(base64, 'base64'))
    .update(`${id}.${timestamp}.${body}`)
    .digest('base64');
  return { 'webhook-id': id, 'webhook-timestamp': timestamp, 'webhook-signature': `v1,${signature}` };
}
