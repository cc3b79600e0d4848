import { z } from 'zod';
import { operations } from './operation.ts';
import { role } from './people.ts';
import { component, deleted, id, name, newEmail, pageOf, pageQuery, time } from './schemas.ts';
import { linkToken, newPassword } from './session.ts';

const invitation = z.object({
  id: z.string(),
  account_id: z.string(),
  email: z.string(),
  role,
  invited_by: z.string().describe('`person:<id>` or `key:<id>`.'),
  created_at: time,
  expires_at: time,
});

/** Invitations to act for an account. */
export const invitationOperations = operations({
  listInvitations: {
    method: 'GET',
    path: '/api/invitations',
    summary: 'List the invitations that nobody has accepted yet, the oldest first.',
    access: 'owner',
    query: z.strictObject({ account_id: id.optional(), ...pageQuery }),
    answer: pageOf('InvitationPage', component('Invitation', invitation)),
  },
  createInvitation: {
    method: 'POST',
    path: '/api/invitations',
    summary:
      'Invite somebody to act for an account, for 7 days. Another one to the same address is void then.',
    access: 'owner',
    status: 201,
    body: component('NewInvitation', z.strictObject({ account_id: id, email: newEmail, role })),
    answer: component(
      'CreatedInvitation',
      invitation.extend({
        link: z.string().describe('The address to hand on. It is shown this once.'),
        mailed: z.boolean().describe('It was also sent to the address.'),
      }),
    ),
    errors: ['not_found', 'conflict', 'too_many_attempts'],
  },
  lookAtInvitation: {
    method: 'POST',
    path: '/api/invitations/look',
    summary: 'Say what an invitation is to, by the token of its link.',
    access: 'open',
    body: component('InvitationToken', z.strictObject({ token: linkToken })),
    answer: component(
      'OpenInvitation',
      z.object({
        email: z.string(),
        account_name: z.string(),
        role,
        expires_at: time,
        known: z.boolean().describe('Somebody has the address: they sign in before they accept.'),
      }),
    ),
    errors: ['invalid_link', 'too_many_attempts'],
  },
  acceptInvitation: {
    method: 'POST',
    path: '/api/invitations/accept',
    summary: 'Accept an invitation. Who is not known yet is made a person by it, and signed in.',
    access: 'open',
    body: component(
      'AcceptedInvitation',
      z.strictObject({
        token: linkToken,
        name: name.optional().describe('Of a new person.'),
        password: newPassword.optional().describe('Of a new person.'),
      }),
    ),
    answer: component('Acceptance', z.object({ account_id: z.string() })),
    errors: ['invalid_link', 'sign_in_required', 'too_many_attempts'],
  },
  withdrawInvitation: {
    method: 'DELETE',
    path: '/api/invitations/{id}',
    summary: 'Withdraw an invitation: its link opens nothing any more.',
    access: 'owner',
    answer: deleted,
    errors: ['not_found'],
  },
});
