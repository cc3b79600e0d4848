/** Titles of operations whose id is not a good title. */
const TITLES: Readonly<Record<string, string>> = {
  createCompletion: 'Create text completion',
  health: 'Check liveness',
  readiness: 'Check readiness',
  document: 'Get OpenAPI document',
  changeAccount: 'Update account',
  changeKey: 'Update key',
  readUsage: 'Get usage',
  readLimits: 'Get limits',
  changeUser: 'Update user',
  setMember: 'Set member role',
  setUp: 'Create first operator',
  signInSecondFactor: 'Complete sign-in with second factor',
  signInWithProvider: 'Start sign-in with provider',
  finishProviderSignIn: 'Complete sign-in with provider',
  forgotPassword: 'Send password reset link',
  changeMe: 'Update your profile',
  deleteMe: 'Delete your user account',
  beginTwoFactor: 'Begin two-factor setup',
  endTwoFactor: 'Disable two-factor authentication',
  confirmTwoFactor: 'Enable two-factor authentication',
  renewRecoveryCodes: 'Replace recovery codes',
  listSessions: 'List your sessions',
  listAudit: 'List audit log',
  listServedModels: 'List model status',
  listCatalog: 'List model catalog',
  drainReplica: 'Drain a replica',
  resumeReplica: 'Resume a replica',
  readLoad: 'Get load',
  readHealth: 'Get health',
};

/** Returns the title of an operation, such as "Create chat completion" for `createChatCompletion`. */
export function titleOf(id: string): string {
  const words = id.replaceAll(/(?<=[a-z])(?=[A-Z])/g, ' ').toLowerCase();
  return TITLES[id] ?? `${words.slice(0, 1).toUpperCase()}${words.slice(1)}`;
}
