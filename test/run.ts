/**
 * Runs the tests: fetches the default model once into `.cache/` beside the sources, then hands the files to
 * Node's own runner. Arguments are paths or globs of test files, or flags of `node --test`.
 */
import { spawn, spawnSync } from 'node:child_process';
import { existsSync, globSync, readdirSync } from 'node:fs';
import { join } from 'node:path';

const root = join(import.meta.dirname, '..');
const home = join(root, '.cache', 'home');
const flags = process.argv.slice(2).filter((argument) => argument.startsWith('-'));
const chosen = process.argv.slice(2).filter((argument) => !argument.startsWith('-'));
const files =
  chosen.length > 0
    ? chosen.flatMap((pattern) => globSync(pattern))
    : globSync(join(root, 'test/**/*.test.ts'));

const env = { ...process.env };
env.SLUICE_TEST_MODEL ??= defaultModel();
if (env.SLUICE_TEST_MODEL === undefined && process.env.CI) {
  console.error('The default model could not be fetched, and this run may skip nothing.');
  process.exit(1);
}

const runner = spawn(
  process.execPath,
  ['--test', '--test-concurrency=2', '--test-timeout=300000', ...flags, ...files],
  { stdio: 'inherit', env },
);
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => runner.kill(signal));
runner.once('exit', (code) => {
  process.exitCode = code ?? 1;
});

/** Path of the default model's file; undefined where no source of it can be reached. */
function defaultModel(): string | undefined {
  const pulled = () =>
    existsSync(join(home, 'models'))
      ? readdirSync(join(home, 'models'), { recursive: true, encoding: 'utf8' })
          .filter((file) => file.endsWith('SmolLM2-135M-Instruct.Q4_1.gguf'))
          .map((file) => join(home, 'models', file))[0]
      : undefined;
  if (pulled() === undefined) {
    const pull = [join(root, 'src/main.ts'), 'models', 'pull', 'HuggingFaceTB/SmolLM2-135M-Instruct'];
    spawnSync(process.execPath, pull, { stdio: 'inherit', env: { ...process.env, SLUICE_HOME: home } });
  }
  const file = pulled();
  if (file === undefined)
    console.error('The tests that need the default model are skipped: no source of it answered.');
  return file;
}
