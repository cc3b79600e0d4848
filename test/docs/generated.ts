/**
 * The generated parts of the documentation: the tables of settings, request fields, management endpoints, metrics and traces, and
 * the help of every command, between `<!-- generated: name -->` and `<!-- end -->`. A test compares them with the code.
 * To generate them: `node test/docs/generated.ts && npm run format`.
 */
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Command } from 'commander';
import { ALERTS } from '../../src/core/alert-types.ts';
import { configFields } from '../../src/config/issues.ts';
import type { Access } from '../../src/http/api/contract/operation.ts';
import { API_ENDPOINTS } from '../../src/http/api/endpoints.ts';
import { CLIENTS } from '../../src/http/client-name.ts';
import { REQUEST_FIELDS } from '../../src/accounts/ledger/request-json.ts';
import type { Field } from '../../src/protocols/field.ts';
import { METRICS, type Metric } from '../../src/metrics/table.ts';
import { ATTRIBUTES, SPANS } from '../../src/tracing/tracer.ts';
import { FEATURES } from '../../src/core/features.ts';
import { RERANK_FIELDS } from '../../src/protocols/openai/rerank-fields.ts';
import { EMBEDDING_FIELDS } from '../../src/protocols/openai/embedding-fields.ts';
import { FIELDS } from '../../src/protocols/openai/fields.ts';
import { MESSAGES_FIELDS } from '../../src/protocols/anthropic/fields.ts';
import { RESPONSES_FIELDS } from '../../src/protocols/responses/fields.ts';
import { readPage, ROOT } from './markdown.ts';

/** Pages of commands that are not in `docs/cli.md`. */
const COMMAND_PAGES: readonly (readonly [string, string])[] = [
  ['sluice models', 'docs/cli-models.md'],
  ['sluice engine', 'docs/cli-engine.md'],
  ['sluice database', 'docs/databases.md'],
  ['sluice secrets', 'docs/databases.md'],
  ['sluice accounts', 'docs/cli-accounts.md'],
  ['sluice keys', 'docs/cli-accounts.md'],
  ['sluice plans', 'docs/cli-accounts.md'],
  ['sluice users', 'docs/cli-users.md'],
  ['sluice setup-link', 'docs/cli-users.md'],
  ['sluice usage', 'docs/cli-usage.md'],
  ['sluice ledger', 'docs/cli-usage.md'],
  ['sluice receipt', 'docs/cli-usage.md'],
  ['sluice audit', 'docs/cli-usage.md'],
];

/** Generates the parts of each page, by name. */
export async function generatedParts(): Promise<ReadonlyMap<string, ReadonlyMap<string, string>>> {
  const help = [...(await commandHelp())].map(
    ([name, text]) => [name, `\`\`\`text\n${text}\n\`\`\``] as const,
  );
  const pageOf = (name: string) =>
    COMMAND_PAGES.find(([command]) => `${name} `.startsWith(`${command} `))?.[1] ?? 'docs/cli.md';
  const pages = new Map<string, ReadonlyMap<string, string>>([
    ['docs/configuration.md', settingTables()],
    ['docs/api.md', fieldTables()],
    ['docs/embeddings.md', new Map([...protocolTables(EMBEDDING_FIELDS)].slice(0, 1))],
    [
      'docs/rerank.md',
      new Map([...protocolTables(RERANK_FIELDS)].filter(([name]) => partsOf('docs/rerank.md').has(name))),
    ],
    ['docs/responses.md', protocolTables(RESPONSES_FIELDS)],
    ['docs/messages.md', protocolTables(MESSAGES_FIELDS)],
    ['docs/management.md', endpointTable()],
    [
      'docs/ledger.md',
      new Map([
        ['fields of a row', requestTable()],
        ['clients', clientTable()],
      ]),
    ],
    ['docs/metrics.md', metricTables()],
    ['docs/traces.md', traceTables()],
    ['docs/alerts.md', alertTable()],
  ]);
  for (const page of new Set(['docs/cli.md', ...COMMAND_PAGES.map(([, other]) => other)])) {
    pages.set(page, new Map(help.filter(([name]) => pageOf(name) === page)));
  }
  return pages;
}

/** Reads the generated parts of a page. */
export function partsOf(page: string): Map<string, string> {
  const found = readPage(page).matchAll(PART);
  return new Map([...found].map(([, name = '', text = '']) => [name, text.trim()]));
}

const PART = /<!-- generated: ([^>]+?) -->\n([\s\S]*?)<!-- end -->/g;

