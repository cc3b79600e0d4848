import {
  beginTwoFactor,
  changePassword,
  confirmTwoFactor,
  deleteMe,
  endOwnSessions,
  endTwoFactor,
  rename,
  renewRecoveryCodes,
} from '../../identity/settings.ts';
import type { BrowserRequest } from '../../identity/browser-request.ts';
import { listSessions } from '../../identity/sessions.ts';
import { signOut } from '../../identity/sign-in.ts';
import type { HttpContext } from '../context.ts';
import type { SessionPrincipal } from '../principal.ts';
import { meOperations } from './contract/me.ts';
import { endpoints } from './endpoint.ts';
import { sessionJson } from './json.ts';
import { setCookies } from './session.ts';

const DONE = { done: true } as const;

export const meEndpoints = endpoints(meOperations, {
  changeMe: async (call) => {
    const name = await rename(changeOf(call), call.body.name);
    return { id: call.principal.session.user.id, name };
  },
  changePassword: async (call) => {
    const { current_password: current, new_password: next } = call.body;
    setCookies(call.responseHeaders, await changePassword(changeOf(call), { current, next }));
    return DONE;
  },
  deleteMe: async (call) => {
    await deleteMe(changeOf(call), call.body.password);
    setCookies(call.responseHeaders, await signOut(call.context.identity, call.request));
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
    const { id, user } = principal.session;
    const data = await listSessions(database, user.id);
    return { data: data.map((row) => sessionJson(row, id)), next_cursor: null };
  },
  endSession: async (call) => {
    const { id } = call.params;
    await endOwnSessions(changeOf(call), { id });
    return { id, deleted: true as const };
  },
  endOtherSessions: async (call) => {
    await endOwnSessions(changeOf(call), { except: call.principal.session.id });
    return DONE;
  },
});

interface SessionCall {
  context: HttpContext;
  request: BrowserRequest;
  principal: SessionPrincipal;
}

function changeOf({ context, request, principal }: SessionCall) {
  return { identity: context.identity, request, session: principal.session };
}
