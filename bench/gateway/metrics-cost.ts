import type { RequestSummary } from '../../src/http/request-log.ts';
import { ServiceMetrics } from '../../src/http/service-metrics.ts';
import { GenerationRecord } from '../../src/inference/record.ts';
import { median } from '../statistics.ts';

/** Each model has four histograms, so these have 200 histogram series. */
const MODELS = 50;
const RECORDS = 200_000;
const SCRAPES = 20;
const ROUNDS = 9;

/** A generation with 100 tokens that took this many milliseconds. */
function endedRecord(durationMs: number): GenerationRecord {
  const record = new GenerationRecord();
  record.attempts = 1;
  record.slotAtMs = record.startedAtMs + 1;
  record.firstTokenAtMs = record.startedAtMs + durationMs / 10;
  record.endedAtMs = record.startedAtMs + durationMs;
  record.usage = { promptTokens: 900, cachedTokens: 600, completionTokens: 100, reasoningTokens: 0 };
  record.costPico = 123_456_789n;
  return record;
}

/** Prints how long the event loop is blocked by recording one ended request, and by a scrape with 200 histogram series. */
export function printMetricsCost(): void {
  using metrics = new ServiceMetrics(() => '');
  const summaries = Array.from({ length: MODELS }, (_, index): RequestSummary => ({
    path: '/v1/chat/completions',
    status: 200,
    code: null,
    stream: true,
    model: `bench/model-${index}`,
  }));
  const records = Array.from({ length: 64 }, (_, index) => endedRecord(20 * 1.15 ** index));
  const recordMicros: number[] = [];
  const scrapeMs: number[] = [];
  let bytes = 0;
  for (let round = 0; round < ROUNDS; round++) {
    let startedAtMs = performance.now();
    for (let index = 0; index < RECORDS; index++) {
      const summary = summaries[index % MODELS];
      const record = records[index % records.length];
      if (summary && record) metrics.record(summary, record);
    }
    recordMicros.push(((performance.now() - startedAtMs) * 1000) / RECORDS);
    startedAtMs = performance.now();
    for (let index = 0; index < SCRAPES; index++) bytes = Buffer.byteLength(metrics.expose());
    scrapeMs.push((performance.now() - startedAtMs) / SCRAPES);
  }
  console.log(`metrics, medians of ${ROUNDS} rounds`);
  console.log(`  record of one ended request, in all its metrics: ${median(recordMicros).toFixed(2)} us`);
  const size = (bytes / 1024).toFixed(0);
  console.log(
    `  scrape with ${4 * MODELS} histogram series (${size} KiB): ${median(scrapeMs).toFixed(2)} ms`,
  );
}
