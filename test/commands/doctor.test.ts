import assert from 'node:assert/strict';
import { once } from 'node:events';
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer as createHttpServer } from 'node:http';
import { createServer, type AddressInfo, type Server } from 'node:net';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { sql } from 'kysely';
import { checkGpu, type Finding, checkHome, checkPort } from '../../src/commands/doctor.ts';
import { openDatabase } from '../../src/database/database.ts';
import { testDatabases, valkeyUrl, withoutValkey } from '../support/servers.ts';
import { folder, run } from './program.ts';

/** Starting pip takes most of the CPU time of the command. */
const WITHOUT_PIP = { SLUICE_PORT: '0', PATH: '/nonexistent' };

async function listening(server: Server): Promise<number> {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return (server.address() as AddressInfo).port; // Listens on TCP.
}

test('doctor checks everything that a service needs, changes nothing, and exits with 0 if it finds no faults', async (t) => {
  const home = join(folder(t), 'home');
  const { code, stdout } = await run(['doctor', '--json'], { SLUICE_HOME: home, SLUICE_PORT: '0' });
  const findings: Finding[] = JSON.parse(stdout);
  assert.deepEqual(
    findings.map((finding) => finding.subject),
    ['configuration', 'runtime', 'cores', 'memory', 'engine', 'pip', 'model', 'model memory'].concat(
      'model context',
      'data directory',
      'port',
    ),
  );
  for (const finding of findings)
    assert.equal(finding.advice === null, finding.status === 'good', finding.found);
  assert.equal(code, findings.some((finding) => finding.status === 'fault') ? 1 : 0);
  assert.equal(existsSync(home), false);
});

test('doctor connects to the configured servers and prints no password', async (t) => {
  const [, postgres] = testDatabases();
  await using location = await postgres?.location();
  const available = {
    ...(location && { SLUICE_DATABASE_URL: location.env.SLUICE_DATABASE_URL }),
    ...(withoutValkey ? {} : { SLUICE_VALKEY_URL: await valkeyUrl() }),
  };
  const unavailable = {
    SLUICE_DATABASE_URL: 'postgres://user:hidden-one@127.0.0.1:9/none',
    SLUICE_VALKEY_URL: 'redis://:hidden-two@127.0.0.1:9',
  };
  for (const [env, statuses] of [
    [available, ['good', 'good']],
    [unavailable, ['fault', 'note']],
  ] as const) {
    const { stdout } = await run(['doctor', '--json'], { SLUICE_HOME: folder(t), ...WITHOUT_PIP, ...env });
    const findings: Finding[] = JSON.parse(stdout);
    const found = findings.filter(({ subject }) => subject === 'database' || subject === 'limits');
    assert.deepEqual(
      found.map(({ status }) => status),
      statuses.slice(0, Object.keys(env).length),
      stdout,
    );
    assert.doesNotMatch(stdout, /hidden/);
  }
});

test('doctor exits with 1 and advice if the service cannot start', async (t) => {
  const home = join(folder(t), 'file');
  writeFileSync(home, '');
  const { code, stdout, stderr } = await run(['doctor'], { SLUICE_HOME: home, ...WITHOUT_PIP });
  assert.equal(code, 1);
  assert.match(
    stdout,
    /^FAIL {2}data directory .*file is a file, not a directory\n +Give this user write permission/m,
  );
  assert.match(stderr, /1 problem to fix before the service can start/);
});

test('doctor exits with 1 and the reason if the service cannot open its SQLite database, and does not change it', async (t) => {
  const home = folder(t);
  const path = join(home, 'sluice.db');
  const found = async () => {
    const { code, stdout } = await run(['doctor', '--json'], { SLUICE_HOME: home, ...WITHOUT_PIP });
    const findings: Finding[] = JSON.parse(stdout);
    const finding = findings.find(({ subject }) => subject === 'database');
    assert.equal(code, findings.some(({ status }) => status === 'fault') ? 1 : 0);
    return [finding?.status, finding?.found];
  };
  {
    await using database = await openDatabase({ home, url: null });
    assert.deepEqual(await found(), ['good', `SQLite: ${path}`]);
    await sql`insert into migrations values ('9999_future', 0)`.execute(database.kysely);
  }
  const [status, newer = ''] = await found();
  assert.equal(status, 'fault');
  assert.match(newer, /was migrated by a newer version of Sluice \(9999_future\)/);
  const letter = 'this is a letter to my grandmother, '.repeat(100);
  writeFileSync(path, letter);
  const [, damaged = ''] = await found();
  assert.match(damaged, /sluice\.db is not a SQLite database/);
  assert.equal(readFileSync(path, 'utf8'), letter);
  assert.deepEqual(readdirSync(home), ['sluice.db']);
});

test('doctor names every file and folder of the data directory that is in the place of the other', async (t) => {
  for (const [name, isFolder] of [
    ['secret.key', true],
    ['secret.key.lock', true],
    ['service.lock', true],
    ['service.json', true],
    ['sluice.db', true],
    ['sluice.db-wal', true],
    ['models', false],
    ['models/hub', false],
    ['models/.locks', false],
    ['backups', false],
  ] as const) {
    const home = folder(t);
    const path = join(home, name);
    if (isFolder) mkdirSync(path);
    else {
      mkdirSync(dirname(path), { recursive: true });
      writeFileSync(path, '');
    }
    const { code, stdout } = await run(['doctor', '--json'], { SLUICE_HOME: home, ...WITHOUT_PIP });
    const findings: Finding[] = JSON.parse(stdout);
    const faults = findings.filter(({ status, found }) => status === 'fault' && found.includes(path));
    assert.equal(faults.length, 1, `${name}: ${stdout}`);
    assert.match(faults[0]?.found ?? '', isFolder ? /directory/ : /is a file, not a directory/);
    assert.ok(faults[0]?.advice);
    assert.equal(code, 1);
  }
});

