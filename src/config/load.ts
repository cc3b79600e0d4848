import { open } from 'node:fs/promises';
import { isIP } from 'node:net';
import { dirname, resolve } from 'node:path';
import { Secret } from '../secret.ts';
import { ConfigError, type ConfigIssue } from './errors.ts';
import { faultsOf } from './faults.ts';
import { writePath } from './fields.ts';
import { homeOf } from './home.ts';
import { configSchema, type Config, type ConfigFile } from './schema.ts';
import { parseYaml, type YamlFile } from './yaml.ts';

/** Keys and passwords sent to other servers, by the name of the environment variable that holds each. */
export type Secrets = ReadonlyMap<string, Secret>;

/**
 * All settings: `SLUICE_HOST`, `SLUICE_PORT`, `SLUICE_HOME`, `SLUICE_DATABASE_URL`, `SLUICE_VALKEY_URL`, and the file
 * that `SLUICE_CONFIG` names. A variable that is empty counts as not set. Nothing is made or changed. Rejects with a `ConfigError` that lists every fault at
 * once, those of the variables that hold secrets among them.
 */
export async function loadConfig(env: NodeJS.ProcessEnv): Promise<Config> {
  const faults: ConfigIssue[] = [];
  const host = readHost(env.SLUICE_HOST || '127.0.0.1', faults);
  const port = readPort(env.SLUICE_PORT || '8080', faults);
  const home = homeOf(env);
  const databaseUrl = readDatabaseUrl(env, faults);
  const valkeyUrl = readUrl('SLUICE_VALKEY_URL', ['redis', 'rediss', 'valkey', 'valkeys'], env, faults);
  const configPath = env.SLUICE_CONFIG ? resolve(env.SLUICE_CONFIG) : null;
  const file = configPath === null ? configSchema.parse({}) : await loadFile(configPath, env, faults);
  if (file === null || faults.length > 0) throw new ConfigError(configPath, faults);
  return { file, configPath, host, port, home, databaseUrl, valkeyUrl };
}

/**
 * Where the database is: `SLUICE_DATABASE_URL`, or else in `SLUICE_HOME`. For commands that read no configuration
 * file, so that a fault in it keeps nobody from revoking a key. Throws a `ConfigError`.
 */
export function databaseOf(env: NodeJS.ProcessEnv): { home: string; url: Secret | null } {
  const faults: ConfigIssue[] = [];
  const url = readDatabaseUrl(env, faults);
  if (faults.length > 0) throw new ConfigError(null, faults);
  return { home: homeOf(env), url };
}

/** The secrets that a configuration names, which `loadConfig` has seen to be there. They are kept apart from it. */
export function loadSecrets(config: Config, env: NodeJS.ProcessEnv): Secrets {
  return new Map(
    variablesOf(config.file).flatMap(({ name }) => {
      const text = env[name];
      return text ? [[name, new Secret(text)] as const] : [];
    }),
  );
}

/** The environment variables that hold secrets, by the fields that name them. */
function variablesOf({ models, signIn, smtp }: ConfigFile): { path: PropertyKey[]; name: string }[] {
  const all = [
    ...models.flatMap(({ replicas = [] }, m) =>
      replicas.map(({ apiKeyEnv }, r) => ({
        path: ['models', m, 'replicas', r, 'apiKeyEnv'],
        name: apiKeyEnv,
      })),
    ),
    ...signIn.providers.map(({ clientSecretEnv }, p) => ({
      path: ['signIn', 'providers', p, 'clientSecretEnv'],
      name: clientSecretEnv,
    })),
    { path: ['smtp', 'passwordEnv'], name: smtp?.passwordEnv },
  ];
  return all.flatMap(({ path, name }) => (name === undefined ? [] : [{ path, name }]));
}

/** The file with its defaults; null, with what is wrong in `faults`, when it cannot be used. */
async function loadFile(
  configPath: string,
  env: NodeJS.ProcessEnv,
  faults: ConfigIssue[],
): Promise<ConfigFile | null> {
  const bytes = await readBounded(configPath, faults);
  if (bytes === null) return null;
  let yaml: YamlFile;
  try {
    yaml = parseYaml(bytes, configPath);
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    faults.push(...error.issues);
    return null;
  }
  // A file of nothing but comments is one that changes nothing.
  const parsed = configSchema.safeParse(yaml.value ?? {});
  if (!parsed.success) {
    faults.push(...faultsOf(parsed.error, yaml));
    return null;
  }
  faults.push(...missingSecrets(parsed.data, env, yaml));
  return { ...parsed.data, models: parsed.data.models.map((model) => absolute(model, dirname(configPath))) };
}

