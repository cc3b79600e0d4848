import { z } from 'zod';
import { operations } from './operation.ts';
import { component, filterText, id, newestPageQuery, pageOf, time } from './schemas.ts';

/** A change that somebody made. */
export const auditEntry = component(
  'AuditEntry',
  z.object({
    id: z.string(),
    at: time,
    actor: z.string().describe('`key:<id>`, `person:<id>`, `cli:<user name>`, or `service`.'),
    ip: z.string().nullable().describe('Address that the call came from; null: the machine itself.'),
    action: z.string().describe('Such as `key.revoke`.'),
    subject: z.string().describe('Such as `key:key_12…`.'),
    account_id: z.string().nullable(),
    detail: z
      .record(z.string(), z.unknown())
      .describe('What changed; a field that had a value before as `from` and `to`.'),
  }),
);

/** The audit log. */
export const auditOperations = operations({
  listAudit: {
    method: 'GET',
    path: '/api/audit',
    summary: 'List who changed which account, key, plan or person, the newest first.',
    access: 'operator',
    query: z.strictObject({
      account_id: id.optional(),
      actor: filterText.optional(),
      subject: filterText.optional(),
      action: filterText.optional(),
      ...newestPageQuery,
    }),
    answer: pageOf('AuditPage', auditEntry),
  },
});
