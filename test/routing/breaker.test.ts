import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from '../support/fast-check.ts';
import { SILENT, type Log } from '../../src/support/log.ts';
import { CircuitBreaker } from '../../src/routing/breaker.ts';

const ERROR = new Error('the replica responded with 500');

/** A breaker with a clock that the test controls, without randomness by default. */
function breakerAt({ random = 0, log = SILENT }: { random?: number; log?: Log } = {}) {
  const clock = { ms: 0, now: () => clock.ms, random: () => random };
  return { clock, breaker: new CircuitBreaker(log, clock) };
}

function fail(breaker: CircuitBreaker, times = 1): void {
  for (let time = 0; time < times; time++) breaker.recordResult(breaker.admit(), 'failed', ERROR);
}

test('the 5th consecutive failure pauses the replica, and a success resets the count', () => {
  const { breaker } = breakerAt();
  for (let round = 0; round < 3; round++) {
    fail(breaker, 4);
    assert.equal(breaker.paused, false);
    breaker.recordResult(breaker.admit(), 'succeeded');
  }
  fail(breaker, 5);
  assert.equal(breaker.paused, true);
});

/** Records these results in turn, 100 ms apart. */
function record(
  { breaker, clock }: ReturnType<typeof breakerAt>,
  results: readonly ('succeeded' | 'failed' | 'inconclusive')[],
): void {
  for (const result of results) {
    clock.ms += 100;
    breaker.recordResult(breaker.admit(), result, ERROR);
  }
}

const ALTERNATING = Array.from({ length: 20 }, (_, index) =>
  index % 2 === 0 ? ('succeeded' as const) : ('failed' as const),
);

test('a replica is paused if at least half of 20 or more requests within 30 s failed', () => {
  const bed = breakerAt();
  record(bed, ALTERNATING.slice(0, 18));
  record(
    bed,
    Array.from({ length: 10 }, () => 'inconclusive'),
  );
  record(bed, ['succeeded']);
  assert.equal(bed.breaker.paused, false, 'only 19 requests succeeded or failed');
  record(bed, ['failed']);
  assert.equal(
    bed.breaker.pause?.reason,
    '10 of 20 requests within 30 s failed; last: the replica responded with 500',
  );
});

test('failures more than 30 s ago do not pause a replica', () => {
  const bed = breakerAt();
  record(bed, ALTERNATING.slice(0, 19));
  bed.clock.ms += 30_000;
  record(bed, ['failed']);
  assert.equal(bed.breaker.paused, false);
});

test('a replica is not paused while fewer than half of its requests fail, and never 5 in a row', () => {
  fc.assert(
    fc.property(fc.array(fc.boolean(), { maxLength: 200 }), (outcomes) => {
      const bed = breakerAt();
      const seen: boolean[] = [];
      for (const failed of outcomes) {
        record(bed, [failed ? 'failed' : 'succeeded']);
        seen.push(failed);
        const inRow = seen.length - 1 - seen.lastIndexOf(false);
        const failures = seen.filter(Boolean).length;
        const expected = failed && (inRow >= 5 || (seen.length >= 20 && failures * 2 >= seen.length));
        assert.equal(bed.breaker.paused, expected);
        if (expected) return;
      }
    }),
    { examples: [[Array.from({ length: 200 }, (_, index) => index % 3 === 0)]] },
  );
});

test('an inconclusive request neither pauses the replica nor resets its failures', () => {
  const { breaker } = breakerAt();
  fail(breaker, 4);
  for (let time = 0; time < 10; time++) breaker.recordResult(breaker.admit(), 'inconclusive');
  assert.equal(breaker.paused, false);
  fail(breaker);
  assert.equal(breaker.paused, true);
});

test('each failed trial doubles the pause up to a minute, and a success resets it', () => {
  const { breaker, clock } = breakerAt();
  const pauses: (number | undefined)[] = [];
  fail(breaker, 5);
  for (let trial = 0; trial < 8; trial++) {
    const leftMs = breaker.pause?.retryInMs;
    pauses.push(leftMs);
    assert.equal(breaker.trialDue, false);
    clock.ms += leftMs ?? 0;
    assert.equal(breaker.trialDue, true);
    fail(breaker);
  }
  assert.deepEqual(pauses, [1000, 2000, 4000, 8000, 16_000, 32_000, 60_000, 60_000]);
  clock.ms += 60_000;
  breaker.recordResult(breaker.admit(), 'succeeded');
  fail(breaker, 5);
  assert.equal(breaker.pause?.retryInMs, 1000);
});

