import type { Command } from 'commander';
import { stringify } from 'yaml';
import { loadConfig } from '../config/load.ts';
import type { Config } from '../config/schema.ts';
import { note, print } from './output.ts';

/** `sluice config check|print`: the settings, without starting anything. */
export function register(program: Command): void {
  const config = program
    .command('config')
    .description('Check the configuration, or print the settings that hold.')
    .addHelpText(
      'after',
      '\nSLUICE_CONFIG names the file; docs/configuration.md lists its fields.\n\nExample:\n  $ SLUICE_CONFIG=sluice.yaml sluice config check',
    );
  config
    .command('check')
    .description(
      'Say whether the service would start with this configuration; exit 1 and every fault if not.',
    )
    .addHelpText('after', '\nExample:\n  $ SLUICE_CONFIG=sluice.yaml sluice config check')
    .action(check);
  config
    .command('print')
    .description(
      'Print the settings that hold, defaults filled in, as a configuration file. Shows no secret.',
    )
    .addHelpText('after', '\nExample:\n  $ sluice config print > sluice.yaml')
    .action(async () => print(format(await loadConfig(process.env))));
}

async function check(): Promise<void> {
  const config = await loadConfig(process.env);
  const faults = await modelFaults(config);
  if (faults.length === 0) {
    note(
      config.configPath === null ? 'No file is given; the defaults hold.' : `${config.configPath} is right.`,
    );
    return;
  }
  for (const fault of faults) note(fault);
  process.exitCode = 1;
}

/** Embedded models whose file can be told from no source. Whether it is there is what `doctor` looks at. */
async function modelFaults({ file }: Config): Promise<string[]> {
  const [{ findModel }, { parseSource, SourceError }] = await Promise.all([
    import('../models/catalogue.ts'),
    import('../models/source.ts'),
  ]);
  return file.models.flatMap(({ id, engine }) => {
    if (engine === undefined || engine.file?.startsWith('scripted:')) return [];
    if (engine.file === undefined) {
      if (findModel(id) !== null) return [];
      return `${id} is not in the catalogue: give it engine.file or replicas (\`sluice models list --available\`).`;
    }
    try {
      parseSource(engine.file);
      return [];
    } catch (error) {
      if (!(error instanceof SourceError)) throw error;
      return `${id}: ${error.message}`;
    }
  });
}

/** A file that says the same, below what the environment says. Keys are not in it: it names their variables. */
function format(config: Config): string {
  const environment = [
    `# SLUICE_CONFIG=${config.configPath ?? ''}`,
    `# SLUICE_HOST=${config.host}`,
    `# SLUICE_PORT=${config.port}`,
    `# SLUICE_HOME=${config.home}`,
    `# SLUICE_DATABASE_URL=${String(config.databaseUrl ?? '')}`,
    `# SLUICE_VALKEY_URL=${String(config.valkeyUrl ?? '')}`,
  ];
  return `${environment.join('\n')}\n${withoutCredentials(stringify(config.file)).trimEnd()}`;
}

/** Addresses may carry a user and a password. */
const withoutCredentials = (text: string): string =>
  text.replaceAll(/(https?:\/\/)[^/\s@]*@/g, '$1[secret]@');
