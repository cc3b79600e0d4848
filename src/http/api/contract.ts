import type { accountOperations } from './contract/accounts.ts';
import type { auditOperations } from './contract/audit.ts';
import type { invitationOperations } from './contract/invitations.ts';
import type { keyOperations } from './contract/keys.ts';
import type { meOperations } from './contract/me.ts';
import type { BodyOf, Operation, Params, QueryOf, Wire } from './contract/operation.ts';
import type { peopleOperations } from './contract/people.ts';
import type { requestOperations } from './contract/requests.ts';
import type { serviceOperations } from './contract/service.ts';
import type { sessionOperations } from './contract/session.ts';
import type { usageOperations } from './contract/usage.ts';

/** Every operation of the management interface by its id, as its schemas say it. */
type All = typeof accountOperations &
  typeof auditOperations &
  typeof invitationOperations &
  typeof keyOperations &
  typeof meOperations &
  typeof peopleOperations &
  typeof requestOperations &
  typeof serviceOperations &
  typeof sessionOperations &
  typeof usageOperations;

/**
 * The management interface as a client sees it: types of JSON as it goes over the wire, by the ids of operations.
 * `query`, `body` and `answer` are `undefined` where there is none. Nothing that these types stand on needs Node or
 * the rest of the service, so that a page can be checked against them.
 */
export type Contract = { [Id in keyof All]: Call<All[Id]> };

interface Call<One extends Operation> {
  method: One['method'];
  path: One['path'];
  params: Params<One>;
  query: Wire<QueryOf<One>>;
  body: Wire<BodyOf<One>>;
  answer: Wire<One['answer']>;
}
