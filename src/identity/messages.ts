/** What the service writes to people. Plain text: links can be read before they are followed. */

export interface Message {
  to: string;
  subject: string;
  text: string;
}

/** A link to a new password. */
export function resetMessage({ email, name }: { email: string; name: string }, link: string): Message {
  return {
    to: email,
    subject: 'A new password for Sluice',
    text: [
      `Hello ${name},`,
      '',
      'somebody, probably you, has asked for a new password. This link sets it, once and within an hour:',
      '',
      link,
      '',
      'If it was not you, there is nothing to do: your password stays as it is.',
      '',
    ].join('\n'),
  };
}

/** An invitation to act for an account. */
export function invitationMessage(
  { email, accountName, expiresAt }: { email: string; accountName: string; expiresAt: number },
  link: string,
): Message {
  const until = new Date(expiresAt).toISOString().slice(0, 10);
  return {
    to: email,
    subject: `An invitation to ${accountName} on Sluice`,
    text: [
      'Hello,',
      '',
      `you are invited to act for the account ${accountName}. This link accepts, until ${until}:`,
      '',
      link,
      '',
      'If you expect no invitation, there is nothing to do.',
      '',
    ].join('\n'),
  };
}
