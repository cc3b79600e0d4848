import type { ItemOf, ResponseOf } from '../../api/client.ts';

export type Alert = ItemOf<'listAlerts'>;
export type Settings = ResponseOf<'readAlertSettings'>;

/** Labels of types of alerts whose names, such as `disk_low`, are not clear enough. */
const TYPE_LABELS: Readonly<Record<string, string>> = {
  budget_80: 'Budget at 80%',
  budget_100: 'Budget used up',
  key_expiring: 'Key expires soon',
};

/** Returns the label of a type, which may be one of a newer version. */
export function typeLabel(type: string): string {
  return TYPE_LABELS[type] ?? (type.charAt(0).toUpperCase() + type.slice(1)).replaceAll('_', ' ');
}

export interface Word {
  tone: 'good' | 'warn' | 'bad' | 'neutral';
  word: string;
}

export function stateOf({ resolved_at: resolved, severity }: Alert): Word {
  if (resolved !== null) return { tone: 'neutral', word: 'Resolved' };
  return { tone: severity === 'critical' ? 'bad' : 'warn', word: 'Firing' };
}

export function deliveryOf({ messages }: Pick<Alert, 'messages'>): Word {
  const has = (state: Alert['messages'][number]['state']) =>
    messages.some((message) => message.state === state);
  if (messages.length === 0) return { tone: 'neutral', word: 'No channel' };
  if (has('failed')) return { tone: 'bad', word: 'Not sent' };
  if (messages.some(({ state, error }) => state === 'pending' && error !== null)) {
    return { tone: 'warn', word: 'Retrying' };
  }
  if (has('pending')) return { tone: 'neutral', word: 'Sending' };
  return has('sent') ? { tone: 'good', word: 'Sent' } : { tone: 'neutral', word: 'Silenced' };
}

const STATES = {
  pending: { tone: 'neutral', word: 'Waiting' },
  sent: { tone: 'good', word: 'Sent' },
  failed: { tone: 'bad', word: 'Not sent' },
  silenced: { tone: 'neutral', word: 'Silenced' },
} as const satisfies Record<Alert['messages'][number]['state'], Word>;

export function messageState({ state, error }: Alert['messages'][number]): Word {
  return state === 'pending' && error !== null ? { tone: 'warn', word: 'Retrying' } : STATES[state];
}
