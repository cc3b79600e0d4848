import type { Command } from 'commander';
import { drainReplica, listDrainedReplicas, resumeReplica } from '../accounts/drained-replicas.ts';
import { loadConfig } from '../config/load.ts';
import { localName, namedReplicas } from '../config/model.ts';
import type { Database } from '../database/database.ts';
import { ServiceError } from '../core/errors.ts';
import { iso } from '../http/api/json.ts';
import { nodeOf, ModelTable } from '../serving/model-table.ts';
import { PROGRAM } from '../support/program-name.ts';
import { commandLineActor, openConfiguredDatabase } from './open.ts';
import { note, printJson, printTable, shortTime } from './output.ts';

/** `sluice replicas …`: changes the database directly. A running service applies the changes within a second. */
export function register(replicas: Command): void {
  replicas
    .command('list')
    .description('List the replicas of all models, and whether they are drained.')
    .option('--json', 'print a JSON array of {"model","name","server","drained_at"}, with ISO 8601 times')
    .addHelpText('after', `\nExample:\n  $ ${PROGRAM} replicas list`)
    .action(list);
  replicas
    .command('drain')
    .description(
      'Stop sending new requests to a replica, on all instances. Running requests finish. Applies within a second.',
    )
    .argument('<model>', 'ID of the model')
    .argument('<replica>', 'name of the replica, as shown by `replicas list`')
    .addHelpText('after', `\nExample:\n  $ ${PROGRAM} replicas drain acme/large acme/large#0`)
    .action(drain);
  replicas
    .command('resume')
    .description('Send requests to a drained replica again. Applies within a second.')
    .argument('<model>', 'ID of the model')
    .argument('<replica>', 'name of the replica, as shown by `replicas list`')
    .addHelpText('after', `\nExample:\n  $ ${PROGRAM} replicas resume acme/large acme/large#0`)
    .action(resume);
}

interface ListedReplica {
  model: string;
  name: string;
  /** Its URL, or its name if it runs on this machine. */
  server: string;
}

/** Returns the replicas of the configuration and of the models in the database. */
async function everyReplica(database: Database): Promise<ListedReplica[]> {
  const config = await loadConfig(process.env, 'none');
  const { models: stored } = await new ModelTable(database, await nodeOf(config)).read();
  const configured = config.file.models;
  const added = stored.filter(({ config: { id } }) => !configured.some((model) => model.id === id));
  return [...configured, ...added.map((model) => model.config)].flatMap((model): ListedReplica[] =>
    model.replicas === undefined
      ? [{ model: model.id, name: localName(model), server: localName(model) }]
      : namedReplicas(model).map(({ name, url }) => ({ model: model.id, name, server: url })),
  );
}

async function list(flags: { json?: true }): Promise<void> {
  await using database = await openConfiguredDatabase();
  const replicas = await everyReplica(database);
  const drained = await listDrainedReplicas(database);
  const rows = replicas.map((each) => {
    const found = drained.find(({ model, server }) => model === each.model && server === each.server);
    return { ...each, drainedAt: found?.drainedAt ?? null };
  });
  if (flags.json)
    return printJson(rows.map(({ drainedAt, ...row }) => ({ ...row, drained_at: iso(drainedAt) })));
  if (rows.length === 0) return note('No replicas.');
  printTable(
    rows.map(({ model, name, server, drainedAt }) => ({
      MODEL: model,
      NAME: name,
      SERVER: server,
      'DRAINED SINCE': shortTime(drainedAt),
    })),
  );
}

async function drain(model: string, replica: string): Promise<void> {
  await using database = await openConfiguredDatabase();
  const replicas = (await everyReplica(database)).filter((each) => each.model === model);
  const target = find(replicas, model, replica);
  await drainReplica(database, target, commandLineActor());
  note(
    `Drained ${nameWithUrl(target)}. Running requests finish; the Operations page shows how many are left.`,
  );
  const drained = await listDrainedReplicas(database);
  const left = replicas.filter(
    ({ server }) => !drained.some((each) => each.model === model && each.server === server),
  );
  if (left.length === 0) note(`All replicas of ${model} are drained now: its requests get 503.`);
}

async function resume(model: string, replica: string): Promise<void> {
  await using database = await openConfiguredDatabase();
  const replicas = (await everyReplica(database)).filter((each) => each.model === model);
  const target = find(replicas, model, replica);
  const resumed = await resumeReplica(database, target, commandLineActor());
  note(resumed ? `Resumed ${nameWithUrl(target)}.` : `${replica} is not drained.`);
}

/** Includes the URL, because the configuration may have changed since the service was started. */
function nameWithUrl({ name, server }: ListedReplica): string {
  return name === server ? name : `${name} (${server})`;
}

/** Returns the replica with this name. `replicas` are those of `model`. */
function find(replicas: readonly ListedReplica[], model: string, name: string): ListedReplica {
  const found = replicas.find((replica) => replica.name === name);
  if (found) return found;
  const names = replicas.map((replica) => replica.name).join(', ');
  throw new ServiceError(
    'not_found',
    replicas.length === 0
      ? `There is no model ${model}.`
      : `The model ${model} has no replica with this name. Its replicas: ${names}.`,
  );
}
