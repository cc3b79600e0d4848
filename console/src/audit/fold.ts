import type { Entry } from './audit-texts.ts';

/** A row of the audit log: an entry, or a group of entries about playground keys. */
export interface AuditRow {
  /** The entry; the newest one of a group. */
  entry: Entry;
  /** The entries of a group, newest first; null: a single entry. */
  group: readonly Entry[] | null;
}

/** Whether an entry is about a key that the console created for its playground, or `sluice chat` for itself. */
const isOfPlayground = ({ action, detail }: Entry): boolean =>
  (action === 'key.create' || action === 'key.revoke') && detail['purpose'] === 'playground';

/**
 * Returns a row for each entry, or for each group of two or more adjacent entries about playground keys of one actor.
 * The rows of an expanded group, which `isExpanded` tells by the ID of its newest entry, follow it.
 */
export function foldPlaygroundKeys(
  entries: readonly Entry[],
  isExpanded: (id: string) => boolean,
): AuditRow[] {
  const rows: AuditRow[] = [];
  for (let first = 0; first < entries.length;) {
    const entry = entries[first];
    if (entry === undefined) break;
    let end = first + 1;
    if (isOfPlayground(entry)) while (isSameGroup(entry, entries[end])) end++;
    const group = entries.slice(first, end);
    if (group.length === 1) rows.push(rowOf(entry));
    else {
      rows.push({ entry, group });
      if (isExpanded(entry.id)) rows.push(...group.map(rowOf));
    }
    first = end;
  }
  return rows;
}

/** Returns the row of a single entry. */
export const rowOf = (entry: Entry): AuditRow => ({ entry, group: null });

const isSameGroup = (one: Entry, other: Entry | undefined): boolean =>
  other !== undefined && isOfPlayground(other) && other.actor === one.actor;

/** Describes a group, such as "Created 3 and revoked 2 playground keys". */
export function groupText(group: readonly Entry[]): string {
  const created = group.filter(({ action }) => action === 'key.create').length;
  const revoked = group.length - created;
  const parts = [
    ...(created > 0 ? [`created ${created}`] : []),
    ...(revoked > 0 ? [`revoked ${revoked}`] : []),
  ];
  const text = parts.join(' and ');
  const last = revoked > 0 ? revoked : created;
  return `${text.charAt(0).toUpperCase()}${text.slice(1)} playground ${last === 1 ? 'key' : 'keys'}`;
}
