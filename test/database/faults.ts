import assert from 'node:assert/strict';
import { DatabaseError, type DatabaseFault } from '../../src/database/errors.ts';

/** Checks the fault and the message of a `DatabaseError`, for `assert.rejects`. */
export function fault(name: DatabaseFault, words?: RegExp): (error: unknown) => true {
  return (error) => {
    assert.ok(error instanceof DatabaseError, String(error));
    assert.equal(error.fault, name);
    if (words) assert.match(error.message, words);
    return true;
  };
}

/** Rows have no prototype, which a strict comparison rejects. */
export function plain(rows: readonly unknown[]): unknown[] {
  return rows.map((row) => Object.assign({}, row));
}
