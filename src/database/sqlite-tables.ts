import type { DatabaseSync } from 'node:sqlite';

/**
 * Returns the tables of a migrated SQLite database in an order in which each follows those that it references. The
 * table `settings` is last, because triggers of other tables change it. Excludes the table of migrations.
 */
export function tablesOf(database: DatabaseSync): string[] {
  const names = database
    .prepare("select name from sqlite_schema where type = 'table' and name not like 'sqlite_%' order by name")
    .all()
    .map(({ name }) => String(name));
  const waiting = new Set(names.filter((name) => name !== 'migrations' && name !== 'settings'));
  const sorted: string[] = [];
  while (waiting.size > 0) {
    const next = [...waiting].filter((table) => references(database, table).every((to) => !waiting.has(to)));
    if (next.length === 0) throw new TypeError(`The tables ${[...waiting].join(', ')} reference each other`);
    for (const table of next) waiting.delete(table);
    sorted.push(...next);
  }
  return [...sorted, 'settings'];
}

export function columnsOf(database: DatabaseSync, table: string): string[] {
  return database
    .prepare('select name from pragma_table_info(?)')
    .all(table)
    .map(({ name }) => String(name));
}

/** Returns the other tables that a table references. */
function references(database: DatabaseSync, table: string): string[] {
  return database
    .prepare('select "table" as other from pragma_foreign_key_list(?)')
    .all(table)
    .map(({ other }) => String(other))
    .filter((other) => other !== table);
}
