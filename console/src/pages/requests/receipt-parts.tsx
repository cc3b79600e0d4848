import type { ReactNode } from 'react';
import type { ResponseOf } from '../../api/client.ts';
import { CopyButton } from '../../components/copy.tsx';
import { Meter } from '../../components/meter.tsx';
import { limitAmount, limitLabel } from '../../format/limits.ts';
import { exactMoneyColumn } from '../../format/money.ts';
import { whole } from '../../format/number.ts';
import type { Request } from './outcome.tsx';

type Receipt = ResponseOf<'getReceipt'>;

/** A section of a receipt. */
export function Part({ title, aside, children }: { title: string; aside?: ReactNode; children: ReactNode }) {
  return (
    <section>
      <div className="mb-2 flex items-baseline justify-between gap-3">
        <h3 className="text-sm font-semibold">{title}</h3>
        {aside !== undefined && <span className="text-xs text-ink-3">{aside}</span>}
      </div>
      {children}
    </section>
  );
}

const WHAT = {
  prompt: 'Prompt',
  input_cache_read: 'Prompt (cached)',
  completion: 'Completion',
  waived: 'Waived due to error',
} as const;

/** The cost breakdown, as computed by the service. */
export function CostLines({ request, cost }: { request: Request; cost: Receipt['cost'] }) {
  if (cost.length === 0) {
    return (
      <Part title="Cost">
        <p className="text-sm text-ink-3">Available when the request has finished</p>
      </Part>
    );
  }
  const isCacheSeparate = cost.some(({ what }) => what === 'input_cache_read');
  const amount = exactMoneyColumn([...cost.map(({ usd }) => usd), request.cost_usd]);
  const price = exactMoneyColumn(cost.map(({ usd_per_million }) => usd_per_million));
  const cell = 'py-2 pl-3 text-right tabular-nums first:pl-0 first:text-left';
  return (
    <Part title="Cost">
      <table className="w-full text-sm">
        <caption className="sr-only">Cost breakdown</caption>
        <thead>
          <tr className="border-b border-line text-xs text-ink-3">
            {['Item', 'Tokens', 'USD per million', 'USD'].map((heading) => (
              <th key={heading} scope="col" className={`${cell} font-medium`}>
                {heading}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {cost.map((line) => (
            <tr key={line.what} className="border-b border-line">
              <th scope="row" className={`${cell} font-normal`}>
                {isCacheSeparate && line.what === 'prompt' ? 'Prompt (uncached)' : WHAT[line.what]}
              </th>
              <td className={cell}>{whole(line.tokens)}</td>
              <td className={cell}>{line.what === 'waived' ? '' : price(line.usd_per_million)}</td>
              <td className={cell}>{amount(line.usd)}</td>
            </tr>
          ))}
        </tbody>
        <tfoot>
          <tr className="font-medium">
            <th scope="row" colSpan={3} className={`${cell} font-medium`}>
              Total
            </th>
            <td className={cell}>{amount(request.cost_usd)}</td>
          </tr>
        </tfoot>
      </table>
    </Part>
  );
}

/** The limits that applied to a request, and how much of each remained. */
export function AppliedLimits({ plan, limits }: { plan: string; limits: Receipt['limits'] }) {
  return (
    <Part title="Limits applied" aside={`Plan: ${plan}`}>
      {limits.length === 0 ? (
        <p className="text-sm text-ink-3">None. The plan has no limits.</p>
      ) : (
        <ul className="space-y-3">
          {limits.map(({ scope, model, limit, bound, left }) => (
            <li key={`${scope} ${model ?? ''} ${limit}`}>
              <Meter
                label={[limitLabel(limit), scope === 'key' && 'key limit', model && `for ${model}`]
                  .filter(Boolean)
                  .join(', ')}
                used={Number(bound) - Number(left)}
                bound={Number(bound)}
                text={`${limitAmount(limit, left)} of ${limitAmount(limit, bound)} left`}
              />
            </li>
          ))}
        </ul>
      )}
    </Part>
  );
}

/** The ids of a request. */
export function Ids({ request }: { request: Request }) {
  return (
    <Part title="IDs">
      <dl className="divide-y divide-line text-sm">
        <Id label="Request ID" what="request ID" id={request.id} />
        {request.client_request_id !== null && (
          <Id label="Client request ID" what="client request ID" id={request.client_request_id} />
        )}
      </dl>
    </Part>
  );
}

function Id({ label, what, id }: { label: string; what: string; id: string }) {
  return (
    <div className="flex items-center justify-between gap-4 py-1">
      <dt className="shrink-0 text-ink-3">{label}</dt>
      <dd className="flex min-w-0 items-center gap-1">
        <code className="min-w-0 font-mono text-xs break-all">{id}</code>
        <CopyButton text={id} what={what} />
      </dd>
    </div>
  );
}
