import type { z } from 'zod';
import { setOperator } from '../../accounts/operators.ts';
import {
  createPerson,
  deletePerson,
  getPerson,
  listMembers,
  listPeople,
  removeMember,
  setMember,
  type MemberRecord,
  type PersonRecord,
} from '../../accounts/people.ts';
import { peopleOperations, type member, type person } from './contract/people.ts';
import { accountInPath, endpoints } from './endpoint.ts';
import { iso, pageJson } from './json.ts';

export const peopleEndpoints = endpoints(peopleOperations, {
  listPeople: async ({ database, query }) => pageJson(await listPeople(database, query), personJson),
  createPerson: async ({ database, actor, body }) => personJson(await createPerson(database, body, actor)),
  changePerson: async ({ database, actor, params, body }) => {
    await setOperator(database, params.id, body.operator, actor);
    return personJson(await getPerson(database, params.id));
  },
  deletePerson: async ({ database, actor, params }) => {
    await deletePerson(database, params.id, actor);
    return { id: params.id, deleted: true as const };
  },
  listMembers: {
    account: accountInPath,
    handle: async ({ database, params, query }) =>
      pageJson(await listMembers(database, params.id, query), memberJson),
  },
  setMember: {
    account: accountInPath,
    handle: async ({ database, principal, actor, params, body }) => {
      const member = { accountId: params.id, personId: params.person_id, role: body.role };
      // Only operators may add users directly. Owners invite users, who can decline.
      return memberJson(await setMember(database, { ...member, mayAdd: principal.operator }, actor));
    },
  },
  removeMember: {
    account: accountInPath,
    handle: async ({ database, actor, params }) => {
      await removeMember(database, { accountId: params.id, personId: params.person_id }, actor);
      return { id: params.person_id, deleted: true as const };
    },
  },
});

export function personJson(record: PersonRecord): z.input<typeof person> {
  const { id, name, email, operator, twoFactor, createdAt } = record;
  return { id, name, email, operator, two_factor: twoFactor, created_at: iso(createdAt) };
}

function memberJson({ accountId, person, role, createdAt }: MemberRecord): z.input<typeof member> {
  return { account_id: accountId, person: personJson(person), role, created_at: iso(createdAt) };
}
