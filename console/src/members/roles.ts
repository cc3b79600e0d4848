import type { ItemOf } from '../api/client.ts';

export type Role = ItemOf<'listMembers'>['role'];

export const ROLES: Readonly<Record<Role, { label: string; noun: string; meaning: string }>> = {
  owner: {
    label: 'Owner',
    noun: 'an owner',
    meaning: 'Can create and revoke keys, view usage and requests, and manage members.',
  },
  member: {
    label: 'Member',
    noun: 'a member',
    meaning: 'Can create and revoke keys, and view usage and requests.',
  },
};

export const ROLE_CHOICES: readonly { value: Role; label: string }[] = [
  { value: 'member', label: ROLES.member.label },
  { value: 'owner', label: ROLES.owner.label },
];
