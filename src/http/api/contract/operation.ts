import type { z } from 'zod';
import type { ErrorCode } from '../../../errors.ts';

type Method = 'GET' | 'POST' | 'PATCH' | 'PUT' | 'DELETE';

/**
 * Who may call an operation. Operators, which are admins' keys and people with the flag, may call each but those of
 * `signed-in`. The three of an account are for the account that the call concerns; to all others it is not there.
 */
export type Access =
  /** Everybody, nobody signed in included. */
  | 'open'
  /** People who are signed in, for what is theirs; no key. */
  | 'signed-in'
  /** Any key, and people who are signed in. */
  | 'any'
  /** Who acts for the account, its own keys included. */
  | 'account'
  /** People who act for the account. */
  | 'member'
  /** People who act for the account as its owners. */
  | 'owner'
  /** Nobody but operators. */
  | 'operator';

/** What the route, the parser, the OpenAPI document and the console's client are made from. */
export interface Operation {
  method: Method;
  /** With its parameters in braces: `/api/accounts/{id}`. */
  path: string;
  /** One sentence. */
  summary: string;
  access: Access;
  /** Of the answer when all is well; 200 unless said otherwise. */
  status?: 200 | 201 | 303;
  query?: z.ZodObject;
  body?: z.ZodObject;
  /** Null: the answer has no body. */
  answer: z.ZodType<object> | null;
  /** Codes that it can answer beside those that all can. */
  errors?: readonly ErrorCode[];
}

/** Operations by their ids: a verb and a noun, each of its own in the whole interface. */
export type Operations = Readonly<Record<string, Operation>>;

/** Operations, with all that is said of them kept in their types. */
export function operations<const Group extends Operations>(group: Group): Group {
  return group;
}

/** The names in the braces of a path. */
type NamesIn<Path extends string> = Path extends `${string}{${infer Name}}${infer Rest}`
  ? Name | NamesIn<Rest>
  : never;

/** The parameters in the path of an operation. */
export type Params<One extends Operation> = Readonly<Record<NamesIn<One['path']>, string>>;

/** The schema of an operation's query; `undefined` where it takes none. */
export type QueryOf<One extends Operation> = One extends { query: infer Query extends z.ZodObject }
  ? Query
  : undefined;

/** The schema of an operation's body; `undefined` where it takes none. */
export type BodyOf<One extends Operation> = One extends { body: infer Body extends z.ZodObject }
  ? Body
  : undefined;

/** What JSON has where this schema stands; `undefined` where none does. */
export type Wire<Schema> = Schema extends z.ZodType ? z.input<Schema> : undefined;
