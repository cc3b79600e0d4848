import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { GenerationRequest } from '../../src/generation.ts';
import { CrashSuspects } from '../../src/inference/crash-suspects.ts';
import { SILENT, type LogFields } from '../../src/log.ts';
import { chat, text } from '../engine/requests.ts';
import { CALLER } from './fixture.ts';

const MINUTE = 60_000;

class Clock {
  nowMs = 1_000_000_000_000;
  readonly suspects = new CrashSuspects(SILENT, () => this.nowMs);
  #crashes = 0;

  /** Records crashes, each while this many equal requests are running. */
  crash(request: GenerationRequest, times = 1, running = 1): void {
    for (let crash = 0; crash < times; crash++) {
      const name = `crash-${this.#crashes++}`;
      for (let index = 0; index < running; index++) {
        const identity = { requestId: `request of ${name}`, clientRequestId: null, caller: CALLER };
        this.suspects.record(request, identity, name);
      }
    }
  }
}

const REFUSED = { code: 'request_crashed_engine', status: 400 };
const request = chat({ tokens: 3 });

describe('a request that was running when its engine crashed', () => {
  it('is accepted after one crash and refused after two, from every caller and in every form', () => {
    const clock = new Clock();
    const { suspects } = clock;
    clock.crash(request);
    suspects.check(request);
    clock.crash(request);
    for (const same of [
      request,
      chat({ tokens: 3 }),
      chat({ tokens: 3 }, { stream: false, cacheScope: 'another account', user: 'another user' }),
      chat({ tokens: 3 }, { includeUsage: true, continuousUsage: true }),
    ])
      assert.throws(() => suspects.check(same), REFUSED);
  });

  it('is logged, including whether it is refused from now on', () => {
    const refused: unknown[] = [];
    const log = {
      ...SILENT,
      error: (_message: string, fields?: LogFields) => refused.push(fields?.['refused']),
    };
    const suspects = new CrashSuspects(log);
    for (const crash of ['first', 'second']) {
      suspects.record(request, { requestId: crash, clientRequestId: null, caller: CALLER }, crash);
    }
    assert.deepEqual(refused, [false, true]);
  });

  it('is listed as refused for 10 minutes, and not after', () => {
    const clock = new Clock();
    clock.crash(request, 2);
    assert.deepEqual(
      clock.suspects.refused.map(({ crashes }) => crashes),
      [2],
    );
    clock.nowMs += 10 * MINUTE;
    assert.deepEqual(clock.suspects.refused, []);
  });

  it('is counted once per crash if several callers send the same request', () => {
    const clock = new Clock();
    clock.crash(request, 1, 3);
    clock.suspects.check(request);
    clock.crash(request, 1, 3);
    assert.throws(() => clock.suspects.check(request), REFUSED);
  });

  it('counts as a different request if a field that affects the generation differs', () => {
    const clock = new Clock();
    const { suspects } = clock;
    clock.crash(request, 2);
    const { sampling } = request;
    for (const other of [
      chat({ tokens: 4 }),
      text({ tokens: 3 }),
      chat({ tokens: 3 }, { model: 'test/another' }),
      chat({ tokens: 3 }, { maxTokens: 7 }),
      chat({ tokens: 3 }, { responseFormat: { type: 'json_object' } }),
      chat({ tokens: 3 }, { sampling: { ...sampling, temperature: 1 } }),
      chat({ tokens: 3 }, { sampling: { ...sampling, logitBias: new Map([[1, 2]]) } }),
    ])
      suspects.check(other);
  });

  it('is forgotten when its response completes', () => {
    const clock = new Clock();
    const { suspects } = clock;
    clock.crash(request);
    suspects.clear(request);
    clock.crash(request);
    suspects.check(request);
  });

  it('is forgotten ten minutes after its last crash', () => {
    const clock = new Clock();
    clock.crash(request);
    clock.nowMs += 9 * MINUTE;
    clock.crash(request);
    clock.nowMs += 10 * MINUTE - 1;
    assert.throws(() => clock.suspects.check(request), REFUSED);
    assert.equal(clock.suspects.refused.length, 1);
    clock.nowMs++;
    clock.suspects.check(request);
    assert.deepEqual(clock.suspects.refused, []);
    clock.crash(request);
    clock.suspects.check(request);
  });

  it('is listed for operators once it is refused', () => {
    const clock = new Clock();
    const { suspects } = clock;
    clock.crash(request);
    assert.deepEqual(suspects.refused, []);
    clock.crash(request);
    assert.deepEqual(suspects.refused, [
      {
        requestId: 'request of crash-1',
        accountId: CALLER.accountId,
        keyId: CALLER.id,
        model: request.model,
        lastCrash: 'crash-1',
        crashes: 2,
        expiresAt: clock.nowMs + 10 * MINUTE,
      },
    ]);
  });

  it('is forgotten after a thousand newer ones', () => {
    const clock = new Clock();
    const { suspects } = clock;
    for (let tokens = 1; tokens <= 1001; tokens++) clock.crash(chat({ tokens }), 2);
    assert.equal(suspects.refused.length, 1000);
    suspects.check(chat({ tokens: 1 }));
    assert.throws(() => suspects.check(chat({ tokens: 2 })), REFUSED);
  });
});
