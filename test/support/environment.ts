/**
 * The environment of the tests, benchmarks and their child processes: that of the shell, without the settings of Sluice
 * and of the client libraries. Otherwise a shell with `SLUICE_DATABASE_URL` would have the tests write into that database.
 */

/** Settings of Sluice, OpenTelemetry, the client libraries and PostgreSQL. Tests set the ones that they need. */
const SETTINGS = /^(SLUICE_(?!TEST_|WRITE_GOLDEN$)|OTEL_|OPENAI_|ANTHROPIC_|LANGCHAIN_|LANGSMITH_|PG[A-Z])/;

/** The way to the internet, which the tests do without. */
const INTERNET = /^(HF_.*|(HTTPS?|ALL|NO)_PROXY)$/i;

/** Servers that a test may erase, so they must be ones that the tests have started. */
const SERVERS = /^TEST_(POSTGRES|VALKEY|CHROMIUM)_URL$/;

/** Set for child processes, which receive settings from their test. */
const MARKER = 'SLUICE_TEST_ENVIRONMENT';

/** The environment for downloads before the tests. */
export const DOWNLOADS: NodeJS.ProcessEnv = without(process.env, SETTINGS);

/**
 * Removes these variables from the environment of this process, unless its parent has. Of `TEST_POSTGRES_URL` and
 * `TEST_VALKEY_URL`, keeps the empty string, which skips the tests; of the variables `SLUICE_TEST_…`, removes it.
 */
export function dropSettings(): void {
  const { env } = process;
  if (env[MARKER] !== undefined) return;
  env[MARKER] = '1';
  // Tests of the package install with npm.
  const { http_proxy, HTTP_PROXY = http_proxy, https_proxy, HTTPS_PROXY = https_proxy } = env;
  if (HTTP_PROXY !== undefined) env.npm_config_proxy ??= HTTP_PROXY;
  if (HTTPS_PROXY !== undefined) env.npm_config_https_proxy ??= HTTPS_PROXY;
  for (const [name, value] of Object.entries(env)) {
    const isOther = value === '' ? name.startsWith('SLUICE_TEST_') : SERVERS.test(name);
    if (isOther || SETTINGS.test(name) || INTERNET.test(name)) delete env[name];
  }
}

function without(env: NodeJS.ProcessEnv, names: RegExp): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(env).filter(([name]) => !names.test(name)));
}
