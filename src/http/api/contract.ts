import type { accountOperations } from './contract/accounts.ts';
import type { auditOperations } from './contract/audit.ts';
import type { invitationOperations } from './contract/invitations.ts';
import type { keyOperations } from './contract/keys.ts';
import type { meOperations } from './contract/me.ts';
import type { modelOperations } from './contract/models.ts';
import type { BodyOf, Operation, Params, QueryOf, Wire } from './contract/operation.ts';
import type { userOperations } from './contract/users.ts';
import type { requestOperations } from './contract/requests.ts';
import type { serviceOperations } from './contract/service.ts';
import type { sessionOperations } from './contract/session.ts';
import type { usageOperations } from './contract/usage.ts';

/** All operations of the management API by their IDs. */
type All = typeof accountOperations &
  typeof auditOperations &
  typeof invitationOperations &
  typeof keyOperations &
  typeof meOperations &
  typeof modelOperations &
  typeof userOperations &
  typeof requestOperations &
  typeof serviceOperations &
  typeof sessionOperations &
  typeof usageOperations;

/**
 * The management API as JSON types, by operation ID. `query`, `body` and `response` are `undefined` if an operation has
 * none. The imported files need neither Node nor the rest of the service, so that the console can use these types.
 */
export type Contract = { [Id in keyof All]: OperationTypes<All[Id]> };

interface OperationTypes<Op extends Operation> {
  route: Op['route'];
  params: Params<Op>;
  query: Wire<QueryOf<Op>>;
  body: Wire<BodyOf<Op>>;
  response: Wire<Op['response']>;
}
