import type { ApiDocument, DocumentOperation, Parameter, Schema } from './document.ts';

export interface Response {
  status: string;
  /** Description; for errors one paragraph per code. */
  description: string;
  /** Schema of the JSON body; null: no body. */
  schema: Schema | null;
  /** Schema of stream events; null: not a stream. */
  events: Schema | null;
}

export interface Entry {
  id: string;
  /** Title, such as "Create chat completion". */
  title: string;
  method: string;
  path: string;
  summary: string;
  /** Accepted authentication, such as "Admin key or console session". */
  access: string;
  /** Authentication used in the examples. `session`: only the console; `open`: none. */
  auth: 'key' | 'admin' | 'session' | 'open';
  parameters: readonly Parameter[];
  body: Schema | null;
  responses: readonly Response[];
}

export interface Group {
  label: string;
  entries: readonly Entry[];
}

/** Group labels of paths under `/api`, by the segment after `/api`. Other segments are their own label. */
const GROUPS: Readonly<Record<string, string>> = {
  accounts: 'Accounts and plans',
  plans: 'Accounts and plans',
  'playground-keys': 'Keys',
  requests: 'Requests and receipts',
  receipts: 'Requests and receipts',
  usage: 'Usage and limits',
  limits: 'Usage and limits',
  catalog: 'Models',
  replicas: 'Models',
  load: 'Service status',
  health: 'Service status',
  session: 'Sign-in',
  setup: 'Sign-in',
  'sign-in': 'Sign-in',
  'sign-out': 'Sign-in',
  password: 'Sign-in',
  auth: 'Sign-in',
  me: 'User settings',
  audit: 'Audit log',
};

export function groupsOf(document: ApiDocument): Group[] {
  const entries = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => entryOf(document, method, path, operation)),
  );
  const groups = [...Map.groupBy(entries, ({ path }) => groupOf(path))].map(([label, those]) => ({
    label,
    entries: those,
  }));
  // Probes come last.
  return [
    ...groups.filter(({ label }) => label !== PROBES),
    ...groups.filter(({ label }) => label === PROBES),
  ];
}

export function matching(groups: readonly Group[], words: string): Group[] {
  const wanted = words.trim().toLowerCase();
  return groups
    .map(({ label, entries }) => ({
      label,
      entries: entries.filter(({ id, title, method, path, summary }) =>
        `${id} ${title} ${method} ${path} ${summary} ${label}`.toLowerCase().includes(wanted),
      ),
    }))
    .filter(({ entries }) => entries.length > 0);
}

const PROBES = 'Health probes and OpenAPI';

function groupOf(path: string): string {
  const [, first = '', second = ''] = path.split('/');
  if (first === 'v1') return 'Inference';
  if (first !== 'api') return PROBES;
  const words = second.replaceAll('-', ' ');
  return GROUPS[second] ?? `${words.slice(0, 1).toUpperCase()}${words.slice(1)}`;
}

function entryOf(document: ApiDocument, method: string, path: string, operation: DocumentOperation): Entry {
  const schemes = (operation.security ?? document.security).map((one) => Object.keys(one)[0] ?? 'none');
  return {
    id: operation.operationId,
    title: titleOf(operation.operationId),
    method: method.toUpperCase(),
    path,
    summary: operation.summary,
    access: accessText(schemes),
    auth: (['key', 'admin', 'session'] as const).find((scheme) => schemes.includes(scheme)) ?? 'open',
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

/** Formats the accepted security schemes; `none`: no authentication. */
function accessText(schemes: readonly string[]): string {
  if (schemes.length === 0) return 'None';
  const words = schemes.flatMap((scheme) => WORDS[scheme] ?? []);
  const all = words.join(' or ');
  const sentence = `${all.slice(0, 1).toUpperCase()}${all.slice(1)}`;
  return schemes.includes('none') ? `${sentence}, if the service requires it` : sentence;
}

const WORDS: Readonly<Record<string, string>> = {
  key: 'API key',
  admin: 'admin key',
  session: 'console session',
};

/** Titles of operations whose id is not a good title. */
const TITLES: Readonly<Record<string, string>> = {
  createCompletion: 'Create text completion',
  health: 'Check liveness',
  readiness: 'Check readiness',
  document: 'Get OpenAPI document',
  changeAccount: 'Update account',
  changeKey: 'Update key',
  readUsage: 'Get usage',
  readLimits: 'Get limits',
  changeUser: 'Update user',
  setMember: 'Set member role',
  setUp: 'Create first operator',
  signInSecondFactor: 'Complete sign-in with second factor',
  signInWithProvider: 'Start sign-in with provider',
  finishProviderSignIn: 'Complete sign-in with provider',
  forgotPassword: 'Send password reset link',
  changeMe: 'Update your profile',
  deleteMe: 'Delete your user',
  beginTwoFactor: 'Begin two-factor setup',
  endTwoFactor: 'Disable two-factor authentication',
  confirmTwoFactor: 'Enable two-factor authentication',
  renewRecoveryCodes: 'Replace recovery codes',
  listSessions: 'List your sessions',
  listAudit: 'List audit log',
  readAlertSettings: 'Get settings of alerts',
  testAlerts: 'Send test message',
  unsilenceAlerts: 'End silence of alerts',
  listServedModels: 'List model status',
  listCatalog: 'List model catalog',
  drainReplica: 'Drain a replica',
  resumeReplica: 'Resume a replica',
  readLoad: 'Get load',
  readHealth: 'Get health',
};

/** Returns the title of an operation, such as "Create chat completion" for `createChatCompletion`. */
function titleOf(id: string): string {
  const words = id.replaceAll(/(?<=[a-z])(?=[A-Z])/g, ' ').toLowerCase();
  return TITLES[id] ?? `${words.slice(0, 1).toUpperCase()}${words.slice(1)}`;
}
