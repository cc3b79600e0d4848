import { ACTION_LABELS } from '../../accounts/audit-actions.ts';
import { COUNT_NAMES } from '../../accounts/ledger/roll-ups.ts';
import { accountOperations } from './contract/accounts.ts';
import { alertOperations } from './contract/alerts.ts';
import { auditOperations } from './contract/audit.ts';
import { invitationOperations } from './contract/invitations.ts';
import { keyOperations } from './contract/keys.ts';
import { meOperations } from './contract/me.ts';
import { modelOperations } from './contract/models.ts';
import type { BodyOf, Operation, Params, QueryOf, Wire } from './contract/operation.ts';
import { userOperations } from './contract/users.ts';
import { requestOperations } from './contract/requests.ts';
import { serviceOperations } from './contract/service.ts';
import { sessionOperations } from './contract/session.ts';
import { usageOperations } from './contract/usage.ts';

/** All operations of the management API by their IDs. */
const OPERATIONS = {
  ...accountOperations,
  ...alertOperations,
  ...auditOperations,
  ...invitationOperations,
  ...keyOperations,
  ...meOperations,
  ...modelOperations,
  ...userOperations,
  ...requestOperations,
  ...serviceOperations,
  ...sessionOperations,
  ...usageOperations,
};

type All = typeof OPERATIONS;

/** The labels of the actions in the audit log. */
export { ACTION_LABELS };

/** The fields of usage that are counts, in order. */
export const USAGE_COUNTS = COUNT_NAMES;

/** Method and path of each operation. In the console's build, only the values of this file are left. */
export const ROUTES = Object.fromEntries(
  Object.entries(OPERATIONS).map(([id, { route }]) => [id, route]),
) as { readonly [Id in keyof All]: All[Id]['route'] };

/**
 * The management API as JSON types, by operation ID. `query`, `body` and `response` are `undefined` if an operation has
 * none. The imported files need neither Node nor the rest of the service, so that the console can use these types.
 */
export type Contract = { [Id in keyof All]: OperationTypes<All[Id]> };

interface OperationTypes<Op extends Operation> {
  params: Params<Op>;
  query: Wire<QueryOf<Op>>;
  body: Wire<BodyOf<Op>>;
  response: Wire<Op['response']>;
}
