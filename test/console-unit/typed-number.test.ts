import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import * as fc from '../support/fast-check.ts';
import { typedAmount, typedWhole } from '../../console/src/format/typed-number.ts';

describe('a typed number', () => {
  test('may have thousands separators between groups of three digits', () => {
    for (const text of ['1200000', '1,200,000', ' 1 200 000 ', "1'200'000", '1’200’000', '1_200_000']) {
      assert.equal(typedWhole(text), '1200000', text);
      assert.equal(typedAmount(`$${text.trim()}.50`), '1200000.50', text);
    }
  });

  test('is refused if its separators are not between groups of three digits, or differ', () => {
    for (const text of [
      '',
      '1,5',
      '1,20,000',
      '12,0000',
      ',100',
      '0,150',
      '1,200 000',
      '1.200.000',
      '1e3',
      '-1',
    ])
      assert.equal(typedWhole(text), null, text);
  });

  test('is refused as an amount if a comma could be its decimal mark', () => {
    for (const text of [
      '0,15',
      '2,50',
      '1,250',
      '0,150',
      '1,250,000',
      '1.250,50',
      '1,250.',
      '.5',
      '$',
      '1.2.3',
    ])
      assert.equal(typedAmount(text), null, text);
  });

  test('is never read as another amount than in the language that it is written in', () => {
    const locales = ['en-US', 'en-IN', 'de-DE', 'de-CH', 'fr-FR', 'es-ES', 'sv-SE', 'pt-BR', 'ar-EG'];
    const cents = fc.nat(100_000_000);
    fc.assert(
      fc.property(fc.constantFrom(...locales), cents, fc.boolean(), (locale, value, useGrouping) => {
        const typed = (value / 100).toLocaleString(locale, { minimumFractionDigits: 2, useGrouping });
        const read = typedAmount(typed);
        assert.ok(read === null || Math.round(Number(read) * 100) === value, `${typed} is read as ${read}`);
        if (locale === 'en-US' || locale === 'de-CH') assert.notEqual(read, null, typed);
      }),
    );
  });
});
