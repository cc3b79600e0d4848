import assert from 'node:assert/strict';
import { ServiceError, type ErrorCode } from '../../src/core/errors.ts';

/** Checks the code and param of a `ServiceError`, for `assert.rejects`. */
export function refused(code: ErrorCode, param: string | null = null): (error: unknown) => true {
  return (error) => {
    assert.ok(error instanceof ServiceError, String(error));
    assert.deepEqual([error.code, error.param], [code, param]);
    return true;
  };
}
