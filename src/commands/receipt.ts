import type { Command } from 'commander';
import type { RequestJson } from '../accounts/ledger/request-json.ts';
import { ownerNames } from '../accounts/names.ts';
import { readRequest } from '../accounts/ledger/requests.ts';
import { receiptJson, type ReceiptJson } from '../http/api/receipt-json.ts';
import { openConfiguredDatabase } from './open.ts';
import { note, print, printJson, printTable } from './output.ts';
import { PROGRAM } from '../support/program-name.ts';

/** `sluice receipt`: shows one request in detail. */
export function register(command: Command): void {
  command
    .description('Show one request in detail: its state, timing, cost and limits.')
    .argument('<id>', 'request ID, from the `x-request-id` header')
    .option('--json', 'print JSON')
    .addHelpText('after', `\nExample:\n  $ ${PROGRAM} receipt 01a2008d-96fe-71ff-ae7d-c1f32144809f`)
    .action(receipt);
}

async function receipt(id: string, flags: { json?: true }): Promise<void> {
  await using database = await openConfiguredDatabase();
  const found = await readRequest(database, id);
  if (found === null) {
    note(
      'No request with this ID is in the ledger. Refused requests, such as those with status 400 or 429, are not recorded.',
    );
    process.exitCode = 1;
    return;
  }
  const names = await ownerNames(database, [found]);
  const json = receiptJson({ ...found, ...names(found) });
  if (flags.json) return printJson(json);
  printRequest(json);
  if (json.cache_miss !== null) print(`\nCache miss\n  ${json.cache_miss}`);
  printInput(json);
  printCost(json);
  printLimits(json);
}

function printRequest({ request, stages, retries, interrupted }: ReceiptJson): void {
  print(`Request ${request.id}`);
  const fields: readonly (readonly [string, string | null])[] = [
    ['client request ID', request.client_request_id],
    ['account, key', `${request.account_id}, ${request.key_id}`],
    ['client', request.client],
    ['model', `${request.model}${request.replica === null ? '' : ` on ${request.replica}`}`],
    ['endpoint', `${request.endpoint}, ${request.streamed ? 'streaming' : 'not streaming'}`],
    ['state', describeState(request)],
    [
      'started, ended',
      `${request.started_at}, ${request.ended_at ?? (request.state === 'open' ? 'still running' : 'unknown')}`,
    ],
    [
      'stages',
      `queue ${formatMs(stages.queue_ms)}, prefill ${formatMs(stages.prefill_ms)}, decode ${formatMs(stages.decode_ms)}`,
    ],
    ['tokens', describeTokens(request)],
    ['delivered', { true: 'yes', false: 'no', null: 'unknown' }[`${request.delivered}`]],
    [
      'continued',
      request.continued_after === null ? null : `after ${request.continued_after} completion tokens`,
    ],
    ['retried', retries === 0 ? null : `${retries} ${retries === 1 ? 'replica' : 'replicas'} failed first`],
    [
      'interrupted',
      interrupted
        ? `the instance that ran it was stopped or lost; counts are from ${request.checkpoint_at ?? 'its start'}`
        : null,
    ],
  ];
  for (const [name, text] of fields) if (text !== null) print(`  ${name.padEnd(17)}  ${text}`);
}

function printInput({ model_input: input }: ReceiptJson): void {
  if (input === null) return;
  print('\nModel input');
  for (const [name, text] of describeInput(input)) print(`  ${name.padEnd(17)}  ${text}`);
  for (const { path, what } of input.notes) print(`  ${'note'.padEnd(17)}  ${path} ${what}`);
  if (input.more_notes > 0) print(`  ${'note'.padEnd(17)}  and ${input.more_notes} more`);
}

function describeInput(input: NonNullable<ReceiptJson['model_input']>): [name: string, text: string][] {
  const given = (
    values: Readonly<Record<string, string | number | boolean | null | undefined>>,
    unset: string,
  ) =>
    Object.entries(values)
      .map(([name, value]) => `${name} ${value ?? unset}`)
      .join(', ');
  // The parameters of text have no effect on an embedding.
  const generatesText = input.max_tokens !== 0;
  const lines: [string, string | null][] = [
    ['messages', input.messages && given(input.messages, '')],
    [generatesText ? 'prompts' : 'inputs', input.prompts === null ? null : String(input.prompts)],
    ['dimensions', input.dimensions === null ? null : String(input.dimensions)],
    ['images', input.images.map(describeImage).join(', ')],
    [
      'tools',
      input.tools === 0
        ? null
        : `${input.tools}, choice ${input.tool_choice}, format ${input.tool_format ?? 'unknown'}`,
    ],
    ['template', input.template],
    ['variables', given(input.template_variables, '(not shown)')],
    ['reasoning effort', input.reasoning_effort],
  ];
  if (generatesText) {
    lines.push(
      ['response format', input.response_format],
      ['maximum tokens', input.max_tokens === null ? 'those of the model' : String(input.max_tokens)],
      ['stop sequences', String(input.stop_sequences)],
      ['choices', String(input.choices)],
      ['sampling', given({ ...input.sampling, seed: input.sampling.seed ?? 'random' }, 'default')],
      ['recommended', given(input.recommended_sampling, '')],
    );
  }
  return lines.flatMap(([name, text]) => (text === null || text === '' ? [] : [[name, text]]));
}

function describeImage(image: NonNullable<ReceiptJson['model_input']>['images'][number]): string {
  return image === null ? 'URL' : `${image.format} ${image.width} x ${image.height}`;
}

function describeState({
  state,
  http_status: status,
  error_code: error,
  finish_reason: reason,
}: RequestJson): string {
  return [state, status, error ?? reason].filter((part) => part !== null).join(', ');
}

function describeTokens(request: RequestJson): string {
  const source = {
    engine: 'counted by the engine',
    estimated: 'estimated',
    clamped: 'reduced to the maximum that the request could use',
    null: 'not counted',
  };
  const prompt = `prompt ${request.prompt_tokens} (${request.cached_tokens} cached)`;
  const reasoning = request.reasoning_tokens === 0 ? '' : ` (${request.reasoning_tokens} reasoning)`;
  return `${prompt}, completion ${request.completion_tokens}${reasoning}, ${source[`${request.usage_source}`]}`;
}

function formatMs(duration: number | null): string {
  return duration === null ? '-' : `${duration} ms`;
}

function printCost({ request, cost }: ReceiptJson): void {
  print('');
  if (request.state === 'open') return print('The request is still running. Nothing has been charged yet.');
  const total = { what: 'total', tokens: '', usd_per_million: '', usd: request.cost_usd };
  printTable(
    [...cost, total].map((line) => ({
      COST: line.what,
      TOKENS: String(line.tokens),
      'USD PER MILLION': line.usd_per_million,
      USD: line.usd,
    })),
  );
}

function printLimits({ request, limits }: ReceiptJson): void {
  print('');
  if (limits.length === 0) return print(`No limits applied (plan ${request.plan}).`);
  printTable(
    limits.map(({ limit, scope, model, bound, left }) => ({
      [`LIMIT (PLAN ${request.plan})`]: limit,
      'SET BY': scope,
      MODEL: model ?? 'all',
      LIMIT: String(bound),
      REMAINING: String(left),
    })),
  );
}
