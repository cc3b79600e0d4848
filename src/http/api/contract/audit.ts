import { z } from 'zod';
import { operations } from './operation.ts';
import { component, filterText, id, newestPageQuery, pageOf, time, timeQuery } from './schemas.ts';

export const auditEntry = component(
  'AuditEntry',
  z.object({
    id: z.string(),
    at: time,
    actor: z
      .string()
      .describe(
        '`key:<id>`, `user:<id>`, `cli:<user name>`, `service`, or `visitor` for a caller who is not signed in.',
      ),
    ip: z.string().nullable().describe('IP address of the caller; null: a command or the service itself.'),
    action: z.string().describe('Type of change, such as `key.revoke`.'),
    subject: z.string().describe('Changed object, such as `key:key_12…`.'),
    account_id: z.string().nullable(),
    actor_name: z.string().nullable().describe('Name of the actor, if it is a key or a user that exists.'),
    subject_name: z
      .string()
      .nullable()
      .describe('Name of the subject, if it is a key, a user or an account that exists.'),
    account_name: z.string().nullable(),
    detail: z
      .record(z.string(), z.unknown())
      .describe('Changed fields. A field that had a value before has `from` and `to`.'),
  }),
);

export const auditOperations = operations({
  listAudit: {
    route: 'GET /api/audit',
    summary: 'List the entries of the audit log, newest first.',
    access: 'operator',
    query: z.strictObject({
      account_id: id.optional(),
      actor: filterText.optional(),
      subject: filterText.optional(),
      action: filterText.optional(),
      ...timeQuery('entries'),
      ...newestPageQuery,
    }),
    response: pageOf('AuditPage', auditEntry),
  },
});
