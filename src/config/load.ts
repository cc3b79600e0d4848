import { open } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';
import { dirname, resolve } from 'node:path';
import { Secret } from '../support/secret.ts';
import { HOST_FORM, isHost, isPort, PORT_FORM } from './address.ts';
import { ConfigError, environmentIssue, type ConfigIssue } from './errors.ts';
import { formatPath, issuesOf } from './issues.ts';
import { homeOf } from './home.ts';
import {
  configSchema,
  type Config,
  type ConfigFile,
  type ModelConfig,
  type TracingConfig,
} from './schema.ts';
import { WEBHOOK_SECRET } from './alerts.ts';
import { HEADER_VALUE, serverUrl } from './model.ts';
import { parseYaml, type YamlFile } from './yaml.ts';

/** The secrets that a program uses: those of models are the keys of their replicas. */
export type NeededSecrets = 'all' | 'models' | 'none';

/** Keys and passwords for other servers, by the name of their environment variable. */
export type Secrets = ReadonlyMap<string, Secret>;

/**
 * Loads all settings from the environment variables `SLUICE_*` and the file named by `SLUICE_CONFIG`. Empty variables
 * count as unset. Rejects with a `ConfigError` that lists all issues, including missing variables for the secrets that are
 * needed.
 */
export async function loadConfig(env: NodeJS.ProcessEnv, needed: NeededSecrets = 'all'): Promise<Config> {
  const issues: ConfigIssue[] = [];
  const host = readHost(env.SLUICE_HOST || '127.0.0.1', issues);
  const port = readPort(env.SLUICE_PORT || '8080', issues);
  const home = homeOf(env);
  const databaseUrl = readDatabaseUrl(env, issues);
  const valkeyUrl = readUrl('SLUICE_VALKEY_URL', ['redis', 'rediss', 'valkey', 'valkeys'], env, issues);
  const secretKey = readSecretKey(env, issues);
  const tracing = readTracing(env, issues);
  const configPath = env.SLUICE_CONFIG ? resolve(env.SLUICE_CONFIG) : null;
  const file = configPath === null ? configSchema.parse({}) : await loadFile(configPath, env, needed, issues);
  if (file === null || issues.length > 0) throw new ConfigError(configPath, issues);
  return { file, configPath, host, port, home, databaseUrl, valkeyUrl, secretKey, tracing };
}

/** Returns the location of the database without reading the configuration file. Throws a `ConfigError`. */
export function databaseOf(env: NodeJS.ProcessEnv): { home: string; url: Secret | null } {
  const issues: ConfigIssue[] = [];
  const url = readDatabaseUrl(env, issues);
  if (issues.length > 0) throw new ConfigError(null, issues);
  return { home: homeOf(env), url };
}

/** Returns the keys that encrypt the secrets in the database; null: the keys are in a file. Throws a `ConfigError`. */
export function secretKeyOf(env: NodeJS.ProcessEnv): Secret | null {
  const issues: ConfigIssue[] = [];
  const key = readSecretKey(env, issues);
  if (issues.length > 0) throw new ConfigError(null, issues);
  return key;
}

/** Reads the secrets that the configuration refers to. `loadConfig` has checked that those needed are set. */
export function loadSecrets(config: Config, env: NodeJS.ProcessEnv): Secrets {
  return new Map(
    variablesOf(config.file).flatMap(({ name }) => {
      const text = variable(env, name);
      return text ? [[name, new Secret(text)] as const] : [];
    }),
  );
}

/** Returns a variable whose name is in the configuration, where it may be that of a built-in property. */
function variable(env: NodeJS.ProcessEnv, name: string): string | undefined {
  return Object.hasOwn(env, name) ? env[name] : undefined;
}

/** Replicas that are added to a running service can only use variables with this prefix. */
const REPLICA_SECRET_PREFIX = 'SLUICE_REPLICA_';

/** Returns the variables that any replica can use, even if the configuration does not name them. */
export function replicaSecrets(env: NodeJS.ProcessEnv): Secrets {
  return new Map(
    Object.entries(env).flatMap(([name, text]) =>
      text && name.startsWith(REPLICA_SECRET_PREFIX) ? [[name, new Secret(text)] as const] : [],
    ),
  );
}

interface SecretVariable {
  /** Path of the field that names the variable. */
  path: PropertyKey[];
  name: string;
  value: ValueForm;
}

/** What the value of a variable must be. */
interface ValueForm {
  isValid(value: string): boolean;
  /** Completes "the name of an environment variable". */
  expected: string;
  /** Completes "the environment variable X". */
  problem: string;
}

