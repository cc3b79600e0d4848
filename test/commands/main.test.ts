import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, openSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { Command } from 'commander';
import { MAIN } from '../harness.ts';
import { folder, run, runAlone } from './program.ts';

const COMMANDS = ['serve', 'models', 'keys', 'config', 'doctor', 'engine'];

test('--help lists every command, each in a file of the same name', async () => {
  const { code, stdout, stderr } = await run(['--help']);
  assert.deepEqual([code, stderr], [0, '']);
  for (const name of COMMANDS) {
    const { register }: { register: (command: Command) => void } = await import(
      `../../src/commands/${name}.ts`
    );
    const command = new Command(name);
    register(command);
    const parts = [
      ...command.options.map(({ long }) => long),
      ...command.commands.map((part) => part.name()),
    ];
    const help = (await run([name, '--help'])).stdout;
    assert.notEqual(parts.length, 0);
    for (const part of parts) assert.ok(help.includes(` ${part}`), `${name}: ${part}`);
    assert.match(stdout, new RegExp(`^  ${name} +[A-Z]`, 'm'));
  }
});

test('the help of commands contains an example', async () => {
  for (const args of [
    ['keys', 'create'],
    ['keys', 'list'],
    ['keys', 'revoke'],
    ['config', 'check'],
    ['config', 'print'],
    ['doctor'],
  ]) {
    const { code, stdout, stderr } = await run([...args, '--help']);
    assert.deepEqual([code, stderr], [0, '']);
    assert.ok(stdout.includes('Example:\n  $ '), args.join(' '));
    assert.ok(stdout.includes(`sluice ${args.join(' ')}`), args.join(' '));
  }
});

test('an invalid command line exits with 2 and the usage on standard error', async () => {
  for (const [args, words] of [
    [[], /^Usage: sluice /],
    [['keys'], /^Usage: sluice keys /],
    [['kyes'], /^error: unknown command 'kyes'\n\(Did you mean keys\?\)\n\nUsage: sluice /],
    [['constructor'], /^error: unknown command 'constructor'\n/],
    [['serve', '--config', ''], /^error: .*--config.* Expected the path of a YAML file\./],
    [['help', 'kyes'], /^error: unknown command 'kyes'\n\(Did you mean keys\?\)\n\nUsage: sluice /],
    [
      ['keys', 'craete'],
      /^error: unknown command 'craete'\n\(Did you mean create\?\)\n\nUsage: sluice keys /,
    ],
    [['--prot', '80'], /^error: unknown option '--prot'\n\nUsage: sluice /],
    [
      ['serve', '--port', '65536'],
      /^error: .*--port.* Expected a port from 1 to 65535, or 0 for any free port\.\n\nUsage: sluice serve /,
    ],
    [
      ['keys', 'list', '--jsno'],
      /^error: unknown option '--jsno'\n\(Did you mean --json\?\)\n\nUsage: sluice keys list /,
    ],
    [['keys', 'list', '-x'], /^error: unknown option '-x'\n\nUsage: sluice keys list /],
    [['keys', 'create'], /required option '--name <name>' not specified/],
    [['keys', 'create', '--name', 'a', '--kind', 'root'], /Allowed choices are caller, admin/],
    [['keys', 'create', '--name', 'a', '--expires-in', '3x'], /Expected a duration such as 30d/],
    [['setup-link', '--url', 'example.com'], /--url.* Expected an http:\/\/ or https:\/\/ URL\./],
    [['users', 'password-link', 'a', '--url', 'https://a.com/b'], /Expected only a scheme and a host/],
    [['keys', 'list', '--colour'], /unknown option '--colour'/],
  ] as const) {
    const { code, stdout, stderr } = await run(args);
    assert.deepEqual([code, stdout], [2, ''], args.join(' '));
    assert.match(stderr, words);
  }
});

test('the process ends with the exit code of its command after all output', async (t) => {
  const env = { SLUICE_HOME: folder(t) };
  for (const [args, code] of [
    [['keys', 'list', '--json'], 0],
    [['keys', 'revoke', 'key_0'], 1],
    [['keys', 'craete'], 2],
  ] as const) {
    const alone = await runAlone(args, env);
    assert.equal(alone.code, code);
    assert.deepEqual(alone, await run(args, env));
  }
});

test('output that cannot be written, such as to a full disk, is one line on standard error and exit code 1', (t) => {
  if (!existsSync('/dev/full')) return t.skip('only Linux has /dev/full');
  const env = { PATH: process.env.PATH, SLUICE_HOME: folder(t) };
  for (const args of [
    ['models', 'list', '--available'],
    ['models', 'list', '--available', '--json'],
    ['ledger', 'export'],
    ['--help'],
  ]) {
    const { status, stderr } = spawnSync(process.execPath, [MAIN, ...args], {
      env,
      stdio: ['ignore', openSync('/dev/full', 'w'), 'pipe'],
      encoding: 'utf8',
    });
    assert.equal(status, 1, args.join(' '));
    const lines = stderr.split('\n').filter((line) => line.includes('output'));
    assert.deepEqual(lines, ['Cannot write the output: ENOSPC: no space left on device, write'], stderr);
    assert.doesNotMatch(stderr, /^ +at /m);
  }
});

test('a file or directory that cannot be read is one line on standard error and exit code 1', async (t) => {
  const home = folder(t);
  const models = join(home, 'models');
  writeFileSync(models, 'not a directory');
  assert.deepEqual(await run(['models', 'list'], { SLUICE_HOME: home }), {
    code: 1,
    stdout: '',
    stderr: `ENOTDIR: not a directory, scandir '${models}'\n`,
  });
});

test('--home and --config override their variables, before and after the name of a command', async (t) => {
  const at = folder(t);
  const [file, other] = [join(at, 'sluice.yaml'), join(at, 'other.yaml')];
  writeFileSync(file, 'drainMs: 1\n');
  writeFileSync(other, 'drainMs: 2\n');
  const env = { SLUICE_HOME: join(at, 'other'), SLUICE_CONFIG: other };
  for (const args of [
    ['--home', join(at, 'home'), '--config', file, 'config', 'print'],
    ['config', 'print', `--home=${join(at, 'home')}`, '--config', file],
  ]) {
    const { stdout, stderr } = await run(args, env);
    assert.ok(stdout.includes(`# SLUICE_HOME=${join(at, 'home')}\n`), stderr);
    assert.match(stdout, /^drainMs: 1$/m);
  }
});

test('--version prints the version of the package', async () => {
  const { code, stdout } = await run(['--version']);
  assert.equal(code, 0);
  assert.match(stdout, /^\d+\.\d+\.\d+\S*\n$/);
});

test('help with a command name prints the help of the command', async (t) => {
  const { code, stdout } = await run(['help', 'keys'], { SLUICE_HOME: folder(t) });
  assert.equal(code, 0);
  assert.match(stdout, /^Usage: sluice keys /);
});
