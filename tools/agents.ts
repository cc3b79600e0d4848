/**
 * Installs the newest releases of coding agents, and has each do a task with the service: it calls a tool that writes a
 * file, and sends the result back. The scripted engine makes the call and ends the task. Not part of `npm test`.
 */
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { scripted, type ScriptedCall } from '../test/support/scripted-engine/directive.ts';
import {
  MODEL,
  run,
  scriptedYaml,
  startService,
  temporaryFolder,
  type TestService,
} from '../test/harness.ts';

interface Agent {
  /** The npm package, and the program in it. */
  package: string;
  program: string;
  /** Returns the call that runs a command in a shell. */
  call: (command: string) => ScriptedCall;
  /** Writes the settings to the home folder. */
  prepare: (service: TestService, home: string) => Promise<Invocation>;
}

interface Invocation {
  /** The arguments that run a task without questions. The prompt follows them, or is written to the standard input. */
  args: readonly string[];
  stdin?: boolean;
  env?: NodeJS.ProcessEnv;
  /** The arguments that write settings. */
  before?: readonly string[];
  /** The arguments that end what the task leaves running. */
  after?: readonly string[];
}

/** More than the prompts and tools of the agents take. */
const CONTEXT_TOKENS = 200_000;

/** Longest time of an installation or a task, in milliseconds. */
const TIMEOUT_MS = 300_000;

/** With a folder for each agent. */
const CACHE = resolve(import.meta.dirname, '../.cache/agents');

/** What the file has after the task, and what the agent prints. */
const CONTENT = 'written by the agent';
const ANSWER = 'The file is written.';

const COMMAND = `printf '${CONTENT}' > result.txt`;

const AGENTS: Readonly<Record<string, Agent>> = {
  codex: {
    package: '@openai/codex',
    program: 'codex',
    call: (cmd) => ({ name: 'exec_command', arguments: { cmd } }),
    async prepare({ url }, home) {
      await write(
        join(home, '.codex/config.toml'),
        `model = "${MODEL}"
model_provider = "sluice"
model_context_window = ${CONTEXT_TOKENS}

[model_providers.sluice]
name = "Sluice"
base_url = "${url}/v1"
env_key = "SLUICE_API_KEY"
wire_api = "responses"
`,
      );
      return { args: ['exec', '--skip-git-repo-check', '--sandbox', 'danger-full-access'] };
    },
  },
  claude: {
    package: '@anthropic-ai/claude-code',
    program: 'claude',
    call: (command) => ({ name: 'Bash', arguments: { command, description: 'Write a file' } }),
    async prepare({ url, key }) {
      return {
        args: ['--allowedTools', 'Bash', '--print'],
        env: {
          ANTHROPIC_BASE_URL: url,
          ANTHROPIC_AUTH_TOKEN: key,
          ANTHROPIC_MODEL: MODEL,
          CLAUDE_CODE_MAX_CONTEXT_TOKENS: String(CONTEXT_TOKENS),
          CLAUDE_CODE_MAX_OUTPUT_TOKENS: '8192',
        },
      };
    },
  },
  opencode: {
    package: 'opencode-ai',
    program: 'opencode',
    call: (command) => ({ name: 'bash', arguments: { command, description: 'Write a file' } }),
    async prepare({ url }, home) {
      const sluice = {
        npm: '@ai-sdk/openai-compatible',
        options: { baseURL: `${url}/v1`, apiKey: '{env:SLUICE_API_KEY}' },
        models: { [MODEL]: { limit: { context: CONTEXT_TOKENS, output: 8192 } } },
      };
      await write(join(home, '.config/opencode/opencode.json'), JSON.stringify({ provider: { sluice } }));
      // It would escape the quotes of an argument.
      return { args: ['run', '--auto', '--model', `sluice/${MODEL}`], stdin: true };
    },
  },
  cn: {
    package: '@continuedev/cli',
    program: 'cn',
    call: (command) => ({ name: 'Bash', arguments: { command } }),
    async prepare({ url, key }, home) {
      const config = join(home, 'config.yaml');
      const models = [
        { name: 'Scripted', provider: 'openai', model: MODEL, apiBase: `${url}/v1`, apiKey: key },
      ];
      await write(config, JSON.stringify({ name: 'test', version: '0.0.1', schema: 'v1', models }));
      return { args: ['--config', config, '--auto', '--print'] };
    },
  },
  cline: {
    package: 'cline',
    program: 'cline',
    call: (command) => ({ name: 'run_commands', arguments: { commands: [command] } }),
    async prepare({ url, key }) {
      return {
        before: ['auth', 'openai', '--apikey', key, '--modelid', MODEL, '--baseurl', `${url}/v1`],
        args: [],
        after: ['hub', 'stop'],
      };
    },
  },
};

const names = process.argv.length > 2 ? process.argv.slice(2) : Object.keys(AGENTS);
await using service = await startService(scriptedYaml({ contextTokens: CONTEXT_TOKENS }));
for (const name of names) {
  const agent = AGENTS[name];
  if (!agent) throw new Error(`unknown agent ${name}: expected one of ${Object.keys(AGENTS).join(', ')}`);
  const version = await install(agent);
  const fault = await task(agent);
  console.log(`${agent.package} ${version}: ${fault ?? 'passed'}`);
  if (fault !== null) process.exitCode = 1;
}

/** Installs the newest release into a folder of the cache, and returns its version. */
async function install({ package: name, program }: Agent): Promise<string> {
  const folder = join(CACHE, program);
  await write(join(folder, 'package.json'), '{"private": true}');
  const args = ['install', '--prefix', folder, `${name}@latest`];
  const { code, stderr } = await run('npm', args, process.env, { timeout: TIMEOUT_MS });
  if (code !== 0) throw new Error(`${name} cannot be installed:\n${stderr}`);
  const manifest = await readFile(join(folder, 'node_modules', name, 'package.json'), 'utf8');
  return (JSON.parse(manifest) as { version: string }).version;
}

/** Has an agent do the task. Returns what is wrong, or null. */
async function task({ program, call, prepare }: Agent): Promise<string | null> {
  await using folder = await temporaryFolder();
  const [home, work] = [join(folder.path, 'home'), join(folder.path, 'work')];
  await mkdir(work, { recursive: true });
  const { args, stdin, env, before, after } = await prepare(service, home);
  // Without the user's own variables, such as keys of other services.
  const own = { PATH: process.env.PATH, HOME: home, SLUICE_API_KEY: service.key, ...env };
  const bin = join(CACHE, program, 'node_modules/.bin', program);
  const start = (list: readonly string[], input?: string) =>
    run(bin, list, own, { cwd: work, timeout: TIMEOUT_MS, input });
  if (before) await start(before);
  const prompt = `Write the file. ${scripted([{ calls: [call(COMMAND)] }, { text: ANSWER }])}`;
  const { code, stdout, stderr } = await (stdin ? start(args, prompt) : start([...args, prompt]));
  if (after) await start(after);
  const content = await readFile(join(work, 'result.txt'), 'utf8').catch(() => null);
  if (code === 0 && content === CONTENT && stdout.includes(ANSWER)) return null;
  return `exit code ${code}, the file has ${JSON.stringify(content)}\n${stdout}\n${stderr}\n${service.log()}`;
}

async function write(file: string, text: string): Promise<void> {
  await mkdir(dirname(file), { recursive: true });
  await writeFile(file, text);
}
