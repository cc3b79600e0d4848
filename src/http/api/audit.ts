import type { z } from 'zod';
import { listAudit, type AuditRecord } from '../../accounts/audit.ts';
import { auditOperations, type auditEntry } from './contract/audit.ts';
import { endpoints } from './endpoint.ts';
import { iso, pageJson } from './json.ts';

export const auditEndpoints = endpoints(auditOperations, {
  listAudit: async ({ database, query }) => {
    const { account_id: accountId, actor, subject, action } = query;
    return pageJson(await listAudit(database, { accountId, actor, subject, action }, query), entryJson);
  },
});

function entryJson(record: AuditRecord): z.input<typeof auditEntry> {
  const { id, at, actor, ip, action, subject, accountId, detail } = record;
  return { id, at: iso(at), actor, ip, action, subject, account_id: accountId, detail };
}
