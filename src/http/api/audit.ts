import { listAudit } from '../../accounts/audit.ts';
import { namesOfReferences } from '../../accounts/names.ts';
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
    const page = await listAudit(database, { accountId, actor, subject, action, ...time }, query);
    const names = await namesOfReferences(
      database,
      page.items.flatMap((row) => [row.actor, row.subject, `account:${row.account_id}`]),
    );
    return pageJson(page, (row) => ({
      ...auditJson(row),
      actor_name: names.get(row.actor) ?? null,
      subject_name: names.get(row.subject) ?? null,
      account_name: names.get(`account:${row.account_id}`) ?? null,
    }));
  },
});
