import { appendAudit } from '../accounts/audit.ts';
import type { Database } from '../database/database.ts';

/** Writes down that somebody has set a new password by a link, which has shown that the address is theirs. */
export async function notePasswordReset({ kysely }: Database, personId: string): Promise<void> {
  await kysely.transaction().execute(async (transaction) => {
    await transaction
      .updateTable('people')
      .set({ email_verified: 1, updated_at: Date.now() })
      .where('id', '=', personId)
      .execute();
    await appendAudit(
      transaction,
      { id: `person:${personId}`, ip: null },
      {
        action: 'person.change_password',
        subject: `person:${personId}`,
        accountId: null,
        detail: { by_link: true },
      },
    );
  });
}

/** Writes down with which provider somebody can sign in from now on. A password is written down where it is set. */
export async function noteCredential(
  { kysely }: Database,
  personId: string,
  provider: string,
): Promise<void> {
  if (provider === 'credential') return;
  await kysely.transaction().execute((transaction) =>
    appendAudit(
      transaction,
      { id: `person:${personId}`, ip: null },
      {
        action: 'person.add_provider',
        subject: `person:${personId}`,
        accountId: null,
        detail: { provider },
      },
    ),
  );
}
