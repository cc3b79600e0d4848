import { z } from 'zod';
import { listAudit, type AuditRecord } from '../../accounts/audit.ts';
import { endpoint, type Endpoint } from './endpoint.ts';
import { component, filterText, id, iso, pageJson, pageOf, pageQuery, time } from './schemas.ts';

const entry = component(
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
export const auditEndpoints: readonly Endpoint[] = [
  endpoint({
    method: 'GET',
    path: '/api/audit',
    operationId: 'listAudit',
    summary: 'List who changed which account, key, plan or person, the newest first.',
    query: z.strictObject({
      account_id: id.optional(),
      actor: filterText.optional(),
      subject: filterText.optional(),
      action: filterText.optional(),
      ...pageQuery,
    }),
    answer: pageOf('AuditPage', entry),
    handle: async ({ database, query }) => {
      const { account_id: accountId, actor, subject, action } = query;
      return pageJson(await listAudit(database, { accountId, actor, subject, action }, query), entryJson);
    },
  }),
];

function entryJson(record: AuditRecord): z.input<typeof entry> {
  const { id, at, actor, ip, action, subject, accountId, detail } = record;
  return { id, at: iso(at), actor, ip, action, subject, account_id: accountId, detail };
}
