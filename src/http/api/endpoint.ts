import type { IncomingHttpHeaders } from 'node:http';
import type { z } from 'zod';
import type { Actor } from '../../accounts/audit.ts';
import type { Plans } from '../../accounts/plans.ts';
import type { AccountDatabase } from '../../accounts/store.ts';
import type { Limits } from '../../accounts/limits/limits.ts';
import type { ErrorCode, ServiceError } from '../../errors.ts';
import type { HttpContext } from '../context.ts';
import type { PersonPrincipal, Principal } from '../principal.ts';
import type { Access, BodyOf, Operation, Operations, Params, QueryOf } from './contract/operation.ts';

/** Accesses that are for the account which the call concerns. */
type OfAccount = 'account' | 'member' | 'owner';

/** What every endpoint has at hand. */
interface Tools {
  database: AccountDatabase;
  plans: Plans;
  limits: Limits;
  /** The rest of the service. */
  context: HttpContext;
  request: {
    headers: IncomingHttpHeaders;
    /** The address of the caller, a trusted proxy's word for it included. */
    ip: string;
  };
  /** Further headers of the answer, names and values in turn; a name may come again. */
  answerHeaders: string[];
}

type Parsed<Schema> = Schema extends z.ZodType ? z.output<Schema> : undefined;

/** The parts of one call, parsed. */
interface Parts<One extends Operation> {
  params: Params<One>;
  query: Parsed<QueryOf<One>>;
  body: Parsed<BodyOf<One>>;
}

type Caller<Who extends Access> = Who extends 'open'
  ? { principal: Principal | null }
  : { principal: Who extends 'signed-in' ? PersonPrincipal : Principal; actor: Actor };

type Concerned<Who extends Access> = Who extends OfAccount
  ? {
      /** The account that the call concerns, which the caller may act for; null: all, which operators alone may. */
      accountId: string | null;
    }
  : unknown;

/** One call of an operation, by somebody who may call it. */
type Call<One extends Operation> = Tools & Parts<One> & Caller<One['access']> & Concerned<One['access']>;

type Answer<One extends Operation> = One['answer'] extends z.ZodType<object> ? z.input<One['answer']> : void;

/** Which account a call concerns. */
interface AccountOf<Asked> {
  /** `undefined`: the call names none. Rejects as `missing` does where what it names is not there. */
  find: (asked: Asked) => string | undefined | Promise<string | undefined>;
  /** What is said of what is not there; whoever may not know of it is told the same. */
  missing: () => ServiceError;
}

type Asked<One extends Operation> = Parts<One> & Pick<Tools, 'database'>;

type Handle<One extends Operation> = (call: Call<One>) => Promise<Answer<One>>;

type Handler<One extends Operation> = One['access'] extends OfAccount
  ? { account: AccountOf<Asked<One>>; handle: Handle<One> }
  : Handle<One>;

/** An operation with what answers it. */
export interface Endpoint {
  operationId: string;
  method: Operation['method'];
  path: string;
  summary: string;
  access: Access;
  status: number;
  query: z.ZodObject | null;
  body: z.ZodObject | null;
  answer: z.ZodType<object> | null;
  errors: readonly ErrorCode[];
  /** Null: calls of it concern no account. */
  account: AccountOf<object> | null;
  /** `call` is what the operation's own schemas and access made of a request. */
  handle(call: unknown): Promise<object | void>;
}

/** Endpoints whose handlers get what their operations' schemas parse, and have to give what those describe. */
export function endpoints<Group extends Operations>(
  group: Group,
  handlers: { [Id in keyof Group]: Handler<Group[Id]> },
): Endpoint[] {
  return Object.entries(group).map(([operationId, operation]) => {
    // The handler of this very operation, and the route gives it what the operation says.
    const handler = handlers[operationId] as unknown as
      | Endpoint['handle']
      | Pick<Endpoint, 'account' | 'handle'>;
    return {
      status: 200,
      errors: [],
      ...operation,
      operationId,
      query: operation.query ?? null,
      body: operation.body ?? null,
      ...(typeof handler === 'function' ? { account: null, handle: handler } : handler),
    };
  });
}
