import { z } from 'zod';
import { operations } from './operation.ts';
import { role } from './users.ts';
import { component, deleted, id, name, newEmail, pageOf, pageQuery, time } from './schemas.ts';
import { linkToken, newPassword } from './session.ts';

export const invitation = z.object({
  id: z.string(),
  account_id: z.string(),
  email: z.string(),
  role,
  invited_by: z.string().describe('Who sent the invitation: `user:<id>` or `key:<id>`.'),
  created_at: time,
  expires_at: time,
});

export const invitationOperations = operations({
  listInvitations: {
    route: 'GET /api/invitations',
    summary: 'List pending invitations, oldest first.',
    access: 'owner',
    query: z.strictObject({ account_id: id.optional(), ...pageQuery }),
    response: pageOf('InvitationPage', component('Invitation', invitation)),
  },
  createInvitation: {
    route: 'POST /api/invitations',
    summary:
      'Invite a user to an account. The invitation is valid for 7 days, and replaces any earlier invitation to this account for the same address.',
    access: 'owner',
    status: 201,
    body: component('NewInvitation', z.strictObject({ account_id: id, email: newEmail, role })),
    response: component(
      'CreatedInvitation',
      invitation.extend({
        link: z.string().describe('The invitation link. It is shown only once.'),
        mailed: z.boolean().describe('Whether the link was also sent by email.'),
      }),
    ),
    errors: ['not_found', 'conflict', 'too_many_attempts'],
  },
  getInvitation: {
    route: 'POST /api/invitations/look',
    summary: 'Get an invitation by the token of its link.',
    access: 'open',
    body: component('InvitationToken', z.strictObject({ token: linkToken })),
    response: component(
      'OpenInvitation',
      z.object({
        email: z.string(),
        account_name: z.string(),
        role,
        expires_at: time,
        known: z
          .boolean()
          .describe(
            'Whether the invited user must sign in to accept. Otherwise, they set a name and a password.',
          ),
      }),
    ),
    errors: ['invalid_link', 'too_many_attempts'],
  },
  acceptInvitation: {
    route: 'POST /api/invitations/accept',
    summary: 'Accept an invitation. Creates and signs in the user if they do not exist yet.',
    access: 'open',
    body: component(
      'AcceptInvitation',
      z.strictObject({
        token: linkToken,
        name: name.optional().describe('For a new user.'),
        password: newPassword.optional().describe('For a new user.'),
      }),
    ),
    response: component('Acceptance', z.object({ account_id: z.string() })),
    errors: ['invalid_link', 'sign_in_required', 'conflict', 'too_many_attempts'],
  },
  withdrawInvitation: {
    route: 'DELETE /api/invitations/{id}',
    summary: 'Withdraw an invitation. Its link stops working.',
    access: 'owner',
    response: deleted,
    errors: ['not_found'],
  },
});
