import { z } from 'zod';
import { operations } from './operation.ts';
import { component, deleted, name, newEmail, pageOf, pageQuery, time } from './schemas.ts';

export const user = component(
  'User',
  z.object({
    id: z.string(),
    name: z.string(),
    email: z.string().describe('Email address in lowercase; unique.'),
    email_verified: z
      .boolean()
      .describe('Whether the email address is confirmed. Otherwise, it may belong to someone else.'),
    operator: z.boolean().describe('Whether the user can manage the whole service.'),
    two_factor: z.boolean().describe('Whether two-factor authentication is enabled.'),
    created_at: time,
  }),
);

export const role = z
  .enum(['owner', 'member'])
  .describe('Owners can also invite and remove members, and rename the account.');

/** A user's membership in an account. */
export const member = component(
  'Member',
  z.object({
    account_id: z.string(),
    user,
    role,
    created_at: time.describe('Member since; ISO 8601 in UTC.'),
  }),
);

export const userOperations = operations({
  listUsers: {
    route: 'GET /api/users',
    summary: 'List all users, oldest first.',
    access: 'operator',
    query: z.strictObject(pageQuery),
    response: pageOf('UserPage', user),
  },
  createUser: {
    route: 'POST /api/users',
    summary: 'Create a user without any account membership.',
    access: 'operator',
    status: 201,
    body: component('NewUser', z.strictObject({ name, email: newEmail })),
    response: user,
    errors: ['conflict'],
  },
  changeUser: {
    route: 'PATCH /api/users/{id}',
    summary: "Grant or revoke a user's operator role.",
    access: 'operator',
    body: component(
      'UserChange',
      z.strictObject({
        operator: z.boolean().describe('Whether the user can manage the whole service.'),
        allow_unverified: z
          .boolean()
          .optional()
          .describe('Whether a user with `email_verified: false` can become an operator. Default: false.'),
      }),
    ),
    response: user,
    errors: ['not_found', 'email_not_verified', 'last_operator'],
  },
  deleteUser: {
    route: 'DELETE /api/users/{id}',
    summary: 'Delete a user. Accounts, keys, the ledger and the audit log are kept.',
    access: 'operator',
    response: deleted,
    errors: ['not_found', 'last_operator', 'last_owner'],
  },
  listMembers: {
    route: 'GET /api/accounts/{id}/members',
    summary: 'List the members of an account, oldest membership first.',
    access: 'member',
    query: z.strictObject(pageQuery),
    response: pageOf('MemberPage', member),
    errors: ['not_found'],
  },
  setMember: {
    route: 'PUT /api/accounts/{id}/members/{user_id}',
    summary: 'Set the role of a member of an account. Only operators can add a user who is not a member yet.',
    access: 'owner',
    body: component('MemberRole', z.strictObject({ role })),
    response: member,
    errors: ['not_found', 'last_owner', 'conflict'],
  },
  removeMember: {
    route: 'DELETE /api/accounts/{id}/members/{user_id}',
    summary: 'Remove a member from an account.',
    access: 'owner',
    response: deleted,
    errors: ['not_found', 'last_owner'],
  },
});