/** Each table has the settings from that of its name up to that of the next table. */
function settingTables(): Map<string, string> {
  const parts = new Map<string, string[][]>();
  const names = partsOf('docs/configuration.md');
  let rows: string[][] = [];
  for (const { path, type, default: standard, required, description } of configFields()) {
    const name = `settings from ${path}`;
    if (names.has(name)) parts.set(name, (rows = []));
    const value = standard === undefined ? (required ? 'required' : '') : `\`${JSON.stringify(standard)}\``;
    rows.push([`\`${path}\``, type, value, description]);
  }
  const headings = ['field', 'value', 'default', 'description'];
  return new Map([...parts].map(([name, settings]) => [name, table(headings, settings)]));
}

function fieldTables(): Map<string, string> {
  const where = (use: Field['use']) => FIELDS.filter((field) => field.use === use);
  return new Map([
    ['fields that affect the completion', table(HEADINGS, where('generation').map(rowOf))],
    ['fields without effect', table(['field', 'in', 'why'], where('hint').map(brief))],
    [
      'fields that are noted',
      table(
        ['field', 'in', 'values without a note', 'why'],
        where('noted').map((field) => [
          `\`${field.path}\``,
          kinds(field),
          field.neutral.length === 0 ? 'null only' : `null or \`${JSON.stringify(field.neutral[0])}\``,
          field.description,
        ]),
      ),
    ],
    [
      'fields that are refused',
      table(
        ['field', 'in', 'accepted values', 'why'],
        grouped(
          where('refused').map((field) => [
            `\`${field.path}\``,
            kinds(field),
            field.bounds,
            field.description,
          ]),
        ),
      ),
    ],
  ]);
}

function protocolTables(fields: readonly Field[]): Map<string, string> {
  const where = (use: Field['use']) => fields.filter((field) => field.use === use);
  const accepted = ({ neutral }: Field) =>
    ['null', ...neutral.map((value) => `\`${JSON.stringify(value)}\``)].join(' or ');
  const withValues = (field: Field) => [`\`${field.path}\``, accepted(field), field.description];
  /** There is only one kind of request. */
  const withoutKind = (row: readonly string[]) => row.toSpliced(1, 1);
  return new Map([
    [
      'fields that affect the response',
      table(
        withoutKind(HEADINGS),
        where('generation').map((field) => withoutKind(rowOf(field))),
      ),
    ],
    [
      'fields without effect',
      table(
        ['field', 'why'],
        where('hint').map((field) => withoutKind(brief(field))),
      ),
    ],
    [
      'fields that are noted',
      table(['field', 'values without a note', 'why'], where('noted').map(withValues)),
    ],
    [
      'fields that are refused',
      table(['field', 'accepted values', 'why'], grouped(where('refused').map(withValues))),
    ],
  ]);
}

/** Combines rows that differ only in their first cell. */
function grouped(rows: readonly (readonly string[])[]): string[][] {
  const groups = Map.groupBy(rows, ([, ...rest]) => JSON.stringify(rest));
  return Array.from(groups.values(), (same) => [
    same.map(([name = '']) => name).join(', '),
    ...(same[0]?.slice(1) ?? []),
  ]);
}

/** Who may call an endpoint, besides operators. */
const CALLERS: Readonly<Record<Access, string>> = {
  open: 'everyone',
  'signed-in': 'signed-in users, no keys',
  any: 'all keys and users',
  account: 'keys and members of the account',
  member: 'members of the account',
  owner: 'owners of the account',
  operator: 'operators',
};

function endpointTable(): Map<string, string> {
  const rows = API_ENDPOINTS.map(({ method, path, access, summary }) => [
    `\`${method} ${path}\``,
    CALLERS[access],
    summary,
  ]);
  return new Map([['endpoints', table(['endpoint', 'who may call it', 'what it does'], rows)]]);
}

/** The type of each kind of column. */
const KINDS = {
  text: 'text',
  integer: 'integer',
  flag: 'boolean',
  time: 'time',
  price: 'USD per million tokens',
  pico: 'USD',
  names: 'list of names',
};

function requestTable(): string {
  const rows = REQUEST_FIELDS.map(({ field, part, kind, nullable, description = '' }) => {
    const name = part === undefined ? field : `${field}.${part}`;
    return [`\`${name}\``, `${KINDS[kind]}${nullable ? ' or null' : ''}`, description];
  });
  return table(['field', 'type', 'description'], rows);
}

function clientTable(): string {
  const rows = CLIENTS.map(({ name, texts }) => [
    `\`${name}\``,
    texts.map((text) => `\`${text.trim()}\``).join(', '),
  ]);
  return table(['client', 'part of the header, in upper or lower case'], rows);
}

