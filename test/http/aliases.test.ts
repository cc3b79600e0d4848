import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ConfigError } from '../../src/config/errors.ts';
import { chat, MODEL, openService, post, scriptedYaml, startService } from '../harness.ts';
import { Management } from '../management.ts';
import { parseExposition } from '../metrics/exposition.ts';

const ALIAS = 'gpt-4o-mini';
const YAML = scriptedYaml({}, `aliases:\n  ${ALIAS}: ${MODEL}\n  gone: no/model\nmetrics: {port: 0}\n`);

test('a request with an alias uses the model, and the response, receipt, limits and metrics have its ID', async () => {
  await using service = await startService(YAML);
  const management = await Management.of(service);
  const ask = async (key: string, model: string) =>
    await post({ ...service, key }, '/v1/chat/completions', chat('1 2 3', { model }));
  const response = await ask(service.key, ALIAS);
  const { model } = (await response.json()) as { model: string };
  assert.deepEqual([response.status, model], [200, MODEL]);
  const receipt = await management.receipt(response.headers.get('x-request-id') ?? '');
  assert.equal(receipt?.request.model, MODEL);

  const allowed = await management.caller(null, { allowed_models: [MODEL] });
  assert.equal((await ask(allowed.key, ALIAS)).status, 200);
  const other = await management.caller(null, { allowed_models: ['acme/other'] });
  assert.equal((await ask(other.key, ALIAS)).status, 403);
  assert.equal((await ask(service.key, 'gone')).status, 404);
  assert.equal((await ask(service.key, 'constructor')).status, 404);

  const metrics = parseExposition(await (await fetch(service.service.metricsUrl ?? '')).text());
  const labels = metrics.get('sluice_requests_total')?.samples.map((sample) => sample.labels['model']);
  assert.deepEqual(new Set(labels), new Set([MODEL, 'unknown']));
});

test('an alias that is the ID of a model is an error of the configuration', async () => {
  await assert.rejects(openService(scriptedYaml({}, `aliases: { ${MODEL}: a/b }\n`)), (error) => {
    assert.ok(error instanceof ConfigError);
    assert.match(error.message, /expected a name that is not the ID of a model/);
    return true;
  });
});