const ANY: ValueForm = { isValid: () => true, expected: 'that is set', problem: 'is not set' };

const IN_HEADER: ValueForm = {
  isValid: (value) => HEADER_VALUE.test(value),
  expected: 'whose value can be sent in a header',
  problem:
    'cannot be sent in a header: it has spaces or line breaks at its ends, characters other than printable ASCII, or more than 4096 characters',
};

const SIGNING_SECRET: ValueForm = {
  isValid: (value) => WEBHOOK_SECRET.test(value),
  expected: 'with `whsec_` and the base64 of 24 to 64 bytes',
  problem: 'is not a signing secret; create one with `echo "whsec_$(openssl rand -base64 32)"`',
};

const WEBHOOK_URL: ValueForm = {
  isValid: (value) => serverUrl.safeParse(value).success,
  expected: 'with an http:// or https:// URL without credentials',
  problem: 'is not an http:// or https:// URL without credentials',
};

/** Returns the environment variables for secrets. */
function variablesOf({ models, signIn, smtp, alerts }: ConfigFile): SecretVariable[] {
  const headers = models.flatMap(({ replicas = [] }, m) =>
    replicas.flatMap(({ apiKeyEnv, headersEnv = {} }, r) => {
      const path = ['models', m, 'replicas', r];
      return [
        { path: [...path, 'apiKeyEnv'], name: apiKeyEnv },
        ...Object.entries(headersEnv).map(([header, name]) => ({
          path: [...path, 'headersEnv', header],
          name,
        })),
      ];
    }),
  );
  const others = [
    ...signIn.providers.map(({ clientSecretEnv }, p) => ({
      path: ['signIn', 'providers', p, 'clientSecretEnv'],
      name: clientSecretEnv,
    })),
    { path: ['smtp', 'passwordEnv'], name: smtp?.passwordEnv },
  ];
  const webhooks = (field: 'secretEnv' | 'urlEnv') =>
    alerts.webhooks.map((webhook, w) => ({ path: ['alerts', 'webhooks', w, field], name: webhook[field] }));
  const named = (value: ValueForm) => (variable: { path: PropertyKey[]; name: string | undefined }) =>
    variable.name === undefined ? [] : [{ path: variable.path, name: variable.name, value }];
  return [
    ...headers.flatMap(named(IN_HEADER)),
    ...others.flatMap(named(ANY)),
    ...webhooks('secretEnv').flatMap(named(SIGNING_SECRET)),
    ...webhooks('urlEnv').flatMap(named(WEBHOOK_URL)),
  ];
}

/** Loads the file and applies defaults. If it is invalid, adds to `issues` and resolves with null. */
async function loadFile(
  configPath: string,
  env: NodeJS.ProcessEnv,
  needed: NeededSecrets,
  issues: ConfigIssue[],
): Promise<ConfigFile | null> {
  const bytes = await readBounded(configPath, issues);
  if (bytes === null) return null;
  let yaml: YamlFile;
  try {
    yaml = parseYaml(bytes, configPath);
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    issues.push(...error.issues);
    return null;
  }
  // The value of an empty file, or one with only comments, is null.
  const parsed = configSchema.safeParse(yaml.value ?? {});
  if (!parsed.success) {
    issues.push(...issuesOf(parsed.error, yaml));
    return null;
  }
  if (needed !== 'none') {
    const variables = variablesOf(parsed.data).filter(({ path }) => needed === 'all' || path[0] === needed);
    issues.push(...invalidSecrets(variables, env, yaml));
  }
  const base = dirname(configPath);
  const { backup, engine } = parsed.data;
  const { directory } = engine.conversationCache;
  return {
    ...parsed.data,
    engine: {
      ...engine,
      conversationCache: {
        ...engine.conversationCache,
        ...(directory !== undefined && { directory: resolve(base, directory) }),
      },
    },
    models: parsed.data.models.map((model) => withAbsolutePath(model, base)),
    ...(backup?.directory !== undefined && {
      backup: { ...backup, directory: resolve(base, backup.directory) },
    }),
  };
}

/**
 * Resolves the path of a model file relative to the configuration file. Leaves sources with a scheme, such as `hf:` and
 * `https:`, unchanged.
 */
function withAbsolutePath(model: ModelConfig, base: string): ModelConfig {
  const file = model.engine?.file;
  if (model.engine === undefined || file === undefined || /^[a-z][a-z0-9+.-]+:/i.test(file)) return model;
  return { ...model, engine: { ...model.engine, file: resolve(base, file) } };
}

