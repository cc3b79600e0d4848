import { z } from 'zod';
import { operations } from './operation.ts';
import { component, deleted, name, newEmail, pageOf, pageQuery, time } from './schemas.ts';

/** Somebody who may use the console. */
export const person = component(
  'Person',
  z.object({
    id: z.string(),
    name: z.string(),
    email: z.string().describe('In lower case; no two people have the same.'),
    operator: z.boolean().describe('May manage the whole service.'),
    two_factor: z.boolean().describe('Has a second factor.'),
    created_at: time,
  }),
);

/** What somebody may do for an account. */
export const role = z
  .enum(['owner', 'member'])
  .describe('An owner also invites and removes people, and renames the account.');

/** Somebody's part in an account. */
export const member = component(
  'Member',
  z.object({
    account_id: z.string(),
    person,
    role,
    created_at: time.describe('Since when; ISO 8601 in UTC.'),
  }),
);

/** People, and the accounts that they act for. */
export const peopleOperations = operations({
  listPeople: {
    method: 'GET',
    path: '/api/people',
    summary: 'List all people, the oldest first.',
    access: 'operator',
    query: z.strictObject(pageQuery),
    answer: pageOf('PersonPage', person),
  },
  createPerson: {
    method: 'POST',
    path: '/api/people',
    summary: 'Make a person, who acts for no account yet.',
    access: 'operator',
    status: 201,
    body: component('NewPerson', z.strictObject({ name, email: newEmail })),
    answer: person,
    errors: ['conflict'],
  },
  changePerson: {
    method: 'PATCH',
    path: '/api/people/{id}',
    summary: 'Make a person an operator, or one no more.',
    access: 'operator',
    body: component(
      'PersonChange',
      z.strictObject({ operator: z.boolean().describe('May manage the whole service.') }),
    ),
    answer: person,
    errors: ['not_found', 'last_operator'],
  },
  deletePerson: {
    method: 'DELETE',
    path: '/api/people/{id}',
    summary: 'Forget a person. Accounts, keys, ledger and audit log stay.',
    access: 'operator',
    answer: deleted,
    errors: ['not_found', 'last_operator'],
  },
  listMembers: {
    method: 'GET',
    path: '/api/accounts/{id}/members',
    summary: 'List who acts for an account, those longest in it first.',
    access: 'member',
    query: z.strictObject(pageQuery),
    answer: pageOf('MemberPage', member),
    errors: ['not_found'],
  },
  setMember: {
    method: 'PUT',
    path: '/api/accounts/{id}/members/{person_id}',
    summary: 'Let a person act for an account, in this role. Only operators add one who did not before.',
    access: 'owner',
    body: component('MemberRole', z.strictObject({ role })),
    answer: member,
    errors: ['not_found'],
  },
  removeMember: {
    method: 'DELETE',
    path: '/api/accounts/{id}/members/{person_id}',
    summary: 'Let a person act for an account no more.',
    access: 'owner',
    answer: deleted,
    errors: ['not_found'],
  },
});
