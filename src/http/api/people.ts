import { z } from 'zod';
import {
  createPerson,
  deletePerson,
  listMembers,
  listPeople,
  removeMember,
  setMember,
  type MemberRecord,
  type PersonRecord,
} from '../../accounts/people.ts';
import { endpoint, type Endpoint } from './endpoint.ts';
import { component, deleted, iso, pageJson, pageOf, pageQuery, time } from './schemas.ts';

const person = component(
  'Person',
  z.object({
    id: z.string(),
    name: z.string(),
    email: z.string().describe('In lower case; no two people have the same.'),
    created_at: time,
  }),
);

const role = z.enum(['owner', 'member']);
const member = component(
  'Member',
  z.object({
    account_id: z.string(),
    person,
    role,
    created_at: time.describe('Since when; ISO 8601 in UTC.'),
  }),
);

/** People, and the accounts that they act for. */
export const peopleEndpoints: readonly Endpoint[] = [
  endpoint({
    method: 'GET',
    path: '/api/people',
    operationId: 'listPeople',
    summary: 'List all people, the oldest first.',
    query: z.strictObject(pageQuery),
    answer: pageOf('PersonPage', person),
    handle: async ({ database, query }) => pageJson(await listPeople(database, query), personJson),
  }),
  endpoint({
    method: 'POST',
    path: '/api/people',
    operationId: 'createPerson',
    summary: 'Make a person, who acts for no account yet.',
    status: 201,
    body: component(
      'NewPerson',
      z.strictObject({ name: z.string().describe('1 to 100 characters.'), email: z.string() }),
    ),
    answer: person,
    handle: async ({ database, actor, body }) => personJson(await createPerson(database, body, actor)),
  }),
  endpoint({
    method: 'DELETE',
    path: '/api/people/{id}',
    operationId: 'deletePerson',
    summary: 'Forget a person. Accounts, keys, ledger and audit log stay.',
    answer: deleted,
    errors: ['not_found'],
    handle: async ({ database, actor, params }) => {
      await deletePerson(database, params.id, actor);
      return { id: params.id, deleted: true as const };
    },
  }),
  endpoint({
    method: 'GET',
    path: '/api/accounts/{id}/members',
    operationId: 'listMembers',
    summary: 'List who acts for an account, those longest in it first.',
    query: z.strictObject(pageQuery),
    answer: pageOf('MemberPage', member),
    errors: ['not_found'],
    handle: async ({ database, params, query }) =>
      pageJson(await listMembers(database, params.id, query), memberJson),
  }),
  endpoint({
    method: 'PUT',
    path: '/api/accounts/{id}/members/{person_id}',
    operationId: 'setMember',
    summary: 'Let a person act for an account, in this role.',
    body: component('MemberRole', z.strictObject({ role })),
    answer: member,
    errors: ['not_found'],
    handle: async ({ database, actor, params, body }) => {
      const part = { accountId: params.id, personId: params.person_id, role: body.role };
      return memberJson(await setMember(database, part, actor));
    },
  }),
  endpoint({
    method: 'DELETE',
    path: '/api/accounts/{id}/members/{person_id}',
    operationId: 'removeMember',
    summary: 'Let a person act for an account no more.',
    answer: deleted,
    errors: ['not_found'],
    handle: async ({ database, actor, params }) => {
      await removeMember(database, { accountId: params.id, personId: params.person_id }, actor);
      return { id: params.person_id, deleted: true as const };
    },
  }),
];

function personJson({ id, name, email, createdAt }: PersonRecord): z.input<typeof person> {
  return { id, name, email, created_at: iso(createdAt) };
}

function memberJson({ accountId, person, role, createdAt }: MemberRecord): z.input<typeof member> {
  return { account_id: accountId, person: personJson(person), role, created_at: iso(createdAt) };
}