test('a trial that starts to respond and then fails starts a longer pause at once', () => {
  const { breaker, clock } = breakerAt();
  fail(breaker, 5);
  clock.ms += 1000;
  const trial = breaker.admit();
  breaker.responseStarted(trial);
  assert.equal(breaker.paused, false);
  breaker.recordResult(trial, 'failed', ERROR);
  assert.equal(breaker.pause?.retryInMs, 2000);
});

test('requests from before the pause do not affect it', () => {
  const { breaker, clock } = breakerAt();
  const early = Array.from({ length: 3 }, () => breaker.admit());
  fail(breaker, 5);
  const [first = 0, second = 0, third = 0] = early;
  breaker.recordResult(first, 'failed', ERROR);
  breaker.responseStarted(second);
  breaker.recordResult(second, 'succeeded');
  breaker.recordResult(third, 'inconclusive');
  assert.equal(breaker.pause?.retryInMs, 1000);
  clock.ms += 1000;
  assert.equal(breaker.trialDue, true);
});

test('an inconclusive trial lets the next request through', () => {
  const { breaker, clock } = breakerAt();
  fail(breaker, 5);
  clock.ms += 1000;
  const trial = breaker.admit();
  assert.equal(breaker.trialDue, false);
  breaker.recordResult(trial, 'inconclusive');
  assert.equal(breaker.trialDue, true);
});

test('randomness shortens a pause by up to a fifth', () => {
  fc.assert(
    fc.property(fc.double({ min: 0, max: 0.999_999, noNaN: true }), (random) => {
      const { breaker } = breakerAt({ random });
      fail(breaker, 5);
      const pauseMs = breaker.pause?.retryInMs ?? 0;
      assert.ok(pauseMs >= 800 && pauseMs <= 1000, String(pauseMs));
    }),
  );
});

test('at most one trial runs at any time, and a replica that succeeds is resumed', () => {
  const action = fc.oneof(
    fc.constantFrom('ask' as const, 'pass' as const),
    fc.record({
      request: fc.nat(20),
      result: fc.constantFrom('began', 'succeeded', 'failed', 'inconclusive'),
    }),
  );
  fc.assert(
    fc.property(fc.array(action, { maxLength: 100 }), (actions) => {
      const { breaker, clock } = breakerAt();
      let running: { ticket: number; trial: boolean }[] = [];
      for (const step of actions) {
        if (step === 'pass') clock.ms += 10_000;
        else if (step === 'ask') {
          const trial = breaker.trialDue;
          if (breaker.paused && !trial) continue;
          running.push({ ticket: breaker.admit(), trial });
        } else {
          const request = running[step.request];
          if (!request) continue;
          if (step.result === 'began') breaker.responseStarted(request.ticket);
          else {
            breaker.recordResult(request.ticket, step.result, ERROR);
            running = running.filter((each) => each !== request);
            if (step.result === 'succeeded' && request.trial) assert.equal(breaker.paused, false);
          }
        }
        if (breaker.trialDue) assert.ok(breaker.paused);
        assert.ok((breaker.pause?.retryInMs ?? 0) <= 60_000);
      }
      clock.ms += 60_000;
      // After all requests have ended, the replica is resumed or gets its trial.
      for (const { ticket } of running) breaker.recordResult(ticket, 'inconclusive');
      assert.ok(!breaker.paused || breaker.trialDue);
    }),
  );
});

test('the log has one line when a replica is paused, and one when it responds again', () => {
  const lines: string[] = [];
  const log: Log = {
    ...SILENT,
    warn: (message, fields) => lines.push(`${message}: ${String(fields?.['cause'])}`),
    info: (message) => lines.push(message),
  };
  const { breaker, clock } = breakerAt({ log });
  fail(breaker, 5);
  for (let trial = 0; trial < 3; trial++) {
    clock.ms += 60_000;
    fail(breaker);
  }
  clock.ms += 60_000;
  breaker.recordResult(breaker.admit(), 'succeeded');
  assert.deepEqual(lines, ['replica paused: the replica responded with 500', 'replica responds again']);
});
