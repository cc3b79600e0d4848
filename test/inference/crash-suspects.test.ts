import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { GenerationRequest } from '../../src/core/generation.ts';
import { CrashSuspects } from '../../src/inference/crash-suspects.ts';
import { SILENT, type LogFields } from '../../src/support/log.ts';
import { chat, text } from '../engine/requests.ts';
import { CALLER } from './fixture.ts';

const MINUTE = 60_000;
/** An account that had no requests during a crash. */
const OTHER = 'other';

class Clock {
  nowMs = 1_000_000_000_000;
  readonly suspects = new CrashSuspects(SILENT, () => this.nowMs);
  #crashes = 0;

  /** Records crashes, each while this many equal requests are running. */
  crash(request: GenerationRequest, times = 1, running = 1): void {
    for (let crash = 0; crash < times; crash++) {
      const name = `crash-${this.#crashes++}`;
      for (let index = 0; index < running; index++) {
        this.record(request, name);
      }
    }
  }

  record(request: GenerationRequest, crash: string, accountId = CALLER.accountId): void {
    const caller = { ...CALLER, accountId };
    this.suspects.record(
      request,
      { requestId: `request of ${crash}`, clientRequestId: null, protocol: 'chat', client: null, caller },
      crash,
    );
  }
}

const REFUSED = { code: 'request_crashed_engine', status: 400 };
const request = chat({ tokens: 3 });

describe('a request that was running when its engine crashed', () => {
  it('is accepted after one crash and refused after two, from every caller and in every form', () => {
    const clock = new Clock();
    const { suspects } = clock;
    clock.crash(request);
    suspects.check(request, OTHER);
    clock.crash(request);
    for (const same of [
      request,
      chat({ tokens: 3 }),
      chat({ tokens: 3 }, { stream: false, cacheScope: 'another account', user: 'another user' }),
      chat({ tokens: 3 }, { includeUsage: true }),
    ])
      assert.throws(() => suspects.check(same, OTHER), REFUSED);
  });

  it('is logged, including whether it is refused from now on', () => {
    const refused: unknown[] = [];
    const log = {
      ...SILENT,
      error: (_message: string, fields?: LogFields) => refused.push(fields?.['refused']),
    };
    const suspects = new CrashSuspects(log);
    for (const crash of ['first', 'second']) {
      suspects.record(
        request,
        { requestId: crash, clientRequestId: null, protocol: 'chat', client: null, caller: CALLER },
        crash,
      );
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
    clock.suspects.check(request, OTHER);
    clock.crash(request, 1, 3);
    assert.throws(() => clock.suspects.check(request, OTHER), REFUSED);
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
      suspects.check(other, OTHER);
  });

  it('is forgotten when its response completes', () => {
    const clock = new Clock();
    const { suspects } = clock;
    clock.crash(request);
    suspects.clear(request);
    clock.crash(request);
    suspects.check(request, OTHER);
  });

  it('is forgotten ten minutes after its last crash', () => {
    const clock = new Clock();
    clock.crash(request);
    clock.nowMs += 9 * MINUTE;
    clock.crash(request);
    clock.nowMs += 10 * MINUTE - 1;
    assert.throws(() => clock.suspects.check(request, OTHER), REFUSED);
    assert.equal(clock.suspects.refused.length, 1);
    clock.nowMs++;
    clock.suspects.check(request, OTHER);
    assert.deepEqual(clock.suspects.refused, []);
    clock.crash(request);
    clock.suspects.check(request, OTHER);
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
    suspects.check(chat({ tokens: 1 }), OTHER);
    assert.throws(() => suspects.check(chat({ tokens: 2 }), OTHER), REFUSED);
  });
});

describe('an account whose requests were running when engines crashed', () => {
  const variant = (number: number) => chat({ tokens: number + 10 });
  const next = chat({ tokens: 5 });

  it('is refused for the model after four crashes, although each request differs', () => {
    const clock = new Clock();
    const { suspects } = clock;
    for (let crash = 1; crash <= 4; crash++) {
      suspects.check(next, 'default');
      clock.record(variant(crash), `crash ${crash}`);
      clock.record(variant(-crash), `crash ${crash}`);
    }
    assert.throws(() => suspects.check(next, 'default'), {
      ...REFUSED,
      message: /crashed 4 times while requests of this account were running/,
    });
    suspects.check(next, OTHER);
    suspects.check({ ...next, model: 'test/another' }, 'default');
    assert.deepEqual(
      suspects.refused.map(({ requestId, crashes }) => [requestId, crashes]),
      [['request of crash 4', 4]],
    );
  });

  it('shares a crash with the other accounts, so that those of its victims are refused later', () => {
    const clock = new Clock();
    const { suspects } = clock;
    const accounts = ['attacker', 'victim', 'another victim', 'a third victim'];
    for (let crash = 1; crash <= 15; crash++)
      for (const [index, account] of accounts.entries())
        clock.record(variant(4 * crash + index), `crash ${crash}`, account);
    for (const account of accounts) suspects.check(next, account);
    clock.record(variant(0), 'crash 16', 'attacker');
    assert.throws(() => suspects.check(next, 'attacker'), REFUSED);
    suspects.check(next, 'victim');
  });

  it('is accepted again when the crashes are ten minutes ago', () => {
    const clock = new Clock();
    for (let crash = 1; crash <= 4; crash++) {
      clock.record(variant(crash), `crash ${crash}`);
      clock.nowMs += MINUTE;
    }
    assert.throws(() => clock.suspects.check(next, 'default'), REFUSED);
    clock.nowMs += 6 * MINUTE;
    clock.suspects.check(next, 'default');
    assert.deepEqual(clock.suspects.refused, []);
  });
});
