import type { ResponseFormat } from '../generation.ts';
import { responseFormat } from './fields.ts';
import { checkJsonSchema } from './json-schema.ts';
import type { RequestBody } from './request-body.ts';
import { asObject, asString, missing, refuseUnknown, wrongType, wrongValue } from './values.ts';

/** Parses `response_format`. Throws a 400 with the path of the field. */
export function parseResponseFormat(body: RequestBody): ResponseFormat {
  const value = body.raw(responseFormat);
  if (value === null) return { type: 'text' };
  const object = asObject(value, 'response_format');
  const type = object['type'] ?? null;
  if (type === null) throw missing('response_format.type');
  if (typeof type !== 'string') throw wrongType('response_format.type', 'a string', type);
  switch (type) {
    case 'text':
      refuseUnknown(object, ONLY_TYPE, 'response_format.');
      return { type };
    case 'json_object':
      refuseUnknown(object, ONLY_TYPE, 'response_format.');
      body.used.push(responseFormat);
      return { type };
    case 'json_schema':
      refuseUnknown(object, WITH_SCHEMA, 'response_format.');
      body.used.push(responseFormat);
      return parseJsonSchemaFormat(object['json_schema'] ?? null);
    default:
      throw wrongValue('response_format.type', 'one of text, json_object, json_schema');
  }
}

const ONLY_TYPE = new Set(['type']);
const WITH_SCHEMA = new Set(['type', 'json_schema']);
const SCHEMA_FIELDS = new Set(['name', 'description', 'schema', 'strict']);
const NAME = /^[A-Za-z0-9_-]{1,64}$/;

function parseJsonSchemaFormat(value: unknown): ResponseFormat {
  const path = 'response_format.json_schema';
  if (value === null) throw missing(path);
  const object = asObject(value, path);
  refuseUnknown(object, SCHEMA_FIELDS, `${path}.`);
  const { name = null, description = null, schema = null, strict = null } = object;
  if (name === null) throw missing(`${path}.name`);
  const checkedName = asString(name, `${path}.name`);
  if (!NAME.test(checkedName)) {
    throw wrongValue(`${path}.name`, '1 to 64 letters, digits, "_" or "-"');
  }
  if (description !== null) asString(description, `${path}.description`);
  if (schema === null) throw missing(`${path}.schema`);
  if (strict !== null && typeof strict !== 'boolean') throw wrongType(`${path}.strict`, 'a boolean', strict);
  return {
    type: 'json_schema',
    name: checkedName,
    schema: checkJsonSchema(schema, `${path}.schema`),
    strict,
  };
}