/** Reports variables that are not set, or whose value has another form. The issues never contain a value. */
function invalidSecrets(
  variables: readonly SecretVariable[],
  env: NodeJS.ProcessEnv,
  yaml: YamlFile,
): ConfigIssue[] {
  return variables.flatMap(({ path, name, value: form }) => {
    const value = variable(env, name);
    if (value && form.isValid(value)) return [];
    const { expected, problem } = value ? form : ANY;
    return [
      {
        path: formatPath(path),
        ...yaml.locate(path),
        expected: `the name of an environment variable ${expected}`,
        message: `the environment variable ${safeName(name)} ${problem}`,
      },
    ];
  });
}

/** Hides values that do not look like a variable name, because they may be the key itself. */
const safeName = (text: string): string => (/^[A-Z][A-Z0-9_]*$/.test(text) ? text : 'named here');

/** Maximum size of the configuration file, in bytes. */
const MAX_FILE = 1_048_576;

/** Maximum reads of a file that changes while it is read, and the pause between them in milliseconds. */
const MAX_READS = 50;
const REREAD_MS = 10;

async function readBounded(path: string, issues: ConfigIssue[]): Promise<Uint8Array | null> {
  try {
    for (let attempt = 0; attempt < MAX_READS; attempt++) {
      // Opened each time, because the file may have been replaced.
      await using file = await open(path, 'r');
      const before = await file.stat({ bigint: true });
      if (before.size > MAX_FILE) {
        issues.push(fileIssue(`a file of at most ${MAX_FILE} bytes`, `the file has ${before.size} bytes`));
        return null;
      }
      const bytes = await file.readFile();
      const { size, mtimeNs } = await file.stat({ bigint: true });
      // A partly written file may be valid as well, so the file must not have changed during the read. This is not
      // checked for a pipe, which has no size.
      const complete = BigInt(bytes.length) === size && before.size === size && before.mtimeNs === mtimeNs;
      if (complete || !before.isFile()) return bytes;
      await delay(REREAD_MS);
    }
    issues.push(fileIssue('a file that can be read completely', 'it kept changing'));
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? String(error.code) : '';
    issues.push(
      fileIssue('a readable file', REASONS.get(code) ?? `the file cannot be read (${code || String(error)})`),
    );
  }
  return null;
}

const REASONS: ReadonlyMap<string, string> = new Map([
  ['ENOENT', 'the file does not exist'],
  ['EISDIR', 'it is a directory'],
  ['ENOTDIR', 'part of the path is a file'],
  ['EACCES', 'the current user has no permission to read the file'],
]);

function fileIssue(expected: string, found: string): ConfigIssue {
  return { path: '', line: null, column: null, expected, message: `expected ${expected}; ${found}` };
}

function readHost(text: string, issues: ConfigIssue[]): string {
  if (!isHost(text)) issues.push(environmentIssue('SLUICE_HOST', HOST_FORM, `got ${JSON.stringify(text)}`));
  return text;
}

function readPort(text: string, issues: ConfigIssue[]): number {
  if (!isPort(text)) issues.push(environmentIssue('SLUICE_PORT', PORT_FORM, `got ${JSON.stringify(text)}`));
  return Number(text);
}

function readDatabaseUrl(env: NodeJS.ProcessEnv, issues: ConfigIssue[]): Secret | null {
  return readUrl('SLUICE_DATABASE_URL', ['postgres', 'postgresql'], env, issues);
}

/** Reads up to 20 keys, as `database/secret-keys.ts` parses them. Issues do not repeat the value. */
function readSecretKey(env: NodeJS.ProcessEnv, issues: ConfigIssue[]): Secret | null {
  const text = env.SLUICE_SECRET_KEY?.trim();
  if (!text) return null;
  if (!/^[0-9a-f]{64}([\s,]+[0-9a-f]{64}){0,19}$/i.test(text)) {
    const expected = '64 hexadecimal digits, such as the output of `openssl rand -hex 32`';
    const found = 'its value has another format; separate several keys by commas, the newest first';
    issues.push(environmentIssue('SLUICE_SECRET_KEY', expected, found));
  }
  return new Secret(text);
}

/** Reads the URL of a server. Issues do not repeat it, because it may contain a password. */
function readUrl(
  name: string,
  schemes: readonly [string, ...string[]],
  env: NodeJS.ProcessEnv,
  issues: ConfigIssue[],
): Secret | null {
  const text = env[name];
  if (!text) return null;
  const scheme = URL.parse(text)?.protocol.slice(0, -1);
  if (scheme === undefined || !schemes.includes(scheme)) {
    const expected = `a URL such as ${schemes[0]}://user:password@host/name`;
    issues.push(
      environmentIssue(name, expected, scheme === undefined ? 'its value is not a URL' : `got ${scheme}:`),
    );
  }
  // The client library only accepts Redis schemes.
  return new Secret(text.replace(/^valkey/, 'redis'));
}

