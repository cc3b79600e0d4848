import {
  setOperator,
  createUser,
  deleteUser,
  getUser,
  listMembers,
  listUsers,
  removeMember,
  setMember,
} from '../../accounts/users.ts';
import { userOperations } from './contract/users.ts';
import { ACCOUNTS, endpoints } from './endpoint.ts';
import { memberJson, pageJson, userJson } from './json.ts';

export const userEndpoints = endpoints(
  userOperations,
  {
    listUsers: async ({ database, query }) => pageJson(await listUsers(database, query), userJson),
    createUser: async ({ database, actor, body }) => userJson(await createUser(database, body, actor)),
    changeUser: async ({ database, actor, params, body }) => {
      const change = { operator: body.operator, allowUnverified: body.allow_unverified };
      await setOperator(database, params.id, change, actor);
      return userJson(await getUser(database, params.id));
    },
    deleteUser: async ({ database, actor, params }) => {
      await deleteUser(database, params.id, actor);
      return { id: params.id, deleted: true as const };
    },
    listMembers: async ({ database, params, query }) =>
      pageJson(await listMembers(database, params.id, query), memberJson),
    setMember: async ({ database, principal, actor, params, body }) => {
      const member = { accountId: params.id, userId: params.user_id, role: body.role };
      // Only operators may add users directly. Owners invite users, who can decline.
      return memberJson(await setMember(database, { ...member, mayAdd: principal.operator }, actor));
    },
    removeMember: async ({ database, actor, params }) => {
      await removeMember(database, { accountId: params.id, userId: params.user_id }, actor);
      return { id: params.user_id, deleted: true as const };
    },
  },
  ACCOUNTS,
);
