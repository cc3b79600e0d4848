import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from '../support/fast-check.ts';
import { createKeyText, isWellFormed, visibleParts } from '../../src/accounts/key-format.ts';

const ALPHABET = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';

test('a key has a prefix, 43 random characters and a checksum, and is unique', () => {
  const keys = new Set(Array.from({ length: 500 }, () => createKeyText().reveal()));
  assert.equal(keys.size, 500);
  for (const key of keys) {
    assert.match(key, /^sk-sluice-[0-9A-Za-z]{49}$/);
    assert.ok(isWellFormed(key));
  }
});

test('every character of the alphabet occurs at the end of the random part', () => {
  const seen = new Set(Array.from({ length: 2000 }, () => createKeyText().reveal().charAt(52)));
  assert.equal(seen.size, 62);
});

test('the checksum does not change, so existing keys stay valid', () => {
  assert.ok(isWellFormed('sk-sluice-00000000000000000000000000000000000000000010HNUPx'));
  assert.ok(isWellFormed(`sk-sluice-${'A'.repeat(43)}0DofJ8`));
});

test('one wrong, swapped, missing or extra character is detected', () => {
  fc.assert(
    fc.property(fc.nat(48), fc.constantFrom(...ALPHABET.split('')), (position, character) => {
      const key = createKeyText().reveal();
      const at = 10 + position;
      const head = key.slice(0, at);
      const changed = [
        head + character + key.slice(at + 1),
        head + key.charAt(at + 1) + key.charAt(at) + key.slice(at + 2),
      ].filter((text) => text !== key && text.length === key.length);
      const resized = [head + key.slice(at + 1), head + character + key.slice(at)];
      return [...changed, ...resized].every((text) => !isWellFormed(text));
    }),
  );
});

test('text that is not a key is not well formed', () => {
  fc.assert(fc.property(fc.string(), (text) => !isWellFormed(text)));
  fc.assert(
    fc.property(
      fc.string({ unit: fc.constantFrom(...ALPHABET.split('')), minLength: 49, maxLength: 49 }),
      (text) => !isWellFormed(`sk-${text}`) && !isWellFormed(`SK-SLUICE-${text}`),
    ),
  );
  const key = createKeyText().reveal();
  for (const text of ['', `${key}\n`, ` ${key}`, key.toUpperCase(), key.replace('sk-', 'pk-')]) {
    assert.ok(!isWellFormed(text), text);
  }
});

test('only the first and last four characters of a key are shown', () => {
  const key = createKeyText();
  const { prefix, lastFour } = visibleParts(key);
  assert.equal(prefix, key.reveal().slice(0, 14));
  assert.equal(lastFour, key.reveal().slice(-4));
  assert.equal(JSON.stringify({ key }), '{"key":"[secret]"}');
});
