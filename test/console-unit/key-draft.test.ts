import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import {
  dayOfField,
  draftOf,
  keyErrors,
  NEW_KEY,
  settingsOf,
  type KeyDraft,
} from '../../console/src/pages/keys/key-draft.ts';

const NOW = Date.parse('2026-11-22T10:00:00Z');
const NAMED = { name: ' mobile ' };

const KEY: Parameters<typeof draftOf>[0] = {
  id: 'key_1',
  account_id: 'default',
  kind: 'caller',
  purpose: 'api',
  name: 'production',
  prefix: 'sk-sluice-aaaa',
  last_four: 'zzzz',
  status: 'live',
  allowed_models: ['acme/small'],
  strict: true,
  tags: ['laptop'],
  limits: {
    requests_per_minute: 60,
    usd_per_month: '25.50',
    burst: { requests: 5 },
    models: { 'acme/small': { tokens_per_day: 1000 } },
  },
  created_at: '2026-11-01T00:00:00.000Z',
  expires_at: '2026-12-01T00:00:00.000Z',
  revoked_at: null,
  last_used_at: null,
  last_used_ip: null,
  last_used_client: null,
  previous: null,
};

/** What the form sends after these changes, or its errors. */
function sent(changed: Partial<KeyDraft>, initial = NEW_KEY) {
  const draft = { ...initial, ...changed };
  const errors = keyErrors(draft, NOW);
  return Object.keys(errors).length > 0 ? { errors } : { settings: settingsOf(draft, changed, NOW) };
}

describe('key settings from the form', () => {
  test('only what changed is sent', () => {
    assert.deepEqual(sent(NAMED), { settings: { name: 'mobile' } });
    assert.deepEqual(sent({}, draftOf(KEY)), { settings: {} });
    assert.deepEqual(sent({ models: null, tags: '' }, draftOf(KEY)), {
      settings: { allowed_models: null, tags: [] },
    });
  });

  test('only changed limits are sent, and cleared ones as null', () => {
    assert.deepEqual(sent({ usd_per_month: ' ' }, draftOf(KEY)).settings?.limits, { usd_per_month: null });
    assert.deepEqual(sent({ tokens_per_day: '5' }, draftOf(KEY)).settings?.limits, { tokens_per_day: 5 });
  });

  test('numbers may have thousands separators', () => {
    for (const text of ['1200000', '1,200,000', '1 200 000', "1'200'000", '1_200_000']) {
      assert.deepEqual(sent({ ...NAMED, tokens_per_day: text }).settings?.limits, {
        tokens_per_day: 1_200_000,
      });
    }
    for (const [text, amount] of [
      ['$25', '25'],
      ['1,250.50', '1250.50'],
      ['0.000001', '0.000001'],
    ] as const) {
      assert.deepEqual(sent({ ...NAMED, usd_per_month: text }).settings?.limits, { usd_per_month: amount });
    }
  });

  test('invalid amounts are reported for their field', () => {
    for (const text of ['0', '-1', '1.5', '1,5', 'many', '1e3']) {
      assert.deepEqual(Object.keys(sent({ ...NAMED, requests_in_flight: text }).errors ?? {}), [
        'limits.requests_in_flight',
      ]);
    }
    for (const text of ['1.2345678', '12345678', '2,50', '1,250', 'much', '-3']) {
      assert.deepEqual(Object.keys(sent({ ...NAMED, usd_per_month: text }).errors ?? {}), [
        'limits.usd_per_month',
      ]);
    }
  });

  test('tags are separated by commas, without duplicates, and bounded', () => {
    assert.deepEqual(sent({ ...NAMED, tags: ' team:search,, b c , b c' }).settings?.tags, [
      'team:search',
      'b c',
    ]);
    for (const tags of ['a'.repeat(41), Array.from({ length: 21 }, (_, index) => index).join(',')])
      assert.deepEqual(Object.keys(sent({ ...NAMED, tags }).errors ?? {}), ['tags']);
  });

  test('all errors are reported together', () => {
    const changed: Partial<KeyDraft> = { models: [], expiry: 'date', date: '2026-11-01' };
    assert.deepEqual(Object.keys(sent(changed).errors ?? {}).sort(), [
      'allowed_models',
      'expires_at',
      'name',
    ]);
  });

  test('an expiry in days counts from now, and an expiry date includes the whole day', () => {
    const in30 = sent({ ...NAMED, expiry: '30' }).settings;
    assert.equal(in30?.expires_at, '2026-12-22T10:00:00.000Z');
    const today = sent({ ...NAMED, expiry: 'date', date: dayOfField(NOW) }).settings;
    assert.equal(dayOfField(Date.parse(today?.expires_at ?? '')), dayOfField(NOW));
    assert.ok(Date.parse(today?.expires_at ?? '') > NOW);
    for (const date of ['', 'soon', '2026-11-21']) {
      assert.ok(sent({ ...NAMED, expiry: 'date', date }).errors?.['expires_at']);
    }
  });
});
