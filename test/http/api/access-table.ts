import type { Contract } from '../../../src/http/api/contract.ts';
import type { ErrorCode } from '../../../src/core/errors.ts';

/** `key` is a key of the account, and `outsider` is a member of another one. */
export const CALLERS = ['anonymous', 'key', 'outsider', 'member', 'owner', 'operator', 'admin'] as const;
export type TestCaller = (typeof CALLERS)[number];

/** The expected error of each caller; null: allowed. */
type Verdicts = Readonly<Record<TestCaller, ErrorCode | null>>;

const may = { outsider: null, member: null, owner: null, operator: null, admin: null } as const;

const OPEN: Verdicts = { ...may, anonymous: null, key: null };
const SIGNED_IN: Verdicts = {
  ...may,
  anonymous: 'sign_in_required',
  key: 'sign_in_required',
  admin: 'sign_in_required',
};
const ANY: Verdicts = { ...may, anonymous: 'invalid_api_key', key: null };
const ACCOUNT: Verdicts = { ...ANY, outsider: 'not_found' };
const MEMBER: Verdicts = { ...ACCOUNT, key: 'admin_required' };
const OWNER: Verdicts = { ...MEMBER, member: 'owner_required' };
const OPERATOR: Verdicts = {
  ...OWNER,
  outsider: 'admin_required',
  member: 'admin_required',
  owner: 'admin_required',
};

export interface Parts {
  params?: Record<string, string>;
  query?: Record<string, string>;
  body?: unknown;
}

/** IDs of resources of one account. Functions create a new one. */
export interface Resources {
  accountId: string;
  requestId: string;
  key: () => Promise<string>;
  user: () => Promise<string>;
  member: () => Promise<string>;
  invitation: () => Promise<string>;
}

type Case = readonly [Verdicts, ((resources: Resources) => Parts | Promise<Parts>)?];

const inQuery = ({ accountId }: Resources): Parts => ({ query: { account_id: accountId } });
const inPath = ({ accountId }: Resources): Parts => ({ params: { id: accountId } });

/**
 * The expected access of each operation, and the parts of a request. An invalid body is enough if only authorization
 * is tested.
 */
