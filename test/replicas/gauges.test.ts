import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from '../support/fast-check.ts';
import { DIALECT_TRAITS } from '../../src/replicas/dialects.ts';
import { readGauges, type GaugeNames } from '../../src/replicas/replica-report.ts';

function namesOf(dialect: 'vllm' | 'sglang' | 'llama-server'): GaugeNames {
  const { gauges } = DIALECT_TRAITS[dialect];
  assert.ok(gauges);
  return gauges;
}

test('gauges of vLLM are read from its metrics', () => {
  const text = `# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="acme/large"} 12.0
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{engine="0",model_name="acme/large"} 3.0
vllm:num_requests_waiting_by_reason{engine="0",reason="capacity"} 99.0
vllm:kv_cache_usage_perc{engine="0",model_name="a } b"} 0.25
vllm:prompt_tokens_total{engine="0"} 1.2345e+06
vllm:generation_tokens_total{engine="0"} 6789.0 1700000000000
`;
  assert.deepEqual(readGauges(text, namesOf('vllm')), {
    slotsInUse: 12,
    queued: 3,
    cacheUsage: 0.25,
    promptTokens: 1_234_500,
    completionTokens: 6789,
  });
});

test('the series of several engines are added up, and the cache usage is the highest', () => {
  const text = [0, 1]
    .map(
      (engine) =>
        `vllm:num_requests_running{engine="${engine}"} ${engine + 1}\nvllm:gpu_cache_usage_perc{engine="${engine}"} 0.${engine + 3}`,
    )
    .join('\n');
  const gauges = readGauges(text, namesOf('vllm'));
  assert.deepEqual([gauges.slotsInUse, gauges.cacheUsage, gauges.queued], [3, 0.4, null]);
});

test('gauges of SGLang and llama-server are read from their metrics', () => {
  const sglang = readGauges(
    'sglang:num_running_reqs{tp_rank="0"} 4\nsglang:num_queue_reqs{tp_rank="0"} 0\nsglang:token_usage{tp_rank="0"} 0.5\n',
    namesOf('sglang'),
  );
  assert.deepEqual([sglang.slotsInUse, sglang.queued, sglang.cacheUsage], [4, 0, 0.5]);
  const llama = readGauges(
    'llamacpp:requests_processing 2\nllamacpp:requests_deferred 1\nllamacpp:tokens_predicted_total 77\n',
    namesOf('llama-server'),
  );
  assert.deepEqual([llama.slotsInUse, llama.queued, llama.completionTokens], [2, 1, 77]);
});

test('implausible values are ignored', () => {
  for (const value of ['NaN', '-1', '+Inf', '1e300', '', 'twelve', '0x']) {
    const { queued } = readGauges(`vllm:num_requests_waiting ${value}\n`, namesOf('vllm'));
    assert.equal(queued, null, value);
  }
});

test('the metrics of many series are read, and a sum that is not exact is ignored', () => {
  const lines = (value: string) => `vllm:num_requests_waiting ${value}\n`.repeat(200_000);
  const usage = 'vllm:kv_cache_usage_perc 0.5\n'.repeat(200_000);
  const { queued, cacheUsage } = readGauges(lines('1') + usage, namesOf('vllm'));
  assert.deepEqual([queued, cacheUsage], [200_000, 0.5]);
  assert.equal(readGauges(lines('1e15'), namesOf('vllm')).queued, null);
});

test('any text is read without an error, and every gauge is null or in its range', () => {
  const name = fc.constantFrom(...Object.values(namesOf('vllm')).flat());
  const line = fc.oneof(
    fc.string(),
    fc
      .tuple(name, fc.string(), fc.double())
      .map(([metric, labels, value]) => `${metric}{${labels}} ${value}`),
    fc.tuple(name, fc.string()).map((parts) => parts.join(' ')),
  );
  fc.assert(
    fc.property(fc.array(line), (lines) => {
      const { cacheUsage, ...counts } = readGauges(lines.join('\n'), namesOf('vllm'));
      for (const count of Object.values(counts)) {
        assert.ok(count === null || (Number.isSafeInteger(count) && count >= 0), String(count));
      }
      assert.ok(cacheUsage === null || (cacheUsage !== undefined && cacheUsage >= 0 && cacheUsage <= 1));
    }),
  );
});
