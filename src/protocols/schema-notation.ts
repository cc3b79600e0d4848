/** Notation for the schemas of the OpenAPI document. The name of a field that may be absent ends with `?`. */

type Schema = Readonly<Record<string, unknown>>;
type Fields = Readonly<Record<string, Schema>>;

export const string = { type: 'string' };
export const integer = { type: 'integer', minimum: 0 };
export const boolean = { type: 'boolean' };
export const number = { type: 'number' };
export const anyObject = { type: 'object' };
export const nothing = { type: 'null' };

export const list = (items: Schema, bounds: Schema = {}): Schema => ({ type: 'array', items, ...bounds });
export function nullable({ description, ...schema }: Schema): Schema {
  return { anyOf: [schema, nothing], ...(description !== undefined && { description }) };
}
export const reference = (name: string): Schema => ({ $ref: `#/components/schemas/${name}` });

/** An object of a response. */
export function object(fields: Fields): Schema {
  return objectOf(fields, (schema) => schema);
}

/** An object of a request: a field that may be absent may also be null, and unknown fields are ignored with a note. */
export function given(fields: Fields): Schema {
  return objectOf(fields, (schema) => (Object.keys(schema).length === 0 ? schema : nullable(schema)));
}

/** An object of a response with this `type`. */
export const typed = (type: string, fields: Fields): Schema => object({ type: { const: type }, ...fields });

/** An object of a request with this `type`. */
export const typedGiven = (type: string, fields: Fields): Schema =>
  given({ type: { const: type }, ...fields });

/** An object of a request of another type than these. */
export const otherType = (...types: readonly string[]): Schema =>
  given({ type: { ...string, not: { enum: types } } });

function objectOf(fields: Fields, optional: (schema: Schema) => Schema): Schema {
  const all = Object.entries(fields);
  return {
    type: 'object',
    required: all.flatMap(([name]) => (name.endsWith('?') ? [] : [name])),
    properties: Object.fromEntries(
      all.map(([name, schema]) =>
        name.endsWith('?') ? [name.slice(0, -1), optional(schema)] : [name, schema],
      ),
    ),
  };
}
