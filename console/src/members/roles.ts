import type { Element } from '../api/client.ts';

export type Role = Element<'listMembers'>['role'];

/** What somebody may do for an account, in words. */
export const ROLES: Readonly<Record<Role, { label: string; meaning: string }>> = {
  owner: {
    label: 'Owner',
    meaning:
      'Makes and revokes keys, sees usage and requests, invites and removes people, renames the account.',
  },
  member: { label: 'Member', meaning: 'Makes and revokes keys, sees usage and requests.' },
};

export const ROLE_CHOICES: readonly { value: Role; label: string }[] = [
  { value: 'member', label: ROLES.member.label },
  { value: 'owner', label: ROLES.owner.label },
];
