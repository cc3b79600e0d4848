import { listAudit } from '../../accounts/audit.ts';
import { auditOperations } from './contract/audit.ts';
import { endpoints } from './endpoint.ts';
import { auditJson, pageJson } from './json.ts';

export const auditEndpoints = endpoints(auditOperations, {
  listAudit: async ({ database, query }) => {
    const { account_id: accountId, actor, subject, action, from, to } = query;
    const time = {
      fromMs: from === undefined ? undefined : Date.parse(from),
      toMs: to === undefined ? undefined : Date.parse(to),
    };
    return pageJson(
      await listAudit(database, { accountId, actor, subject, action, ...time }, query),
      auditJson,
    );
  },
});
