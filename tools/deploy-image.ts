/**
 * Builds the container image with buildah and tests it: as an unprivileged user, it starts, generates, passes its
 * health check, writes only to its volume, and stops on SIGTERM. Prints the size of the image and the time from start
 * to ready.
 *
 * Needs no image registry: the base images are built with debootstrap and with the Node and npm of this machine.
 * Needs Debian, root, and the packages buildah and debootstrap. Everything is kept in `.cache/deploy`; delete it to
 * start over.
 */
import { execFileSync, spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, globSync, mkdirSync, openSync, rmSync, statSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { DEFAULT_MODEL_ID } from '../src/config/schema.ts';
import { VERSION } from '../src/support/version.ts';
import { temporaryFolder, until } from '../test/harness.ts';
import { freePort } from '../test/support/server-process.ts';

const ROOT = join(import.meta.dirname, '..');
const CACHE = join(ROOT, '.cache', 'deploy');
const BASE_FOLDER = join(CACHE, 'debian');
/** The output of the service in the container. */
const LOG = join(CACHE, 'service.log');
const SUITE = 'trixie';
/** The tags of `debian:trixie-slim`, of a `node:26-slim`, and of the image. */
const BASE = 'localhost/sluice-test-base';
const NODE = 'localhost/sluice-test-node';
const IMAGE = 'localhost/sluice-test';
const USER = 10_001;
const MAX_MEGABYTES = 350;

/** Files that Debian's slim images leave out. */
const NOT_SLIM = ['usr/share/{doc,info,locale,man}/*', 'var/{cache,lib}/apt/{archives,lists,*.bin}'];

const storage = [
  '--root',
  join(CACHE, 'storage'),
  '--runroot',
  join(CACHE, 'run'),
  '--storage-driver',
  'vfs',
];

mkdirSync(CACHE, { recursive: true });
console.log('Making the base images');
makeBase();
makeNode();
console.log('Building the image');
build();
await using container = startContainer();
const megabytes = sizeOf(container.root);
console.log(`Size: ${megabytes} MB, at most ${MAX_MEGABYTES} allowed`);
if (megabytes > MAX_MEGABYTES) throw new Error('the image is too large');

await using folder = await temporaryFolder();
const data = join(folder.path, 'data');
// The image has no pip, which is used to download the model if Hugging Face cannot be reached.
execFileSync(process.execPath, [join(ROOT, 'src/main.ts'), 'models', 'pull', DEFAULT_MODEL_ID], {
  env: { ...process.env, SLUICE_HOME: data },
  stdio: ['ignore', 'ignore', 'inherit'],
});
execFileSync('chown', ['-R', String(USER), folder.path]);
// The first start creates the database.
for (const start of ['first', 'second']) {
  const seconds = await runService(data, container.name);
  console.log(`From start to ready, ${start} start: ${seconds.toFixed(1)} s`);
}
checkUnchanged(container.root);
console.log('Passed');

/** Creates the base image: a minimal Debian without the files that slim images leave out. */
function makeBase(): void {
  if (hasImage(BASE)) return;
  rmSync(BASE_FOLDER, { recursive: true, force: true });
  execFileSync('debootstrap', ['--variant=minbase', SUITE, BASE_FOLDER], { stdio: 'ignore' });
  for (const path of globSync(NOT_SLIM, { cwd: BASE_FOLDER })) {
    rmSync(join(BASE_FOLDER, path), { recursive: true, force: true });
  }
  commit('scratch', BASE, [[BASE_FOLDER, '/']]);
  rmSync(BASE_FOLDER, { recursive: true });
}

/** Creates the image to build with, which has Node and npm in the same places as the official images. */
function makeNode(): void {
  if (hasImage(NODE)) return;
  // npm sets it to the path of its bin/npm-cli.js.
  const program = process.env.npm_execpath;
  if (program === undefined) throw new Error('run `npm run check:deploy`');
  // A proxy of this machine may have its own certificate authority.
  const authorities = process.env.NODE_EXTRA_CA_CERTS;
  commit(
    BASE,
    NODE,
    [
      [process.execPath, '/usr/local/bin/node'],
      [join(program, '..', '..'), '/usr/local/lib/node_modules/npm'],
      ...(authorities === undefined ? [] : [[authorities, '/etc/ssl/certs/extra.crt'] as const]),
    ],
    [
      ['ln', '-s', '../lib/node_modules/npm/bin/npm-cli.js', '/usr/local/bin/npm'],
      ['apt-get', 'update', '-qq'],
      ['apt-get', 'install', '-qq', '--no-install-recommends', 'libatomic1'],
    ],
    authorities === undefined ? [] : ['--env', 'NODE_EXTRA_CA_CERTS=/etc/ssl/certs/extra.crt'],
  );
}

/** Creates an image from another one with additional files and settings, after running the commands in it. */
function commit(
  from: string,
  to: string,
  files: readonly (readonly [source: string, target: string])[],
  commands: readonly (readonly string[])[] = [],
  settings: readonly string[] = [],
): void {
  const name = buildah('from', from);
  for (const [source, target] of files) buildah('copy', name, source, target);
  for (const command of commands) buildah('run', '--isolation', 'chroot', name, '--', ...command);
  if (settings.length > 0) buildah('config', ...settings, name);
  buildah('commit', '--quiet', '--rm', name, to);
}

function build(): void {
  const npmrc = join(homedir(), '.npmrc');
  const args = {
    NODE_IMAGE: NODE,
    BASE_IMAGE: BASE,
    VERSION,
    REVISION: execFileSync('git', ['rev-parse', 'HEAD'], { cwd: ROOT, encoding: 'utf8' }).trim(),
  };
  const options = [
    ...Object.entries(args).flatMap(([name, value]) => ['--build-arg', `${name}=${value}`]),
    ...(existsSync(npmrc) ? ['--secret', `id=npmrc,src=${npmrc}`] : []),
  ];
  const file = join(ROOT, 'deploy/docker/Dockerfile');
  execFileSync(
    'buildah',
    // Docker's format: the OCI format has no health checks.
    [
      ...storage,
      'build',
      '--quiet',
      '--isolation',
      'chroot',
      '--format',
      'docker',
      ...options,
      '--file',
      file,
      '--tag',
      IMAGE,
      ROOT,
    ],
    { stdio: ['ignore', 'ignore', 'inherit'] },
  );
}

function startContainer(): { name: string; root: string } & AsyncDisposable {
  const name = buildah('from', IMAGE);
  // buildah would mount an empty volume of its own there.
  buildah('config', '--volume', '/data-', name);
  const root = buildah('mount', name);
  return { name, root, [Symbol.asyncDispose]: async () => void buildah('rm', name) };
}

/** Starts the service, uses it, and stops it. Returns the seconds from the start until it was ready. */
async function runService(data: string, name: string): Promise<number> {
  const url = `http://127.0.0.1:${await freePort()}`;
  const env = ['--env', `SLUICE_PORT=${new URL(url).port}`, '--env', 'SLUICE_HOST=127.0.0.1'];
  const run = ['run', '--isolation', 'chroot', '--user', `${USER}:${USER}`, ...env];
  const command = (...args: string[]) => [
    ...storage,
    ...run,
    '--volume',
    `${data}:/data`,
    name,
    '--',
    ...args,
  ];
  const start = performance.now();
  const log = openSync(LOG, 'w');
  const service = spawn('buildah', command('sluice', 'serve'), { stdio: ['ignore', log, log] });
  const ended = once(service, 'exit');
  try {
    await until(async () => {
      if (service.exitCode !== null) throw new Error(`the service has ended: see ${LOG}`);
      return (await fetch(`${url}/readyz`).catch(() => null))?.ok === true;
    });
    const seconds = (performance.now() - start) / 1000;
    const key = execFileSync('buildah', command('sluice', 'keys', 'create', '--name', 'test', '--json'), {
      encoding: 'utf8',
    });
    await generate(url, (JSON.parse(key) as { key: string }).key);
    const [program, ...args] = healthCheck();
    execFileSync('buildah', command(program ?? '', ...args));
    await stop(service, data);
    const [code] = (await ended) as [number | null];
    if (code !== 0) throw new Error(`the service exited with code ${code} after SIGTERM`);
    return seconds;
  } finally {
    if (service.exitCode === null) await stop(service, data);
  }
}

async function generate(url: string, key: string): Promise<void> {
  const models = (await (await fetch(`${url}/v1/models`)).json()) as { data: { id: string }[] };
  const response = await fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}` },
    body: JSON.stringify({
      model: models.data[0]?.id,
      messages: [{ role: 'user', content: 'Hello' }],
      max_tokens: 8,
    }),
  });
  const body = await response.text();
  if (!response.ok || !body.includes('"completion_tokens":')) throw new Error(`no response: ${body}`);
}

/** Returns the command of the image's health check. */
function healthCheck(): string[] {
  const { Docker } = JSON.parse(buildah('inspect', '--type', 'image', IMAGE)) as {
    Docker: { config: { Healthcheck: { Test: string[] } } };
  };
  return Docker.config.Healthcheck.Test.slice(1);
}

/** Sends SIGTERM to the service, which shares this machine's process IDs. */
async function stop(service: ChildProcess, data: string): Promise<void> {
  const file = await readFile(join(data, 'service.json'), 'utf8').catch(() => null);
  if (file === null) service.kill();
  else process.kill((JSON.parse(file) as { pid: number }).pid, 'SIGTERM');
}

/** Throws if the service has written to a file outside its volume. */
function checkUnchanged(root: string): void {
  const built = join(root, 'opt/sluice/dist/main.js');
  const since = statSync(built).ctimeMs;
  const changed = globSync(['tmp/**', 'var/tmp/**', 'opt/**', 'home/**'], { cwd: root }).filter((path) => {
    const status = statSync(join(root, path), { throwIfNoEntry: false });
    return status?.isFile() === true && status.mtimeMs > since;
  });
  if (changed.length > 0) throw new Error(`the service has written ${changed.join(', ')}`);
}

function sizeOf(root: string): number {
  const kilobytes = execFileSync('du', ['-s', '-k', root], { encoding: 'utf8' });
  return Math.round(Number.parseInt(kilobytes, 10) / 1000);
}

function hasImage(tag: string): boolean {
  return buildah('images', '--format', '{{.Name}}').split('\n').includes(tag);
}

/** Runs buildah. Returns its output. */
function buildah(...args: string[]): string {
  return execFileSync('buildah', [...storage, ...args], {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'inherit'],
    maxBuffer: 1e8,
  }).trim();
}
