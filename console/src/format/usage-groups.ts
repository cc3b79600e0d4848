import type { ItemOf } from '../api/client.ts';

type Usage = ItemOf<'readUsage'>;

/** Groupings of usage, in display order. `id`, `name`: columns of a row. `none`: name of rows without an ID. */
export const GROUPS = {
  key: { label: 'Key', id: 'key_id', name: 'key_name', none: '' },
  tag: { label: 'Tag', id: 'tag', name: 'tag', none: 'No tag' },
  member: { label: 'Member', id: 'member_id', name: 'member_name', none: 'No member' },
  model: { label: 'Model', id: 'model', name: 'model', none: '' },
  client: { label: 'Client', id: 'client', name: 'client', none: 'Not recorded' },
  account: { label: 'Account', id: 'account_id', name: 'account_name', none: '' },
} as const;
export type Group = keyof typeof GROUPS;
// The keys of the object.
export const GROUP_NAMES = Object.keys(GROUPS) as Group[];

/** Returns the ID of the group of a row. Empty: none, such as for keys without a tag. */
export const groupOf = (row: Usage, by: Group): string => row[GROUPS[by].id] ?? '';

/** Returns the name of the group of a row; its ID if it has no name any more. */
export const groupName = (row: Usage, by: Group): string =>
  row[GROUPS[by].name] ?? (groupOf(row, by) || GROUPS[by].none);
