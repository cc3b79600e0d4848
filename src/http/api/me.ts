import {
  beginTwoFactor,
  changePassword,
  confirmTwoFactor,
  deleteMe,
  endMySessions,
  endTwoFactor,
  rename,
  renewRecoveryCodes,
} from '../../identity/settings.ts';
import { listSessions } from '../../identity/sessions.ts';
import { signOut } from '../../identity/sign-in.ts';
import type { HttpContext } from '../context.ts';
import type { PersonPrincipal } from '../principal.ts';
import { meOperations } from './contract/me.ts';
import { endpoints } from './endpoint.ts';
import { iso } from './json.ts';
import { setCookies } from './session.ts';

const DONE = { done: true } as const;

/** What people change about themselves. */
export const meEndpoints = endpoints(meOperations, {
  changeMe: async (call) => {
    const name = await rename(changeOf(call), call.body.name);
    return { id: call.principal.signedIn.person.id, name };
  },
  changePassword: async (call) => {
    const { current_password: current, new_password: wanted } = call.body;
    setCookies(call.answerHeaders, await changePassword(changeOf(call), { current, wanted }));
    return DONE;
  },
  deleteMe: async (call) => {
    await deleteMe(changeOf(call), call.body.password);
    setCookies(call.answerHeaders, await signOut(call.context.identity, call.request));
    return DONE;
  },
  beginTwoFactor: async (call) => {
    const { uri, recoveryCodes } = await beginTwoFactor(changeOf(call), call.body.password);
    return { uri, recovery_codes: recoveryCodes };
  },
  confirmTwoFactor: async (call) => {
    await confirmTwoFactor(changeOf(call), call.body.code);
    return DONE;
  },
  endTwoFactor: async (call) => {
    await endTwoFactor(changeOf(call), call.body.password);
    return DONE;
  },
  renewRecoveryCodes: async (call) => ({
    recovery_codes: await renewRecoveryCodes(changeOf(call), call.body.password),
  }),
  listSessions: async ({ database, principal }) => {
    const { person, sessionId } = principal.signedIn;
    const sessions = await listSessions(database, person.id);
    const data = sessions.map(({ id, createdAt, lastActiveAt, expiresAt, ip, userAgent }) => ({
      id,
      created_at: iso(createdAt),
      last_active_at: iso(lastActiveAt),
      expires_at: iso(expiresAt),
      ip,
      user_agent: userAgent,
      current: id === sessionId,
    }));
    return { data, next_cursor: null };
  },
  endSession: async (call) => {
    const { id } = call.params;
    await endMySessions(changeOf(call), { id });
    return { id, deleted: true as const };
  },
  endOtherSessions: async (call) => {
    await endMySessions(changeOf(call), { but: call.principal.signedIn.sessionId });
    return DONE;
  },
});

interface CallOfMine {
  context: HttpContext;
  request: Parameters<typeof signOut>[1];
  principal: PersonPrincipal;
}

function changeOf({ context, request, principal }: CallOfMine) {
  return { identity: context.identity, visit: request, me: principal.signedIn };
}