export const ACCESS_TABLE: Readonly<Record<keyof Contract, Case>> = {
  listAccounts: [OPERATOR],
  createAccount: [OPERATOR, () => ({ body: { name: 'new' } })],
  getAccount: [MEMBER, inPath],
  changeAccount: [OWNER, (resources) => ({ ...inPath(resources), body: { name: 'renamed' } })],
  listPlans: [OPERATOR],
  listKeys: [MEMBER, inQuery],
  createKey: [MEMBER, ({ accountId }) => ({ body: { account_id: accountId, name: 'new' } })],
  getKey: [MEMBER, async ({ key }) => ({ params: { id: await key() } })],
  changeKey: [MEMBER, async ({ key }) => ({ params: { id: await key() }, body: { name: 'renamed' } })],
  revokeKey: [MEMBER, async ({ key }) => ({ params: { id: await key() } })],
  revokeKeys: [
    MEMBER,
    async ({ accountId, key }) => ({ body: { account_id: accountId, ids: [await key()] } }),
  ],
  rotateKey: [MEMBER, async ({ key }) => ({ params: { id: await key() }, body: {} })],
  endPreviousSecret: [MEMBER, async ({ key }) => ({ params: { id: await key() } })],
  createPlaygroundKey: [MEMBER, ({ accountId }) => ({ body: { account_id: accountId } })],
  restartEngine: [OPERATOR, () => ({ body: { model: 'no/model', name: 'none' } })],
  drainReplica: [OPERATOR, () => ({ body: { model: 'no/model', name: 'none' } })],
  resumeReplica: [OPERATOR, () => ({ body: { model: 'no/model', name: 'none' } })],
  readUsage: [MEMBER, inQuery],
  readLimits: [MEMBER, inQuery],
  listRequests: [MEMBER, inQuery],
  listRefusals: [MEMBER, inQuery],
  countRefusals: [MEMBER, inQuery],
  getReceipt: [ACCOUNT, ({ requestId }) => ({ params: { id: requestId } })],
  listReceipts: [ACCOUNT, ({ accountId }) => ({ query: { account_id: accountId, client_request_id: 'a' } })],
  listUsers: [OPERATOR],
  createUser: [OPERATOR, () => ({ body: { name: 'a', email: 'not an address' } })],
  changeUser: [OPERATOR, async ({ user }) => ({ params: { id: await user() }, body: { operator: false } })],
  deleteUser: [OPERATOR, async ({ user }) => ({ params: { id: await user() } })],
  listMembers: [MEMBER, inPath],
  setMember: [
    OWNER,
    async ({ accountId, member }) => ({
      params: { id: accountId, user_id: await member() },
      body: { role: 'owner' },
    }),
  ],
  removeMember: [
    OWNER,
    async ({ accountId, member }) => ({ params: { id: accountId, user_id: await member() } }),
  ],
  listInvitations: [OWNER, inQuery],
  createInvitation: [
    OWNER,
    ({ accountId }) => ({ body: { account_id: accountId, email: 'new@example.com', role: 'member' } }),
  ],
  withdrawInvitation: [OWNER, async ({ invitation }) => ({ params: { id: await invitation() } })],
  getInvitation: [OPEN, () => ({ body: { token: 'x' } })],
  acceptInvitation: [OPEN, () => ({ body: { token: 'x' } })],
  getSession: [OPEN],
  checkSetupLink: [OPEN, () => ({ body: { token: 'x' } })],
  setUp: [OPEN, () => ({ body: { token: 'x', name: 'a', email: 'a@example.com', password: '0123456789' } })],
  signIn: [OPEN, () => ({ body: { email: 'none@example.com', password: 'wrong' } })],
  signInSecondFactor: [OPEN, () => ({ body: { code: '000000', kind: 'sms' } })],
  signInWithProvider: [OPEN, () => ({ body: { provider: 1 } })],
  finishProviderSignIn: [OPEN, () => ({ params: { provider: 'none' } })],
  signOut: [OPEN],
  forgotPassword: [OPEN, () => ({ body: { email: 'none@example.com' } })],
  resetPassword: [OPEN, () => ({ body: { token: 'x', password: '0123456789' } })],
  changeMe: [SIGNED_IN, () => ({ body: { name: 'renamed' } })],
  changePassword: [SIGNED_IN, () => ({ body: { current_password: 'x', new_password: 'short' } })],
  deleteMe: [SIGNED_IN, () => ({ body: { password: 1 } })],
  beginTwoFactor: [SIGNED_IN, () => ({ body: { password: 1 } })],
  confirmTwoFactor: [SIGNED_IN, () => ({ body: { code: 1 } })],
  endTwoFactor: [SIGNED_IN, () => ({ body: { password: 1 } })],
  renewRecoveryCodes: [SIGNED_IN, () => ({ body: { password: 1 } })],
  listSessions: [SIGNED_IN],
  endSession: [SIGNED_IN, () => ({ params: { id: 'not-an-id-but-looked-up' } })],
  endOtherSessions: [SIGNED_IN],
  listAudit: [OPERATOR],
  listAlerts: [OPERATOR],
  readAlertSettings: [OPERATOR],
  testAlerts: [OPERATOR],
  silenceAlerts: [OPERATOR, () => ({ body: { type: 'disk_low', until: '2000-01-01T00:00:00Z' } })],
  unsilenceAlerts: [OPERATOR, () => ({ body: { type: 'disk_low' } })],
  listServedModels: [ANY],
  listCatalog: [OPERATOR],
  addModel: [OPERATOR, () => ({ body: { source: 'no/model' } })],
  updateModel: [OPERATOR, () => ({ body: { model: 'no/model' } })],
  setDefaultModel: [OPERATOR, () => ({ body: { model: 'no/model' } })],
  loadModel: [OPERATOR, () => ({ body: { model: 'no/model' } })],
  unloadModel: [OPERATOR, () => ({ body: { model: 'no/model' } })],
  removeModel: [OPERATOR, () => ({ body: { model: 'no/model' } })],
  addReplica: [
    OPERATOR,
    () => ({ body: { model: 'no/model', replica: { url: 'http://127.0.0.1:9', dialect: 'vllm' } } }),
  ],
  removeReplica: [OPERATOR, () => ({ body: { model: 'no/model', name: 'none' } })],
  listEngines: [OPERATOR],
  readLoad: [OPERATOR],
  readHealth: [OPERATOR],
};
