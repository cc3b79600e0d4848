import type { Command } from 'commander';
import { readReceipt } from '../accounts/ledger/receipt.ts';
import { receiptJson, type ReceiptJson, type RequestJson } from '../http/api/ledger-json.ts';
import { openDatabaseHere } from './open.ts';
import { note, print, printJson, printTable } from './output.ts';

/** `sluice receipt`: all that is known of one request. */
export function register(program: Command): void {
  program
    .command('receipt')
    .description('Tell all that is known of one request: its row, its cost, its limits, its stages.')
    .argument('<id>', 'its id, as `x-request-id` told it')
    .option('--json', 'print it as an object')
    .addHelpText('after', '\nExample:\n  $ sluice receipt 01a2008d-96fe-71ff-ae7d-c1f32144809f')
    .action(receipt);
}

async function receipt(id: string, flags: { json?: true }): Promise<void> {
  await using database = await openDatabaseHere();
  const found = await readReceipt(database, id, null);
  if (found === null) {
    note(
      'There is no request of this id in the ledger. One that was refused, as with 4xx and 429, has no row.',
    );
    process.exitCode = 1;
    return;
  }
  const told = receiptJson(found);
  if (flags.json) return printJson(told);
  printRequest(told);
  printCost(told);
  printLimits(told);
}

function printRequest({ request, stages, retries, interrupted }: ReceiptJson): void {
  print(`Request ${request.id}`);
  const fields: readonly (readonly [string, string | null])[] = [
    ["caller's own id", request.client_request_id],
    ['account, key', `${request.account_id}, ${request.key_id}`],
    ['model', `${request.model}${request.replica === null ? '' : ` at ${request.replica}`}`],
    ['asked', `${request.endpoint}, ${request.streamed ? 'streamed' : 'whole'}`],
    ['state', stateWords(request)],
    ['started, ended', `${request.started_at}, ${request.ended_at ?? 'not known'}`],
    [
      'stages',
      `queue ${ms(stages.queue_ms)}, prefill ${ms(stages.prefill_ms)}, decode ${ms(stages.decode_ms)}`,
    ],
    ['tokens', tokenWords(request)],
    ['delivered', { true: 'yes', false: 'no', null: 'not known' }[`${request.delivered}`]],
    ['retried', retries === 0 ? null : `${retries} other replicas had refused it`],
    [
      'interrupted',
      interrupted
        ? `the copy that ran it died or was stopped; counts are those of ${request.checkpoint_at ?? 'its start'}`
        : null,
    ],
  ];
  for (const [name, text] of fields) if (text !== null) print(`  ${name.padEnd(15)}  ${text}`);
}

function stateWords({
  state,
  http_status: status,
  error_code: error,
  finish_reason: reason,
}: RequestJson): string {
  return [state, status, error ?? reason].filter((word) => word !== null).join(', ');
}

function tokenWords(request: RequestJson): string {
  const source = {
    engine: 'counted by the engine',
    estimated: 'estimated',
    clamped: 'clamped',
    null: 'not counted',
  };
  const prompt = `prompt ${request.prompt_tokens} (${request.cached_tokens} cached)`;
  return `${prompt}, completion ${request.completion_tokens}, ${source[`${request.usage_source}`]}`;
}

function ms(time: number | null): string {
  return time === null ? '-' : `${time} ms`;
}

function printCost({ request, cost }: ReceiptJson): void {
  print('');
  if (request.state === 'open') return print('It runs: nothing is charged yet.');
  printTable(
    ['COST', 'TOKENS', 'USD PER MILLION', 'USD'],
    [
      ...cost.map((line) => [line.what, String(line.tokens), line.usd_per_million, line.usd]),
      ['total', '', '', request.cost_usd],
    ],
  );
}

function printLimits({ request, limits }: ReceiptJson): void {
  print('');
  if (limits.length === 0) return print(`It was held against no limit (plan ${request.plan}).`);
  printTable(
    [`LIMIT (PLAN ${request.plan})`, 'OF', 'MODEL', 'BOUND', 'LEFT'],
    limits.map(({ limit, scope, model, bound, left }) => [
      limit,
      scope,
      model ?? 'all',
      String(bound),
      String(left),
    ]),
  );
}
