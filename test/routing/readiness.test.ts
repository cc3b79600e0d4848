import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from '../support/fast-check.ts';
import type { EngineState } from '../../src/replicas/replica.ts';
import { isReady, progress } from '../../src/routing/readiness.ts';
import type { ModelOverview } from '../../src/routing/served-model.ts';

const READY: EngineState = { state: 'ready' };
const LOADING: EngineState = { state: 'loading', fraction: 0.5 };
const DOWN: EngineState = { state: 'down', reason: 'a path', retryInMs: null };

const model = (states: readonly EngineState[], required = false): ModelOverview => ({
  id: 'test/model',
  required,
  waiting: 0,
  replicas: states.map((state) => ({
    name: 'replica',
    dialect: 'sluice',
    inFlight: 0,
    pauses: 0,
    failing: false,
    state,
    drained: false,
    waking: false,
    restartable: false,
    prefill: null,
  })),
});

test('a model can generate with one ready replica', () => {
  assert.equal(isReady([model([DOWN, READY])]), true);
  assert.equal(isReady([model([DOWN, LOADING])]), false);
  assert.equal(isReady([]), false);
});

test('readiness needs all required models, or any model if none is required', () => {
  const one = fc.record({ able: fc.boolean(), required: fc.boolean() });
  fc.assert(
    fc.property(fc.array(one), (each) => {
      const required = each.filter((entry) => entry.required);
      const expected =
        required.length > 0 ? required.every(({ able }) => able) : each.some(({ able }) => able);
      assert.equal(
        isReady(each.map(({ able, required: must }) => model([able ? READY : DOWN], must))),
        expected,
      );
    }),
  );
});

test('progress has the phase and the fraction of each replica that is not ready, without names or reasons', () => {
  const pull = {
    file: 'secret.gguf',
    source: 'hf:secret',
    phase: 'downloading' as const,
    receivedBytes: 1,
    totalBytes: 4,
    bytesPerSecond: 0,
    secondsLeft: null,
    note: null,
  };
  const states: EngineState[] = [
    { state: 'downloading', pull: null },
    { state: 'downloading', pull },
    { state: 'downloading', pull: { ...pull, totalBytes: null } },
    LOADING,
    READY,
    DOWN,
  ];
  assert.deepEqual(progress([model(states), model([READY])]), [
    { phase: 'downloading', fraction: null },
    { phase: 'downloading', fraction: 0.25 },
    { phase: 'downloading', fraction: null },
    { phase: 'loading', fraction: 0.5 },
    { phase: 'down', fraction: null },
  ]);
});