test('doctor reports configuration errors and still checks the machine', async (t) => {
  const { code, stdout } = await run(['doctor', '--json'], { SLUICE_HOME: folder(t), SLUICE_PORT: 'x' });
  const findings: Finding[] = JSON.parse(stdout);
  assert.equal(code, 1);
  assert.deepEqual([findings[0]?.subject, findings[0]?.status], ['configuration', 'fault']);
  assert.match(findings[0]?.found ?? '', /SLUICE_PORT/);
  assert.ok(findings.some((finding) => finding.subject === 'memory'));
});

test('doctor reports models that are not downloaded, cannot be found, or run on replicas', async (t) => {
  const home = folder(t);
  const file = join(home, 'sluice.yaml');
  writeFileSync(
    file,
    'models:\n  - id: HuggingFaceTB/SmolLM2-135M-Instruct\n  - id: a/b\n    engine: {file: none.gguf}\n' +
      '  - id: c/d\n    replicas: [{url: "http://x", dialect: tgi}]\n',
  );
  const { code, stdout } = await run(['doctor', '--json'], {
    SLUICE_HOME: home,
    SLUICE_CONFIG: file,
    ...WITHOUT_PIP,
  });
  const findings: Finding[] = JSON.parse(stdout);
  const models = findings.filter((finding) => finding.subject === 'model');
  assert.deepEqual(
    models.map((finding) => finding.status),
    ['note', 'fault', 'good'],
  );
  assert.match(models[0]?.advice ?? '', /sluice models pull/);
  assert.equal(code, 1);
});

test('a port is a fault if another program uses it, a note if a service uses it, and good if it is free', async (t) => {
  const other = createServer((socket) => socket.destroy());
  const port = await listening(other);
  assert.equal((await checkPort('127.0.0.1', port)).status, 'fault');
  other.close();
  await once(other, 'close');
  assert.equal((await checkPort('127.0.0.1', port)).status, 'good');
  const service = createHttpServer((_, response) => response.end('{"info":{"title":"Sluice"}}'));
  t.after(() => service.close());
  assert.equal((await checkPort('127.0.0.1', await listening(service))).status, 'note');
  assert.match((await checkPort('192.0.2.1', 0)).found, /this machine has no such address/);
});

test('a data directory that can be created is good', async (t) => {
  const home = folder(t);
  mkdirSync(join(home, 'a'));
  const finding = await checkHome(join(home, 'a', 'b', 'c'));
  assert.match(finding.found, /c \(will be created\), [\d.]+ [MG]B free$/);
  assert.equal(existsSync(join(home, 'a', 'b')), false);
});

test(
  'a GPU whose package is not installed is a note',
  { skip: process.platform !== 'linux' || process.arch !== 'x64' },
  (context) => {
    const root = folder(context);
    assert.deepEqual(checkGpu(root), []);
    mkdirSync(join(root, 'dev/dri'), { recursive: true });
    writeFileSync(join(root, 'dev/dri/renderD128'), '');
    const [vulkan] = checkGpu(root);
    assert.match(vulkan?.found ?? '', /has a GPU, but @node-llama-cpp\/linux-x64-vulkan is not installed/);
    mkdirSync(join(root, 'proc/driver/nvidia'), { recursive: true });
    writeFileSync(join(root, 'proc/driver/nvidia/version'), '');
    assert.match(checkGpu(root)[0]?.found ?? '', /an NVIDIA GPU, but @node-llama-cpp\/linux-x64-cuda/);
  },
);

test('doctor reports the program of a model that is missing or does not run', async (t) => {
  const home = folder(t);
  const broken = join(home, 'broken');
  writeFileSync(
    broken,
    '#!/bin/sh\necho "error while loading shared libraries: libggml.so" >&2\nexit 127\n',
    { mode: 0o755 },
  );
  const programs = [process.execPath, 'no-such-program', broken];
  const models = programs.map((program, index) => ({
    id: `acme/${index}`,
    command: { run: [program, '{port}'], dialect: 'vllm' },
  }));
  const path = join(home, 'sluice.yaml');
  writeFileSync(path, JSON.stringify({ models }));
  const env = { SLUICE_HOME: join(home, 'home'), ...WITHOUT_PIP, SLUICE_CONFIG: path };
  const { code, stdout } = await run(['doctor', '--json'], env);
  const findings: Finding[] = JSON.parse(stdout);
  assert.deepEqual(
    findings.filter(({ subject }) => subject === 'model').map(({ status, found }) => [status, found]),
    [
      ['good', `acme/0: started with ${process.execPath}`],
      ['fault', 'acme/1: no-such-program does not exist'],
      ['fault', `acme/2: ${broken} does not run: error while loading shared libraries: libggml.so`],
    ],
  );
  assert.equal(code, 1);
});
