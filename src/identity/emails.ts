/** Emails to users. Plain text, so that links can be checked before they are opened. */

export interface Email {
  to: string;
  subject: string;
  text: string;
}

export function resetEmail({ email, name }: { email: string; name: string }, link: string): Email {
  return {
    to: email,
    subject: 'Reset your Sluice password',
    text: `Hello ${name},

Open this link to set a new password for Sluice:

${link}

The link works once and expires after one hour.

If you did not request a new password, ignore this email. Your password has not changed.
`,
  };
}

export function invitationEmail(
  { email, expires_at: expiresAt }: { email: string; expires_at: number },
  accountName: string,
  link: string,
): Email {
  const until = new Date(expiresAt).toISOString().slice(0, 10);
  return {
    to: email,
    subject: `Join ${accountName} on Sluice`,
    text: `Hello,

You have been invited to join the account ${accountName} on Sluice. Open this link to accept the invitation:

${link}

The link works once and expires on ${until}.

If you did not expect this invitation, ignore this email.
`,
  };
}
