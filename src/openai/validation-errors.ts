import { asList, jsonObject, type JsonObject } from './values.ts';

/** A field that a server refused. */
export interface ValidationError {
  /** Such as `['messages', '0', 'name']`. */
  path: readonly string[];
  /** Such as `extra_forbidden`. */
  type: string;
  message: string;
}

/** Reads the fields that a server built with FastAPI refused, from `detail` or, in Mistral's API, `message.detail`. */
export function validationErrors(body: JsonObject): ValidationError[] {
  const detail = body['detail'] ?? jsonObject(body['message'])['detail'];
  return asList(detail).flatMap((value) => {
    const { loc, type, msg } = jsonObject(value);
    const [location, ...path] = asList(loc).map(String);
    if (location !== 'body' || path.length === 0) return [];
    return [{ path, type: String(type), message: String(msg) }];
  });
}
