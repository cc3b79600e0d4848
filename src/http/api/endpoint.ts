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
interface AccountLookup {
  /**
   * Returns the account ID; `undefined`: the call names no account. Rejects with the error of `missing` if the call
   * names an object, such as a key, that does not exist.
   */
  find: (call: Call) => string | undefined | Promise<string | undefined>;
  /** The 404 response. Also returned for resources the caller may not see. */
  missing: () => ServiceError;
}

/** The parts of a call that can name an account. */
interface Call {
  database: AccountDatabase;
  params: Readonly<Record<string, string>>;
  query: Readonly<Record<string, unknown>> | null;
  body: Readonly<Record<string, unknown>> | null;
}

/** Objects that belong to an account, whose IDs are in the paths of a group of operations. */
interface OwnedObjects {
  /** Returns the ID of the account of an object. Rejects with the error of `missing`. */
  accountOf: (database: AccountDatabase, id: string) => string | Promise<string>;
  missing: () => ServiceError;
}

type Handler<Op extends Operation> = (call: AuthorizedCall<Op>) => Promise<ResponseBody<Op>>;

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
  account: AccountLookup | null;
  /** `call` has the type that the schemas and the access level of the operation define. */
  handle(call: unknown): Promise<object | void>;
}

/**
 * Combines operations with their handlers, whose types follow from the schemas. `objects`: those whose IDs are in the paths of
 * the operations that concern an account.
 */
export function endpoints<Group extends Operations>(
  group: Group,
  handlers: { [Id in keyof Group]: Handler<Group[Id]> },
  objects?: OwnedObjects,
): Endpoint[] {
  return Object.entries(group).map(([operationId, operation]) => {
    // An operation defines one method and path.
    const [method, path] = operation.route.split(' ') as [Method, string];
    return {
      status: 200,
      errors: [],
      ...operation,
      operationId,
      method,
      path,
      query: operation.query ?? null,
      body: operation.body ?? null,
      account: ACCOUNT_ACCESS.has(operation.access) ? accountLookup(operation, objects) : null,
      // The route calls each handler with the arguments that its operation defines.
      handle: handlers[operationId] as unknown as Endpoint['handle'],
    };
  });
}

const ACCOUNT_ACCESS: ReadonlySet<Access> = new Set<AccountAccess>(['account', 'member', 'owner']);

/** An operation concerns the account of the object in its path, or else the one in `account_id` of its body or query. */
function accountLookup({ route, query, body }: Operation, objects?: OwnedObjects): AccountLookup {
  if (route.includes('{id}') && objects !== undefined) {
    const { accountOf, missing } = objects;
    return { find: ({ database, params }) => accountOf(database, params['id'] ?? ''), missing };
  }
  if (route.includes('{id}') || !('account_id' in ((body ?? query)?.shape ?? {})))
    throw new TypeError(`${route} concerns an account, and does not name it`);
  return ACCOUNT_ID;
}

const ACCOUNT_ID: AccountLookup = {
  find: ({ query, body }) => (body ?? query)?.['account_id'] as string | undefined, // Checked by its schema.
  missing: () => new ServiceError('not_found', 'This account does not exist.', { param: 'account_id' }),
};

/** The account whose ID is in the path. */
export const ACCOUNTS: OwnedObjects = { accountOf: (_database, id) => id, missing: noSuchAccount };
