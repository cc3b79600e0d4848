import { ServiceError } from './errors.ts';

export function invalidResponse(cause: unknown): ServiceError {
  return new ServiceError('engine_unavailable', 'The engine of this model sent an invalid response.', {
    cause,
  });
}

/** The error for a response that ended early. */
export function incompleteResponse(cause: string): ServiceError {
  return new ServiceError('engine_unavailable', 'The engine of this model ended its response early.', {
    cause: new Error(cause),
  });
}

/** Parses a JSON object from a replica. `name` is used in the error message. Throws `engine_unavailable`. */
export function parseObject(json: string, name: string): object {
  try {
    return readObject(json, name);
  } catch (cause) {
    throw invalidResponse(cause);
  }
}

/** Parses a JSON object. Throws an `Error` with `name`. */
export function readObject(json: string, name: string): object {
  let value: unknown;
  try {
    value = JSON.parse(json);
  } catch {
    // The parser's message quotes generated text, which must not be logged.
    throw new Error(`${name} is not JSON`);
  }
  if (typeof value !== 'object' || value === null) throw new Error(`${name} is not an object`);
  return value;
}
