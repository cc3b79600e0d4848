import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { parse } from 'yaml';
import { configFields, type ConfigField } from '../../src/config/issues.ts';
import { loadConfig } from '../../src/config/load.ts';

const root = join(import.meta.dirname, '../..');
const page = readFileSync(join(root, 'docs/configuration.md'), 'utf8');
const example = readFileSync(join(root, 'config.example.yaml'), 'utf8');

/** Returns the expected row of a field: path, type with bounds, default, description. */
function rowOf(field: ConfigField): string {
  const standard =
    field.default === undefined ? (field.required ? 'required' : '') : `\`${JSON.stringify(field.default)}\``;
  return `| \`${field.path}\` | ${field.type} | ${standard} | ${field.description} |`.replaceAll(/ +/g, ' ');
}

test('docs/configuration.md has a row for every field with its type, bounds, default and description', () => {
  const rows = page
    .split('\n')
    // Names in capitals are environment variables.
    .filter((line) => /^\| `(?![A-Z_]+`)/.test(line))
    .map((line) => line.replaceAll(/ +/g, ' '));
  assert.deepEqual(rows, configFields().map(rowOf));
});

test('docs/configuration.md has every environment variable that the program reads', () => {
  for (const name of [
    'SLUICE_HOST',
    'SLUICE_PORT',
    'SLUICE_HOME',
    'SLUICE_CONFIG',
    'SLUICE_DATABASE_URL',
    'SLUICE_VALKEY_URL',
    'HTTPS_PROXY',
    'HTTP_PROXY',
    'NO_PROXY',
  ]) {
    assert.match(page, new RegExp(`^\\| \`${name}\` +\\|`, 'm'));
  }
});

test('every field has a description, including the unit if its name has one', () => {
  for (const { path, description } of configFields()) {
    if (path.endsWith('[]')) continue;
    assert.match(description, /\.$/, path);
    if (path.endsWith('Ms')) assert.match(description, /in milliseconds/, path);
    if (path.endsWith('Bytes')) assert.match(description, /in bytes/, path);
  }
});

test('config.example.yaml is valid and equals the defaults', async () => {
  const loaded = await loadConfig({ SLUICE_CONFIG: join(root, 'config.example.yaml') });
  assert.deepEqual(loaded.file, (await loadConfig({})).file);
});

test('config.example.yaml with uncommented settings is valid and sets every field', async (t) => {
  const home = mkdtempSync(join(tmpdir(), 'sluice-config-'));
  t.after(() => rmSync(home, { recursive: true }));
  const path = join(home, 'sluice.yaml');
  // A # with one space begins a comment; without a space, or with an indentation, it is a setting.
  writeFileSync(path, example.replaceAll(/^#(?! \S)/gm, ''));
  const set = pathsOf(parse(readFileSync(path, 'utf8')));
  assert.deepEqual(
    configFields().flatMap((field) => (set.has(field.path) ? [] : [field.path])),
    [],
  );
  const secrets = [
    'VLLM_API_KEY',
    'GATEWAY_KEY',
    'PROVIDER_API_KEY',
    'GOOGLE_CLIENT_SECRET',
    'COMPANY_CLIENT_SECRET',
    'SMTP_PASSWORD',
  ];
  const loaded = await loadConfig({
    SLUICE_CONFIG: path,
    ...Object.fromEntries(secrets.map((name) => [name, 'x'])),
    PAGER_WEBHOOK_SECRET: `whsec_${'A'.repeat(32)}`,
    CHAT_WEBHOOK_URL: 'https://chat.example.org/hooks/x',
  });
  assert.equal(loaded.file.models.length, 6);
});

test('config.example.yaml has the actual defaults', () => {
  const value: unknown = parse(example.replaceAll(/^#(?! \S)/gm, ''));
  for (const { path, default: standard } of configFields()) {
    if (standard === undefined || typeof standard === 'object' || path.includes('[]')) continue;
    const shown = path
      .split('.')
      .reduce<unknown>((at, key) => (at instanceof Object ? Reflect.get(at, key) : undefined), value);
    assert.deepEqual(shown, standard, path);
  }
});

function pathsOf(value: unknown, path = ''): Set<string> {
  if (Array.isArray(value)) {
    return new Set([path, `${path}[]`, ...value.flatMap((item) => [...pathsOf(item, `${path}[]`)])]);
  }
  if (typeof value !== 'object' || value === null) return new Set([path]);
  // The keys of these mappings are names of plans and models.
  const chosen = /^plans$|^plans\..*\.models$/.test(path);
  const below = Object.entries(value).flatMap(([key, child]) => [
    ...pathsOf(child, path === '' ? key : `${path}.${chosen ? '*' : key}`),
  ]);
  return new Set([path, ...below]);
}
