import type { Command } from 'commander';
import { stringify } from 'yaml';
import { loadConfig } from '../config/load.ts';
import type { Config } from '../config/schema.ts';
import { DatabaseError } from '../database/errors.ts';
import { didYouMean } from '../support/nearest.ts';
import { note, print } from './output.ts';
import { PROGRAM } from '../support/program-name.ts';

/** `sluice config check|print`: checks or prints the settings without starting the service. */
export function register(config: Command): void {
  config.addHelpText(
    'after',
    `\ndocs/configuration.md lists the fields of the file.\n\nExample:\n  $ ${PROGRAM} config check sluice.yaml`,
  );
  config
    .command('check')
    .description(
      'Check the configuration. Lists every error and exits with 1 if the service would not start.',
    )
    .argument('[file]', FILE)
    .addHelpText('after', `\nExample:\n  $ ${PROGRAM} config check sluice.yaml`)
    .action(check);
  config
    .command('print')
    .description(
      'Print the effective settings, including defaults, as a configuration file. A comment in it lists the models that were added to the service. Secrets are not shown.',
    )
    .argument('[file]', FILE)
    .addHelpText('after', `\nExample:\n  $ ${PROGRAM} config print > sluice.yaml`)
    .action(printConfig);
}

const FILE = 'configuration file (default: the file in SLUICE_CONFIG)';

const load = (file: string | undefined): Promise<Config> =>
  loadConfig(file === undefined ? process.env : { ...process.env, SLUICE_CONFIG: file });

async function printConfig(file?: string): Promise<void> {
  const config = await load(file);
  print([format(config), ...(await addedModels(config))].join('\n'));
}

/** Returns the models in the database as comments. A model in the file hides an added one with the same ID. */
async function addedModels(config: Config): Promise<string[]> {
  const { readAdded } = await import('./added-models.ts');
  const configured = new Set(config.file.models.map(({ id }) => id));
  try {
    const added = (await readAdded(config)).filter(({ id }) => !configured.has(id));
    if (added.length === 0) return [];
    const text = withoutCredentials(stringify({ models: added })).trimEnd();
    return ['# Models that were added to the service:', ...text.split('\n').map((line) => `# ${line}`)];
  } catch (error) {
    if (!(error instanceof DatabaseError)) throw error;
    note(`The models that were added to the service cannot be read: ${error.message}`);
    return [];
  }
}

async function check(file?: string): Promise<void> {
  const config = await load(file);
  const errors = await modelErrors(config);
  if (errors.length === 0) {
    note(
      config.configPath === null
        ? 'No configuration file is set; the defaults apply.'
        : `${config.configPath} is valid.`,
    );
    return;
  }
  for (const error of errors) note(error);
  process.exitCode = 1;
}

/** Returns errors about embedded models without a valid source. `doctor` checks whether the files exist. */
async function modelErrors({ file }: Config): Promise<string[]> {
  const [{ CATALOG, findModel }, { parseSource, SourceError }] = await Promise.all([
    import('../models/catalog.ts'),
    import('../models/source.ts'),
  ]);
  return file.models.flatMap(({ id, engine }) => {
    if (engine === undefined) return [];
    if (engine.file === undefined) {
      if (findModel(id) !== null) return [];
      const near = didYouMean(
        id,
        CATALOG.map((model) => model.id),
      );
      return `The model ${id} is not in the catalog.${near} Set engine.file or replicas for it, or choose a model that \`${PROGRAM} models list --available\` lists.`;
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

/** Returns an equivalent configuration file, with the environment variables as comments above it. */
function format(config: Config): string {
  const environment = [
    `# SLUICE_CONFIG=${config.configPath ?? ''}`,
    `# SLUICE_HOST=${config.host}`,
    `# SLUICE_PORT=${config.port}`,
    `# SLUICE_HOME=${config.home}`,
    `# SLUICE_DATABASE_URL=${String(config.databaseUrl ?? '')}`,
    `# SLUICE_VALKEY_URL=${String(config.valkeyUrl ?? '')}`,
    `# SLUICE_SECRET_KEY=${String(config.secretKey ?? '')}`,
  ];
  return `${environment.join('\n')}\n${withoutCredentials(stringify(config.file)).trimEnd()}`;
}

/** Removes users and passwords from URLs. */
const withoutCredentials = (text: string): string =>
  text.replaceAll(/(https?:\/\/)[^/\s@]*@/g, '$1[secret]@');