/** The samplers of OpenTelemetry's SDKs. If `ratio` is null, it is read from `OTEL_TRACES_SAMPLER_ARG`. */
const SAMPLERS: ReadonlyMap<string, readonly [parentBased: boolean, ratio: number | null]> = new Map([
  ['always_on', [false, 1]],
  ['always_off', [false, 0]],
  ['traceidratio', [false, null]],
  ['parentbased_always_on', [true, 1]],
  ['parentbased_always_off', [true, 0]],
  ['parentbased_traceidratio', [true, null]],
]);

/** Returns null without `OTEL_EXPORTER_OTLP_ENDPOINT`, or with `OTEL_SDK_DISABLED=true`. */
export function readTracing(env: NodeJS.ProcessEnv, issues: ConfigIssue[]): TracingConfig | null {
  const endpoint = env.OTEL_EXPORTER_OTLP_ENDPOINT;
  if (!endpoint || env.OTEL_SDK_DISABLED === 'true') return null;
  return {
    url: readEndpoint(endpoint, issues),
    headers: readHeaders(env.OTEL_EXPORTER_OTLP_HEADERS ?? '', issues),
    resource: new Map([
      ...pairs('OTEL_RESOURCE_ATTRIBUTES', env.OTEL_RESOURCE_ATTRIBUTES ?? '', issues),
      ...(env.OTEL_SERVICE_NAME ? [['service.name', env.OTEL_SERVICE_NAME] as const] : []),
    ]),
    ...readSampler(env, issues),
  };
}

function readEndpoint(text: string, issues: ConfigIssue[]): string {
  const url = URL.parse(text);
  if (url?.protocol === 'http:' || url?.protocol === 'https:') {
    return `${text.replace(/\/+$/, '')}/v1/traces`;
  }
  const expected = 'the http:// or https:// URL of an OTLP/HTTP receiver, such as http://127.0.0.1:4318';
  issues.push(environmentIssue('OTEL_EXPORTER_OTLP_ENDPOINT', expected, 'its value is not such a URL'));
  return '';
}

function readHeaders(text: string, issues: ConfigIssue[]): Map<string, Secret> {
  const name = 'OTEL_EXPORTER_OTLP_HEADERS';
  const headers = pairs(name, text, issues);
  if (headers.some(([header, value]) => !/^[\w-]+$/.test(header) || !HEADER_VALUE.test(value))) {
    issues.push(
      environmentIssue(name, 'headers such as `name=value`', 'a name or value cannot be sent in a header'),
    );
  }
  return new Map(headers.map(([header, value]) => [header.toLowerCase(), new Secret(value)]));
}

function readSampler(
  env: NodeJS.ProcessEnv,
  issues: ConfigIssue[],
): Pick<TracingConfig, 'parentBased' | 'ratio'> {
  const name = env.OTEL_TRACES_SAMPLER || 'parentbased_always_on';
  const sampler = SAMPLERS.get(name);
  if (!sampler) {
    const expected = `one of ${[...SAMPLERS.keys()].join(', ')}`;
    issues.push(environmentIssue('OTEL_TRACES_SAMPLER', expected, `got ${JSON.stringify(name)}`));
  }
  const [parentBased, fixed] = sampler ?? [true, 1];
  const text = env.OTEL_TRACES_SAMPLER_ARG || '1';
  const ratio = fixed ?? Number(text);
  if (!(ratio >= 0 && ratio <= 1)) {
    const found = `got ${JSON.stringify(text)}`;
    issues.push(environmentIssue('OTEL_TRACES_SAMPLER_ARG', 'a number from 0 to 1', found));
  }
  return { parentBased, ratio };
}

/** Reads `name=value,name=value` with percent-encoded values. Issues do not repeat it, because it may be secret. */
function pairs(name: string, text: string, issues: ConfigIssue[]): (readonly [string, string])[] {
  const parts = text.split(',').filter((part) => part.trim() !== '');
  return parts.flatMap((part) => {
    const at = part.indexOf('=');
    const value = decoded(part.slice(at + 1).trim());
    if (at > 0 && value !== null) return [[part.slice(0, at).trim(), value] as const];
    const expected = 'a list such as `name=value,name=value`, with percent-encoded values';
    issues.push(environmentIssue(name, expected, 'one of its entries does not have this form'));
    return [];
  });
}

function decoded(text: string): string | null {
  try {
    return decodeURIComponent(text);
  } catch {
    return null;
  }
}
