import { notify } from '../notify.ts';
import {
  ApiError,
  call,
  isOutcomeUnknown,
  type Arguments,
  type Operation,
  type ResponseOf,
} from './client.ts';
import { checkSession, queryClient } from './queries.ts';

/** The reads whose data an operation changes. They are made again after it, in the background. */
const CHANGES: { readonly [Op in Operation]?: readonly Operation[] } = {
  acceptInvitation: ['getSession'],
  addModel: ['listServedModels', 'listCatalog', 'listEngines'],
  addReplica: ['listServedModels', 'listEngines'],
  changeAccount: [
    'getAccount',
    'listAccounts',
    'listPlans',
    'listAudit',
    'readLimits',
    'listKeys',
    'getSession',
  ],
  changeKey: ['listKeys', 'getKey', 'readLimits'],
  changeMe: ['getSession', 'listMembers', 'listUsers'],
  changePassword: ['getSession', 'listSessions'],
  changeUser: ['listUsers', 'getSession'],
  confirmTwoFactor: ['getSession'],
  createAccount: ['listAccounts', 'listPlans'],
  createInvitation: ['listInvitations'],
  createKey: ['listKeys'],
  deleteUser: ['listUsers', 'listMembers'],
  drainReplica: ['listEngines', 'listServedModels'],
  endOtherSessions: ['listSessions'],
  endPreviousSecret: ['listKeys', 'getKey'],
  endSession: ['listSessions'],
  endTwoFactor: ['getSession'],
  loadModel: ['listServedModels', 'listCatalog', 'listEngines'],
  removeMember: ['listMembers', 'getSession'],
  removeModel: ['listServedModels', 'listCatalog', 'listEngines'],
  removeReplica: ['listEngines', 'listServedModels'],
  renewRecoveryCodes: ['getSession'],
  resetPassword: ['getSession'],
  restartEngine: ['listEngines'],
  resumeReplica: ['listEngines', 'listServedModels'],
  revokeKey: ['listKeys', 'getKey'],
  revokeKeys: ['listKeys', 'getKey'],
  rotateKey: ['listKeys', 'getKey'],
  setDefaultModel: ['listServedModels'],
  setMember: ['listMembers', 'getSession'],
  signIn: ['getSession'],
  signInSecondFactor: ['getSession'],
  silenceAlerts: ['listAlerts', 'readAlertSettings'],
  unloadModel: ['listServedModels', 'listCatalog', 'listEngines'],
  unsilenceAlerts: ['listAlerts', 'readAlertSettings'],
  updateModel: ['listServedModels'],
  withdrawInvitation: ['listInvitations'],
};

interface ActOptions<Op extends Operation> {
  done?: string | ((answer: ResponseOf<Op>) => string);
  /** What the user has to know if the response is lost, because the service may have made the change. */
  ifLost?: string;
}

/**
 * Makes a change, shows the result as a toast, and reads again what changed. What follows it, in an `async` function,
 * also runs if the component that called it is gone by then. Rejects with an `ApiError`, which the caller shows:
 * `EditDialog`, `confirm` and `Button` do.
 */
export async function act<Op extends Operation>(
  operation: Op,
  given: Arguments<Op> | undefined,
  { done, ifLost }: ActOptions<Op> = {},
): Promise<ResponseOf<Op>> {
  try {
    const answer = await call(operation, given);
    if (done !== undefined) notify.success(typeof done === 'string' ? done : done(answer));
    return answer;
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    checkSession(error);
    if (ifLost !== undefined && isOutcomeUnknown(error))
      throw new ApiError(`${error.message} ${ifLost}`, error);
    throw error;
  } finally {
    // After an error too: the service may have made the change although its response was lost.
    for (const changed of CHANGES[operation] ?? [])
      void queryClient.invalidateQueries({ queryKey: [changed] });
  }
}

/** Shows the error of a change as a toast. Resolves to whether there was none. */
export async function orToast(change: Promise<unknown>): Promise<boolean> {
  try {
    await change;
    return true;
  } catch (error) {
    if (error instanceof Error) checkSession(error);
    notify.error(error instanceof Error ? error.message : String(error));
    return false;
  }
}