type Model = ConfigFile['models'][number];

/** A path in the file is relative to the file; `hf:` and `https:` are no paths. */
function absolute(model: Model, base: string): Model {
  const file = model.engine?.file;
  if (model.engine === undefined || file === undefined || /^[a-z][a-z0-9+.-]+:/i.test(file)) return model;
  return { ...model, engine: { ...model.engine, file: resolve(base, file) } };
}

function missingSecrets(file: ConfigFile, env: NodeJS.ProcessEnv, yaml: YamlFile): ConfigIssue[] {
  return variablesOf(file).flatMap(({ path, name }) => {
    if (env[name]) return [];
    return [
      {
        path: writePath(path),
        ...yaml.locate(path),
        expected: 'the name of an environment variable that is set',
        message: `the environment variable ${nameOnly(name)} is not set`,
      },
    ];
  });
}

/** People put the key itself where its variable's name belongs; what does not look like a name is not repeated. */
const nameOnly = (text: string): string => (/^[A-Z][A-Z0-9_]*$/.test(text) ? text : 'named here');

const DATABASE_SCHEMES: readonly [string, string] = ['postgres', 'postgresql'];

/** Largest configuration file, in bytes. */
const MAX_FILE = 1_048_576;

async function readBounded(path: string, faults: ConfigIssue[]): Promise<Uint8Array | null> {
  try {
    await using file = await open(path, 'r');
    const { size } = await file.stat();
    if (size <= MAX_FILE) return await file.readFile();
    faults.push(fileFault(`a file of at most ${MAX_FILE} bytes`, `the file has ${size} bytes`));
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? String(error.code) : '';
    faults.push(
      fileFault('a readable file', REASONS.get(code) ?? `the file cannot be read (${code || String(error)})`),
    );
  }
  return null;
}

const REASONS: ReadonlyMap<string, string> = new Map([
  ['ENOENT', 'the file does not exist'],
  ['EISDIR', 'it is a directory'],
  ['EACCES', 'this user may not read the file'],
]);

function fileFault(expected: string, found: string): ConfigIssue {
  return { path: '', line: null, column: null, expected, message: `expected ${expected}; ${found}` };
}

function readHost(text: string, faults: ConfigIssue[]): string {
  if (isIP(text) === 0 && !/^[A-Za-z0-9]([A-Za-z0-9.-]{0,252})$/.test(text)) {
    faults.push(
      environmentFault('SLUICE_HOST', 'an IP address or a host name', `got ${JSON.stringify(text)}`),
    );
  }
  return text;
}

function readPort(text: string, faults: ConfigIssue[]): number {
  const port = Number(text);
  if (!/^\d{1,5}$/.test(text) || port > 65_535) {
    const expected = 'a port from 1 to 65535, or 0 for any free port';
    faults.push(environmentFault('SLUICE_PORT', expected, `got ${JSON.stringify(text)}`));
  }
  return port;
}

function readDatabaseUrl(env: NodeJS.ProcessEnv, faults: ConfigIssue[]): Secret | null {
  return readUrl('SLUICE_DATABASE_URL', DATABASE_SCHEMES, env, faults);
}

/** The address of a server, of which a fault repeats nothing: a password may stand in it. */
function readUrl(
  name: string,
  schemes: readonly [string, ...string[]],
  env: NodeJS.ProcessEnv,
  faults: ConfigIssue[],
): Secret | null {
  const text = env[name];
  if (!text) return null;
  const scheme = URL.parse(text)?.protocol.slice(0, -1);
  if (scheme === undefined || !schemes.includes(scheme)) {
    const expected = `a URL such as ${schemes[0]}://user:password@host/name`;
    faults.push(
      environmentFault(name, expected, scheme === undefined ? 'its value is not a URL' : `got ${scheme}:`),
    );
  }
  // Valkey's own names for what every client knows by Redis's.
  return new Secret(text.replace(/^valkey/, 'redis'));
}

function environmentFault(name: string, expected: string, found: string): ConfigIssue {
  return { path: name, line: null, column: null, expected, message: `expected ${expected}; ${found}` };
}
