import { useState } from 'react';

/** A row of a list whose adjacent entries fold. */
export interface FoldRow<Entry> {
  /** The entry, or the first one of the group. */
  entry: Entry;
  /** The entries that the row folds; null: a single entry. */
  group: readonly Entry[] | null;
}

/** Returns the row of a single entry. */
export const rowOf = <Entry>(entry: Entry): FoldRow<Entry> => ({ entry, group: null });

/** Folds adjacent entries of the same kind to one row, which its entries follow if it is expanded. Null: never folds. */
export function fold<Entry>(
  entries: readonly Entry[],
  kindOf: (entry: Entry) => string | null,
  isExpanded: (group: readonly Entry[]) => boolean,
): FoldRow<Entry>[] {
  const groups: Entry[][] = [];
  let last: string | null = null;
  for (const entry of entries) {
    const kind = kindOf(entry);
    if (kind !== null && kind === last) groups.at(-1)?.push(entry);
    else groups.push([entry]);
    last = kind;
  }
  return groups.flatMap((group): FoldRow<Entry>[] => {
    const [entry] = group;
    if (entry === undefined || group.length === 1) return group.map(rowOf);
    return [{ entry, group }, ...(isExpanded(group) ? group.map(rowOf) : [])];
  });
}

/** Whether groups are expanded, and a function that expands or folds one. A group that grows stays expanded. */
export function useFolds<Entry extends { id: string }>() {
  const [expanded, setExpanded] = useState<ReadonlySet<string>>(new Set());
  const isExpanded = (group: readonly Entry[]) => group.some(({ id }) => expanded.has(id));
  const toggle = (group: readonly Entry[]) => {
    const ids = new Set(group.map(({ id }) => id));
    setExpanded(isExpanded(group) ? expanded.difference(ids) : expanded.union(ids));
  };
  return { isExpanded, toggle };
}
