import assert from 'node:assert/strict';
import { test } from 'node:test';
import { matchingStep, newTotpSecret, totpCode, totpUri } from '../../src/identity/second-factor.ts';

/** `12345678901234567890`, the secret of the examples in RFC 6238, in base32. */
const RFC_SECRET = 'GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ';

test('codes match RFC 6238', () => {
  for (const [seconds, code] of [
    [59, '94287082'],
    [1111111109, '07081804'],
    [1111111111, '14050471'],
    [1234567890, '89005924'],
    [2000000000, '69279037'],
    [20000000000, '65353130'],
  ] as const) {
    // The RFC shows eight digits; apps show the last six.
    assert.equal(totpCode(RFC_SECRET, Math.floor(seconds / 30)), code.slice(2));
  }
});

test('a code is accepted in its step, the previous and the next one', () => {
  const secret = newTotpSecret();
  const now = 1_800_000_000_000;
  const step = now / 30_000;
  for (const off of [-1, 0, 1])
    assert.equal(matchingStep(secret, totpCode(secret, step + off), now), step + off);
  for (const off of [-2, 2]) {
    const far = totpCode(secret, step + off);
    const near = [-1, 0, 1].map((one) => totpCode(secret, step + one));
    assert.equal(near.includes(far) || matchingStep(secret, far, now) === null, true);
  }
});

test('a code has six digits and may contain spaces', () => {
  const code = totpCode(RFC_SECRET, 1);
  assert.equal(matchingStep(RFC_SECRET, `${code.slice(0, 3)} ${code.slice(3)}`, 30_000), 1);
  for (const other of ['', '12345', '1234567', 'abcdef', '１２３４５６', `${code}x`]) {
    assert.equal(matchingStep(RFC_SECRET, other, 30_000), null);
  }
});

test('the URI contains the name of the service and the email address', () => {
  const uri = new URL(totpUri(RFC_SECRET, 'Sluice', 'zoe+1@example.com'));
  assert.equal(uri.protocol, 'otpauth:');
  assert.equal(decodeURIComponent(uri.pathname), '/Sluice:zoe+1@example.com');
  assert.equal(uri.searchParams.get('secret'), RFC_SECRET);
  assert.equal(uri.searchParams.get('issuer'), 'Sluice');
});
