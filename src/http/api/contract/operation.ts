import type { z } from 'zod';
import type { ErrorCode } from '../../../core/errors.ts';

export type Method = 'GET' | 'POST' | 'PATCH' | 'PUT' | 'DELETE';

/**
 * Who may call an operation. Operators (`admin` keys, and users with the operator role) may call all operations, except
 * that `signed-in` requires a session. With `account`, `member` and `owner`, users of other accounts get `not_found`.
 */
export type Access =
  /** Everyone, without signing in. */
  | 'open'
  /** Signed-in users, for their own data. No keys. */
  | 'signed-in'
  /** Any key, and signed-in users. */
  | 'any'
  /** Members and keys of the account. */
  | 'account'
  /** Members of the account. */
  | 'member'
  /** Owners of the account. */
  | 'owner'
  /** Only operators. */
  | 'operator';

/** Defines the route, the parser, the OpenAPI document and the types of the console's client. */
export interface Operation {
  /** With parameters in braces: `GET /api/accounts/{id}`. */
  route: `${Method} /api/${string}`;
  summary: string;
  access: Access;
  /** Status of a successful response. Default: 200. */
  status?: 200 | 201 | 303;
  query?: z.ZodObject;
  body?: z.ZodObject;
  /** Null: no body. */
  response: z.ZodType<object> | null;
  /** Error codes, in addition to those of all operations. */
  errors?: readonly ErrorCode[];
}

/** Operations by their IDs: a verb and a noun, unique in the management API. */
export type Operations = Readonly<Record<string, Operation>>;

/** Returns its argument, typed with literal types. */
export function operations<const Group extends Operations>(group: Group): Group {
  return group;
}

/** The parameter names in a route. */
type NamesIn<Route extends string> = Route extends `${string}{${infer Name}}${infer Rest}`
  ? Name | NamesIn<Rest>
  : never;

/** The path parameters of an operation. */
export type Params<Op extends Operation> = Readonly<Record<NamesIn<Op['route']>, string>>;

/** The schema of an operation's query; `undefined`: none. */
export type QueryOf<Op extends Operation> = Op extends { query: infer Query extends z.ZodObject }
  ? Query
  : undefined;

/** The schema of an operation's body; `undefined`: none. */
export type BodyOf<Op extends Operation> = Op extends { body: infer Body extends z.ZodObject }
  ? Body
  : undefined;

/** The JSON type of a schema; `undefined`: no schema. */
export type Wire<Schema> = Schema extends z.ZodType ? z.input<Schema> : undefined;