function metricTables(): Map<string, string> {
  const metrics: readonly Metric[] = Object.values(METRICS);
  const rows = metrics.map(({ name, type, labels, help }) => {
    const names = labels.map((label) => `\`${label}\``).join(', ');
    return [`\`${name}\``, type, names, help];
  });
  const histograms = metrics.flatMap(({ name, buckets }) =>
    buckets ? [[`\`${name}\``, buckets.join(', ')]] : [],
  );
  return new Map([
    ['metrics', table(['metric', 'type', 'labels', 'description'], rows)],
    ['buckets', table(['histogram', 'upper bounds, in seconds'], histograms)],
  ]);
}

function alertTable(): Map<string, string> {
  const rows = Object.entries(ALERTS).map(([type, { severity, sendsResolved, description }]) => [
    `\`${type}\``,
    severity,
    sendsResolved ? 'yes' : 'no',
    description,
  ]);
  return new Map([['alerts', table(['type', 'severity', 'message when resolved', 'fires when'], rows)]]);
}

function traceTables(): Map<string, string> {
  const code = ([name, meaning]: readonly [string, string]) => [`\`${name}\``, meaning];
  return new Map([
    ['spans', table(['span', 'time'], Object.entries(SPANS).map(code))],
    ['attributes', table(['attribute', 'value'], Object.values(ATTRIBUTES).map(code))],
  ]);
}

const HEADINGS = ['field', 'in', 'type', 'bounds', 'default', 'engines', 'description'];

function rowOf(field: Field): string[] {
  const engines =
    field.feature === null ? 'all' : FEATURES[field.feature].servers.map((name) => `\`${name}\``).join(', ');
  const { path, type, bounds, description } = field;
  return [`\`${path}\``, kinds(field), type, bounds, field.default, engines, description];
}

const brief = (field: Field): string[] => [`\`${field.path}\``, kinds(field), field.description];
const kinds = (field: Field): string => field.kinds.join(', ');

function table(headings: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]) =>
    `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`;
  return [line(headings), line(headings.map(() => '---')), ...rows.map(line)].join('\n');
}

/** Returns the help of every command without subcommands, by its full name, with 80 columns. */
async function commandHelp(): Promise<Map<string, string>> {
  const program = await loadProgram();
  let written = '';
  program.configureOutput({ getOutHelpWidth: () => 80, writeOut: (text) => void (written += text) });
  return new Map(
    pathsOf(program)
      .filter(({ command }) => command.commands.length === 0)
      .map(({ path, command }) => {
        written = '';
        command.configureOutput(program.configureOutput()).outputHelp();
        return [path, written.trim()];
      }),
  );
}

/** Returns the long flags of every command and group, by name without `sluice`. */
export async function commandOptions(): Promise<ReadonlyMap<string, ReadonlySet<string>>> {
  return new Map(
    pathsOf(await loadProgram()).map(({ path, command }) => [
      path.replace(/^sluice ?/, ''),
      new Set(['--help', ...command.options.map(({ long }) => long ?? '')]),
    ]),
  );
}

async function loadProgram(): Promise<Command> {
  const program = new Command('sluice');
  // Importing `main.ts` would run it, so its list of commands is parsed.
  const main = readFileSync(join(ROOT, 'src/main.ts'), 'utf8');
  const entries = [
    ...main.matchAll(/'?([\w-]+)'?: \[\s*'([^']+)',\s*\(\) => import\('\.(\/commands\/[^']+)'\)/g),
  ];
  assert.equal(entries.length, main.match(/\(\) => import\(/g)?.length);
  for (const [, name = '', summary = '', file = ''] of entries) {
    const module: unknown = await import(new URL(`src${file}`, `file://${ROOT}/`).href);
    // Every command module exports `register`.
    (module as { register: (command: Command) => void }).register(program.command(name).description(summary));
  }
  return program;
}

function pathsOf(command: Command, path = command.name()): { path: string; command: Command }[] {
  return [
    { path, command },
    ...command.commands.flatMap((child) => pathsOf(child, `${path} ${child.name()}`)),
  ];
}

if (import.meta.main) {
  for (const [page, parts] of await generatedParts()) {
    const text = readPage(page).replaceAll(PART, (whole, name: string) =>
      parts.has(name) ? `<!-- generated: ${name} -->\n\n${parts.get(name)}\n\n<!-- end -->` : whole,
    );
    writeFileSync(join(ROOT, page), text);
  }
}
