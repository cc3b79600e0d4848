import assert from 'node:assert/strict';
import { DatabaseError, type DatabaseFault } from '../../src/database/errors.ts';

/** For `assert.rejects`: whether it was this fault, told in such words. */
export function fault(name: DatabaseFault, words?: RegExp): (error: unknown) => true {
  return (error) => {
    assert.ok(error instanceof DatabaseError, String(error));
    assert.equal(error.fault, name);
    if (words) assert.match(error.message, words);
    return true;
  };
}

/** Rows come without a prototype, which a strict comparison minds. */
export function plain(rows: readonly unknown[]): unknown[] {
  return rows.map((row) => Object.assign({}, row));
}
