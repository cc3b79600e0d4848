import type { Element } from '../../api/client.ts';

export type Entry = Element<'listAudit'>;

/** What each action did, as one says it before naming what it was done to. */
export const ACTION_WORDS = {
  'account.create': 'Made the account',
  'account.rename': 'Renamed the account',
  'account.set_plan': 'Changed the plan of',
  'account.suspend': 'Suspended the account',
  'account.resume': 'Resumed the account',
  'account.close': 'Closed the account',
  'key.create': 'Made the key',
  'key.update': 'Changed the key',
  'key.revoke': 'Revoked the key',
  'person.create': 'Added the person',
  'person.delete': 'Deleted the person',
  'person.rename': 'Changed the name of',
  'person.make_operator': 'Made an operator of',
  'person.unmake_operator': 'Took the operator role from',
  'person.sign_in': 'Signed in',
  'person.sign_in_refused': 'Refused the sign-in of',
  'person.change_password': 'Changed the password of',
  'person.make_password_link': 'Made a link to a new password for',
  'person.add_provider': 'Added a way to sign in for',
  'person.begin_two_factor': 'Set up a second factor for',
  'person.end_two_factor': 'Took away the second factor of',
  'person.renew_recovery_codes': 'Renewed the recovery codes of',
  'person.end_sessions': 'Ended sessions of',
  'invitation.create': 'Made an invitation to',
  'invitation.withdraw': 'Withdrew an invitation to',
  'invitation.accept': 'Accepted an invitation to',
  'member.set': 'Set the role of',
  'member.remove': 'Removed the member',
  'plan.create': 'Added the plan',
  'plan.change': 'Changed the plan',
  'plan.remove': 'Removed the plan',
  'plan.make_default': 'Chose as default the plan',
} as const;

/** What an action did; one that has no words yet by its name. */
export function actionWords(action: string): string {
  const words: Readonly<Record<string, string>> = ACTION_WORDS;
  return words[action] ?? action;
}

/** What an actor or a subject is, and which: `key:key_12` is the key `key_12`; `service` has no id. */
export function partsOf(named: string): { kind: string; id: string } {
  const colon = named.indexOf(':');
  return colon === -1 ? { kind: named, id: '' } : { kind: named.slice(0, colon), id: named.slice(colon + 1) };
}
