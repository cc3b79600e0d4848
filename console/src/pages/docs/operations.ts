import type { ApiDocument, DocumentOperation, Parameter, Schema } from '../../api/document.ts';

/** What an operation answers with one status. */
export interface Response {
  status: string;
  /** What it means; for errors each code on a line of its own. */
  description: string;
  /** Of its JSON; null: it has none. */
  schema: Schema | null;
  /** Of the events of a stream; null: it is none. */
  events: Schema | null;
}

/** An operation as the reference shows it. */
export interface Entry {
  id: string;
  method: string;
  path: string;
  summary: string;
  /** Who may call it, in words. */
  access: string;
  /** What opens it beside a session in the console: a key of that kind, nothing but the session, or it is open. */
  opensBy: 'key' | 'admin' | 'session' | 'open';
  parameters: readonly Parameter[];
  body: Schema | null;
  responses: readonly Response[];
}

export interface Group {
  label: string;
  entries: readonly Entry[];
}

/** Paths below `/api` that belong together; others stand under their own name. */
const TOGETHER: Readonly<Record<string, string>> = {
  accounts: 'Accounts and plans',
  plans: 'Accounts and plans',
  keys: 'Keys',
  'playground-keys': 'Keys',
  requests: 'Requests and receipts',
  receipts: 'Requests and receipts',
  usage: 'Usage and limits',
  limits: 'Usage and limits',
  models: 'State of the service',
  engines: 'State of the service',
  load: 'State of the service',
  health: 'State of the service',
  session: 'Signing in',
  setup: 'Signing in',
  'sign-in': 'Signing in',
  'sign-out': 'Signing in',
  password: 'Signing in',
  auth: 'Signing in',
  me: 'Your own settings',
  audit: 'Audit log',
};

/** The operations of a document in groups, in its order: what generates first, then what manages. */
export function groupsOf(document: ApiDocument): Group[] {
  const entries = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => entryOf(document, method, path, operation)),
  );
  const groups = [...Map.groupBy(entries, ({ path }) => groupOf(path))].map(([label, those]) => ({
    label,
    entries: those,
  }));
  // What few look for comes last.
  return [
    ...groups.filter(({ label }) => label !== PROBES),
    ...groups.filter(({ label }) => label === PROBES),
  ];
}

/** Those of the groups that hold the words in a path, a name or a summary. */
export function matching(groups: readonly Group[], words: string): Group[] {
  const wanted = words.trim().toLowerCase();
  return groups
    .map(({ label, entries }) => ({
      label,
      entries: entries.filter(({ id, method, path, summary }) =>
        `${id} ${method} ${path} ${summary} ${label}`.toLowerCase().includes(wanted),
      ),
    }))
    .filter(({ entries }) => entries.length > 0);
}

const PROBES = 'Probes and this document';

function groupOf(path: string): string {
  const [, first = '', second = ''] = path.split('/');
  if (first === 'v1') return 'Inference';
  if (first !== 'api') return PROBES;
  const words = second.replaceAll('-', ' ');
  return TOGETHER[second] ?? `${words.slice(0, 1).toUpperCase()}${words.slice(1)}`;
}

function entryOf(document: ApiDocument, method: string, path: string, operation: DocumentOperation): Entry {
  const schemes = (operation.security ?? document.security).map((one) => Object.keys(one)[0] ?? 'none');
  return {
    id: operation.operationId,
    method: method.toUpperCase(),
    path,
    summary: operation.summary,
    access: accessWords(schemes),
    opensBy: (['key', 'admin', 'session'] as const).find((scheme) => schemes.includes(scheme)) ?? 'open',
    parameters: operation.parameters ?? [],
    body: operation.requestBody?.content['application/json']?.schema ?? null,
    responses: Object.entries(operation.responses).map(([status, { description, content }]) => ({
      status,
      description,
      schema: content?.['application/json']?.schema ?? null,
      events: content?.['text/event-stream']?.schema.properties?.['data']?.anyOf?.[0]?.contentSchema ?? null,
    })),
  };
}

/** Who may call what is opened by any of these; `none` stands for nothing at all. */
function accessWords(schemes: readonly string[]): string {
  if (schemes.length === 0) return 'Open to everybody';
  const words = schemes.flatMap((scheme) => WORDS[scheme] ?? []);
  const all = words.join(', or ');
  const sentence = `${all.slice(0, 1).toUpperCase()}${all.slice(1)}`;
  return schemes.includes('none') ? `${sentence}, where the service asks for one` : sentence;
}

const WORDS: Readonly<Record<string, string>> = {
  key: 'any API key',
  admin: 'an admin key',
  session: 'a person who is signed in',
};
