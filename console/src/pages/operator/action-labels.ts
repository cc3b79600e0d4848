import type { ItemOf } from '../../api/client.ts';

export type Entry = ItemOf<'listAudit'>;

/** Label of each action, to be followed by the name of the subject. */
export const ACTION_LABELS = {
  'account.create': 'Created account',
  'account.rename': 'Renamed account',
  'account.set_plan': 'Changed plan of',
  'account.suspend': 'Suspended account',
  'account.resume': 'Resumed account',
  'account.close': 'Closed account',
  'key.create': 'Created key',
  'key.update': 'Updated key',
  'key.revoke': 'Revoked key',
  'user.create': 'Created user',
  'user.delete': 'Deleted user',
  'user.rename': 'Changed name of',
  'user.make_operator': 'Granted operator role to',
  'user.unmake_operator': 'Removed operator role from',
  'user.sign_in': 'Signed in as',
  'user.sign_in_refused': 'Rejected sign-in for',
  'user.change_password': 'Changed password of',
  'user.confirm_email': 'Confirmed email address of',
  'user.make_password_link': 'Created password reset link for',
  'user.add_provider': 'Linked sign-in provider for',
  'user.begin_two_factor': 'Enabled two-factor authentication for',
  'user.end_two_factor': 'Disabled two-factor authentication for',
  'user.renew_recovery_codes': 'Replaced recovery codes of',
  'user.end_sessions': 'Ended sessions of',
  'invitation.create': 'Created invitation to',
  'invitation.withdraw': 'Withdrew invitation to',
  'invitation.accept': 'Accepted invitation to',
  'member.set': 'Set role of',
  'member.remove': 'Removed member',
  'plan.create': 'Added plan',
  'plan.change': 'Updated plan',
  'plan.remove': 'Removed plan',
  'plan.make_default': 'Set default plan',
  'engine.restart': 'Restarted engine of',
  'model.add': 'Added model',
  'model.update': 'Changed model',
  'model.load': 'Loaded model',
  'model.unload': 'Unloaded model',
  'model.remove': 'Removed model',
  'model.set_default': 'Set default model',
  'replica.add': 'Added replica of',
  'replica.remove': 'Removed replica of',
  'replica.drain': 'Drained a replica of',
  'replica.resume': 'Resumed a replica of',
} as const;

/** Returns the label of an action; its name if it is unknown. */
export function actionLabel(action: string): string {
  const labels: Readonly<Record<string, string>> = ACTION_LABELS;
  return labels[action] ?? action;
}

/** Returns the label of an action without its subject, with an ellipsis if a name would follow. */
export function standaloneLabel(action: string): string {
  const label = actionLabel(action);
  return / (?:as|for|from|of|to)$/.test(label) ? `${label} …` : label;
}

/** Splits an actor or subject into kind and id: `key:key_12` is the key `key_12`; `service` has no id. */
export function partsOf(named: string): { kind: string; id: string } {
  const colon = named.indexOf(':');
  return colon === -1 ? { kind: named, id: '' } : { kind: named.slice(0, colon), id: named.slice(colon + 1) };
}
