import type { z } from 'zod';
import type { Actor } from '../../accounts/audit.ts';
import type { AuthenticatedKey } from '../../accounts/keys.ts';
import type { Plans } from '../../accounts/plans.ts';
import type { AccountDatabase } from '../../accounts/store.ts';
import type { Limits } from '../../accounts/limits/limits.ts';
import type { ErrorCode } from '../../errors.ts';

type Method = 'GET' | 'POST' | 'PATCH' | 'PUT' | 'DELETE';

/** What every endpoint of the management interface has at hand. */
interface Tools {
  database: AccountDatabase;
  plans: Plans;
  limits: Limits;
  /** Who calls. */
  caller: AuthenticatedKey;
  /** The same for the audit log. */
  actor: Actor;
}

/** One call of an endpoint, its parts parsed. */
interface Call<Name extends string, Query, Body> extends Tools {
  params: Readonly<Record<Name, string>>;
  query: Query;
  body: Body;
}

/** What the route, the parser and the OpenAPI document are made from. */
interface EndpointDescription {
  method: Method;
  /** With its parameters in braces: `/api/accounts/{id}`. */
  path: string;
  /** A verb and a noun, of its own in the whole document. */
  operationId: string;
  /** One sentence. */
  summary: string;
  /** Whose keys may call it: admins' only, or those of any account, which see what is theirs. */
  access: 'admin' | 'any';
  /** Of the answer when all is well. */
  status: 200 | 201;
  query: z.ZodObject | null;
  body: z.ZodObject | null;
  answer: z.ZodType;
  /** Codes that this endpoint can answer beside those that all can. */
  errors: readonly ErrorCode[];
}

export interface Endpoint extends EndpointDescription {
  /** `query` and `body` are what the schemas made of them. */
  handle(call: Call<string, unknown, unknown>): Promise<unknown>;
}

/** The names in the braces of a path. */
type NamesIn<Path extends string> = Path extends `${string}{${infer Name}}${infer Rest}`
  ? Name | NamesIn<Rest>
  : never;

interface Definition<
  Path extends string,
  Query extends z.ZodObject,
  Body extends z.ZodObject,
  Answer extends z.ZodType<object>,
> extends Partial<EndpointDescription> {
  method: Method;
  path: Path;
  operationId: string;
  summary: string;
  query?: Query;
  body?: Body;
  answer: Answer;
  handle(call: Call<NamesIn<Path>, z.output<Query>, z.output<Body>>): Promise<z.input<Answer>>;
}

/** An endpoint whose handler gets what its own schemas parse, and has to give what its own schema describes. */
export function endpoint<
  const Path extends string,
  Query extends z.ZodObject,
  Body extends z.ZodObject,
  Answer extends z.ZodType<object>,
>(definition: Definition<Path, Query, Body, Answer>): Endpoint {
  return {
    access: 'admin',
    status: 200,
    errors: [],
    ...definition,
    query: definition.query ?? null,
    body: definition.body ?? null,
    // The route parses with these very schemas before it calls.
    handle: (call) => definition.handle(call as Call<NamesIn<Path>, z.output<Query>, z.output<Body>>),
  };
}
