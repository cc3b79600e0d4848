import type { z } from 'zod';
import { noSuchAccount } from '../../accounts/accounts.ts';
import type { Actor } from '../../accounts/audit.ts';
import type { Plans } from '../../accounts/plans.ts';
import type { AccountDatabase } from '../../accounts/store.ts';
import type { Limiter } from '../../accounts/limits/limiter.ts';
import { ServiceError, type ErrorCode } from '../../core/errors.ts';
import type { BrowserRequest } from '../../identity/browser-request.ts';
import type { HttpContext } from '../context.ts';
import type { SessionPrincipal, Principal } from '../principal.ts';
import type { Access, BodyOf, Method, Operation, Operations, Params, QueryOf } from './contract/operation.ts';

/** Access levels that depend on the account of a call. */
type AccountAccess = 'account' | 'member' | 'owner';

/** Passed to every handler, in addition to the parsed request. */
interface CallContext {
  database: AccountDatabase;
  plans: Plans;
  limiter: Limiter;
  context: HttpContext;
  request: BrowserRequest;
  /** Aborts when the client disconnects. */
  signal: AbortSignal;
  /** Additional response headers, as names and values in turn. Names may repeat. */
  responseHeaders: string[];
}

type Parsed<Schema> = Schema extends z.ZodType ? z.output<Schema> : undefined;

/** The parsed parts of a request. */
interface RequestParts<Op extends Operation> {
  params: Params<Op>;
  query: Parsed<QueryOf<Op>>;
  body: Parsed<BodyOf<Op>>;
}

type CallerOf<Level extends Access> = Level extends 'open'
  ? { principal: Principal | null }
  : { principal: Level extends 'signed-in' ? SessionPrincipal : Principal; actor: Actor };

type AccountIdOf<Level extends Access> = Level extends AccountAccess
  ? {
      /** The account of the call, which the caller may access; null: all accounts, for operators only. */
      accountId: string | null;
    }
  : unknown;

type AuthorizedCall<Op extends Operation> = CallContext &
  RequestParts<Op> &
  CallerOf<Op['access']> &
  AccountIdOf<Op['access']>;

type ResponseBody<Op extends Operation> =
  Op['response'] extends z.ZodType<object> ? z.input<Op['response']> : void;

/** Finds the account of a call. */
interface AccountLookup<Call> {
  /**
   * Returns the account ID; `undefined`: the call names no account. Rejects with the error of `missing` if the call
   * names an object, such as a key, that does not exist.
   */
  find: (call: Call) => string | undefined | Promise<string | undefined>;
  /** The 404 response. Also returned for resources the caller may not see. */
  missing: () => ServiceError;
}

type Handle<Op extends Operation> = (call: AuthorizedCall<Op>) => Promise<ResponseBody<Op>>;

type Handler<Op extends Operation> = Op['access'] extends AccountAccess
  ? { account: AccountLookup<RequestParts<Op> & Pick<CallContext, 'database'>>; handle: Handle<Op> }
  : Handle<Op>;

/** An operation with its handler. */
export interface Endpoint {
  operationId: string;
  method: Method;
  path: string;
  summary: string;
  access: Access;
  status: number;
  query: z.ZodObject | null;
  body: z.ZodObject | null;
  response: z.ZodType<object> | null;
  errors: readonly ErrorCode[];
  /** Null: the operation concerns no account. */
  account: AccountLookup<object> | null;
  /** `call` has the type that the schemas and the access level of the operation define. */
  handle(call: unknown): Promise<object | void>;
}

/** Combines operations with their handlers, whose types follow from the schemas. */
export function endpoints<Group extends Operations>(
  group: Group,
  handlers: { [Id in keyof Group]: Handler<Group[Id]> },
): Endpoint[] {
  return Object.entries(group).map(([operationId, operation]) => {
    // An operation defines one method and path.
    const [method, path] = operation.route.split(' ') as [Method, string];
    // The route calls each handler with the arguments that its operation defines.
    const handler = handlers[operationId] as unknown as
      | Endpoint['handle']
      | Pick<Endpoint, 'account' | 'handle'>;
    return {
      status: 200,
      errors: [],
      ...operation,
      operationId,
      method,
      path,
      query: operation.query ?? null,
      body: operation.body ?? null,
      ...(typeof handler === 'function' ? { account: null, handle: handler } : handler),
    };
  });
}

/** The account with the ID in the path. */
export const accountInPath = {
  find: ({ params }: { params: Readonly<Record<'id', string>> }) => params.id,
  missing: noSuchAccount,
};

/** The account in the query, if any. */
export const accountInQuery = {
  find: ({ query }: { query: { account_id?: string | undefined } }) => query.account_id,
  missing: noSuchAccountId,
};

/** The account in the body, if any. */
export const accountInBody = {
  find: ({ body }: { body: { account_id?: string | undefined } }) => body.account_id,
  missing: noSuchAccountId,
};

function noSuchAccountId(): ServiceError {
  return new ServiceError('not_found', 'This account does not exist.', { param: 'account_id' });
}
