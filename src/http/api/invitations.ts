import { acceptInvitation, invite, readInvitation } from '../../identity/accept-invitation.ts';
import {
  accountOfInvitation,
  listInvitations,
  noSuchInvitation,
  withdrawInvitation,
} from '../../identity/invitations.ts';
import { invitationOperations } from './contract/invitations.ts';
import { endpoints } from './endpoint.ts';
import { invitationJson, iso, pageJson } from './json.ts';
import { setCookies } from './session.ts';

const INVITATIONS = { accountOf: accountOfInvitation, missing: noSuchInvitation };

export const invitationEndpoints = endpoints(
  invitationOperations,
  {
    listInvitations: async ({ database, accountId, query }) =>
      pageJson(await listInvitations(database, accountId, query), invitationJson),
    createInvitation: async ({ context, actor, body }) => {
      const values = { accountId: body.account_id, email: body.email, role: body.role };
      const { record, link, mailed } = await invite(context.identity, values, actor);
      return { ...invitationJson(record), link, mailed };
    },
    withdrawInvitation: async ({ database, actor, params }) => {
      await withdrawInvitation(database, params.id, actor);
      return { id: params.id, deleted: true as const };
    },
    getInvitation: async ({ context, request, body }) => {
      const { record, accountName, mustSignIn } = await readInvitation(context.identity, request, body.token);
      const { email, role, expires_at: expiresAt } = record;
      return { email, account_name: accountName, role, expires_at: iso(expiresAt), known: mustSignIn };
    },
    acceptInvitation: async ({ context, request, body, responseHeaders }) => {
      const { accountId, cookies } = await acceptInvitation(context.identity, request, body);
      setCookies(responseHeaders, cookies);
      return { account_id: accountId };
    },
  },
  INVITATIONS,
);
