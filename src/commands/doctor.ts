import type { Command } from 'commander';
import { ConfigError } from '../config/errors.ts';
import { homeOf } from '../config/home.ts';
import { loadConfig } from '../config/load.ts';
import type { Config } from '../config/schema.ts';
import type { Finding } from './doctor/finding.ts';
import { checkHome, checkPort, checkRunningService } from './doctor/environment.ts';
import { checkEngine, checkModels, checkPip } from './doctor/engine.ts';
import { checkMachine } from './doctor/machine.ts';
import { checkServers } from './doctor/servers.ts';
import { note, print, printJson } from './output.ts';
import { PROGRAM } from '../program-name.ts';

/** `sluice doctor`: checks the machine and the configuration, and suggests fixes. Changes nothing. */
export function register(program: Command): void {
  program
    .command('doctor')
    .description('Check this machine and the configuration, and suggest fixes.')
    .option('--json', 'print a JSON array of {"subject","status","found","advice"}')
    .addHelpText(
      'after',
      `\nExits with 1 when the service would not start.\n\nExample:\n  $ ${PROGRAM} doctor`,
    )
    .action(doctor);
}

async function doctor(flags: { json?: true }): Promise<void> {
  const findings = await runChecks(process.env);
  if (flags.json) printJson(findings);
  else for (const finding of findings) show(finding);
  const faults = findings.filter((finding) => finding.status === 'fault').length;
  if (faults > 0) process.exitCode = 1;
  if (!flags.json)
    note(
      faults === 0
        ? '\nNo problems found.'
        : `\n${faults} ${faults === 1 ? 'problem' : 'problems'} to fix before the service can start.`,
    );
}

async function runChecks(env: NodeJS.ProcessEnv): Promise<readonly Finding[]> {
  const config = await loadConfigOrFinding(env);
  if ('subject' in config) return [config, ...checkMachine(), checkEngine(), await checkHome(homeOf(env))];
  const usesEngine = config.file.models.some((model) => model.engine !== undefined);
  return [
    { subject: 'configuration', status: 'good', found: config.configPath ?? 'defaults', advice: null },
    ...checkMachine(),
    ...(usesEngine ? [checkEngine(), await checkPip(env)] : []),
    ...(await checkModels(config)),
    await checkHome(config.home),
    ...checkRunningService(config.home),
    ...(await checkServers(config)),
    await checkPort(config.host, config.port),
  ];
}

async function loadConfigOrFinding(env: NodeJS.ProcessEnv): Promise<Config | Finding> {
  try {
    return await loadConfig(env);
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    return {
      subject: 'configuration',
      status: 'fault',
      found: error.message,
      advice: 'Correct the file. docs/configuration.md lists all fields.',
    };
  }
}

const LABELS = { good: 'ok  ', note: 'note', fault: 'FAIL' } as const;

function show({ subject, status, found, advice }: Finding): void {
  print(`${LABELS[status]}  ${subject.padEnd(16)}${found}`);
  if (advice !== null) print(`${' '.repeat(22)}${advice}`);
}
