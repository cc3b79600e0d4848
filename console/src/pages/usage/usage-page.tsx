import { ChartColumn, Download, FileSpreadsheet } from 'lucide-react';
import { useState } from 'react';
import { orToast } from '../../api/act.ts';
import { callAll, type ItemOf } from '../../api/client.ts';
import { useRead } from '../../api/queries.ts';
import { Badge } from '../../components/badge.tsx';
import { Button } from '../../components/button.tsx';
import { Card } from '../../components/card.tsx';
import { Segmented, Switch } from '../../components/choices.tsx';
import { dayAt, daysText, useHour, useToday } from '../../components/date-range-days.ts';
import { DateRange } from '../../components/date-range.tsx';
import { LimitMeter } from '../../components/limit-meter.tsx';
import { TextLink } from '../../components/link.tsx';
import { Menu, MenuItem } from '../../components/menu.tsx';
import { NoAccount } from '../../components/no-account.tsx';
import { Page } from '../../components/page.tsx';
import { saveFile } from '../../components/save-file.ts';
import { ScopeSwitch } from '../../components/scope-switch.tsx';
import { Loaded, Skeleton } from '../../components/states.tsx';
import { DataAge } from '../../components/updated-at.tsx';
import { counted } from '../../format/number.ts';
import { notify } from '../../notify.ts';
import { KeyFilter, ModelFilter } from '../../requests/filter-selects.tsx';
import { requestsPath } from '../../requests/filters.ts';
import { NoRequests } from '../../requests/no-requests.tsx';
import { scopeInQuery, useScope, type Scope } from '../../state/account.ts';
import { useQueryState } from '../../state/url-query.ts';
import { endOf, type Sums } from './buckets.ts';
import { csvOf } from './csv.ts';
import { Figures } from './figures.tsx';
import { rangeLabel, selectionOf, splitLabel, splitsOf, type Selection } from './selection.ts';
import { UsageCharts } from './usage-charts.tsx';
import { usageQuery, useParts, useSaved, useUsage } from './use-usage.ts';

export default function UsagePage() {
  const scope = useScope();
  const [query, change] = useQueryState();
  const selection = selectionOf(query, useToday(), scope.all);
  if (scope.account === null && !scope.all) return <NoAccount title="Usage" icon={ChartColumn} />;
  return (
    <Page
      title="Usage"
      hint={
        <>
          Tokens, requests, cost and performance. Days are in UTC. The cost of each key, member and model is
          on <TextLink to="/spend">Spend</TextLink>.
        </>
      }
      actions={
        <>
          <DataAge operations={['readUsage']} />
          <ScopeSwitch />
          <DateRange
            text={rangeLabel(selection)}
            range={selection.range}
            days={selection.days}
            onRange={(range) => change({ range, from: null, to: null })}
            onDays={({ from, to }) => change({ range: null, from, to })}
          />
          <ExportMenu scope={scope} selection={selection} />
        </>
      }
    >
      <div className="mb-4 flex flex-wrap items-center gap-x-3 gap-y-2">
        <ModelFilter scope={scope} value={selection.model} onChange={(model) => change({ model })} />
        <KeyFilter scope={scope} value={selection.key} onChange={(key) => change({ key })} />
      </div>
      <Usage scope={scope} selection={selection} />
    </Page>
  );
}

function ChartOptions({ scope, selection }: { scope: Scope; selection: Selection }) {
  const [, change] = useQueryState();
  return (
    <div className="flex flex-wrap items-center gap-x-3 gap-y-2">
      <div className="flex items-center gap-2">
        <span className="text-xs text-ink-3">Group by</span>
        <Segmented
          label="Group by"
          value={selection.split}
          choices={splitsOf(scope.all).map((value) => ({
            value,
            label: splitLabel(value),
          }))}
          onChange={(split) => change({ split: split === 'none' ? null : split })}
        />
      </div>
      <div className="sm:ml-auto">
        <Switch checked={selection.compare} onChange={(on) => change({ compare: on ? '1' : null })}>
          Compare to previous period
        </Switch>
      </div>
    </div>
  );
}

function Usage({ scope, selection }: { scope: Scope; selection: Selection }) {
  const hour = useHour();
  const usage = useUsage(scope, selection, hour);
  const parts = useParts(scope, selection, usage.times);
  const models = useParts(scope, { ...selection, split: 'model' }, usage.times);
  const { unit, model, key } = selection;
  const { over, overBefore, times } = usage;
  const momentOf = (seconds: number) => {
    const ms = seconds * 1000;
    return unit === 'day' ? dayAt(ms) : `${new Date(ms).toISOString().slice(0, 19)}Z`;
  };
  const saved = useSaved(scope, selection);
  const all = usage.all.data;
  const figures = (sums: Sums | undefined) => (
    <Figures
      now={sums}
      before={usage.allBefore}
      beforeText={`${daysText(selection.before)}${usage.isRunning ? ', until the same hour' : ''}`}
      savedUsd={saved}
    >
      <RefusedLink scope={scope} keyId={key} />
    </Figures>
  );
  return (
    <div
      className={`space-y-4 transition-opacity ${usage.isStale ? 'opacity-60' : ''}`}
      aria-busy={usage.isStale || (all === undefined && usage.all.error === null)}
    >
      <Loaded card query={usage.all} loading={figures(undefined)}>
        {figures}
      </Loaded>
      {scope.account !== null && <LimitsCard accountId={scope.account.id} selection={selection} />}
      {all?.requests === 0 ? (
        <Card>
          <NoRequests icon={ChartColumn} title="No requests in this period">
            Usage appears here within a minute after a request finishes.
          </NoRequests>
        </Card>
      ) : (
        <>
          <ChartOptions scope={scope} selection={selection} />
          <UsageCharts
            {...{ selection, times, over, parts, models }}
            before={overBefore}
            linkOf={(index) => {
              const time = times[index] ?? 0;
              const hours = { from: momentOf(time), to: momentOf(endOf(time, unit)) };
              return requestsPath({ model, key, ...hours }, scopeInQuery(scope));
            }}
          />
        </>
      )}
    </div>
  );
}

/** How many requests were refused, which the ledger and the figures do not have. */
function RefusedLink({ scope, keyId }: { scope: Scope; keyId: string | null }) {
  const ofKey = keyId === null ? {} : { key_id: keyId };
  const refused = useRead('listRefusals', { query: { ...scope.query, ...ofKey, hours: 168 } });
  const count = refused.data?.data.reduce((sum, one) => sum + one.count, 0) ?? 0;
  if (count === 0) return null;
  return (
    <TextLink to={requestsPath({ status: 'refused', key: keyId }, scopeInQuery(scope))}>
      {counted(count, 'request')} refused in the last 7 days
    </TextLink>
  );
}

const EVERY_MS = 5000;

function LimitsCard({ accountId, selection: { key, model } }: { accountId: string; selection: Selection }) {
  const query = {
    account_id: accountId,
    ...(key !== null && { key_id: key }),
    ...(model !== null && { model }),
  };
  const account = useRead('getAccount', { params: { id: accountId } });
  const limits = useRead('readLimits', { query }, { everyMs: EVERY_MS, keep: true });
  return (
    <Card
      title="Limits"
      hint={
        account.data
          ? `Current usage, including running requests. ${account.data.plan === null ? 'Default plan' : `Plan: ${account.data.plan}`}.`
          : 'Current usage, including running requests.'
      }
    >
      <Loaded
        query={limits}
        loading={<Skeleton className="h-34 w-full" />}
        empty={
          <p className="text-sm text-ink-3">
            {model === null
              ? 'The plan of this account has no overall limits.'
              : 'The plan of this account has no limits for this model.'}
          </p>
        }
      >
        {({ data }) => (
          <ul className="grid gap-x-8 gap-y-5 sm:grid-cols-2 lg:grid-cols-3">
            {data.map((limitStatus) => (
              <li key={`${limitStatus.scope} ${limitStatus.model ?? ''} ${limitStatus.limit}`}>
                <LimitMeter limitStatus={limitStatus} scope={<AppliesTo limitStatus={limitStatus} />} />
              </li>
            ))}
          </ul>
        )}
      </Loaded>
    </Card>
  );
}

/** The scope of a limit, unless it applies to all requests of the account. */
function AppliesTo({ limitStatus: { scope, model } }: { limitStatus: ItemOf<'readLimits'> }) {
  if (scope === 'account' && model === null) return null;
  return (
    <span className="flex w-full items-center gap-2">
      {scope === 'key' && <Badge>This key</Badge>}
      {model !== null && <span className="truncate">{model}</span>}
    </span>
  );
}

/** Downloads usage as CSV, as shown or by day, model and key. */
function ExportMenu({ scope, selection }: { scope: Scope; selection: Selection }) {
  const { unit, split, days } = selection;
  const [busy, setBusy] = useState(false);
  const save = async (by: Parameters<typeof csvOf>[0]) => {
    const query = { ...usageQuery(scope, selection, days), by: by.join(',') };
    setBusy(true);
    await orToast(
      callAll('readUsage', { query }).then((rows) => {
        saveFile(`usage-${days.from}-${days.to}-by-${by.join('-')}.csv`, csvOf(by, rows), 'text/csv');
        notify.success('CSV file downloaded');
      }),
    );
    setBusy(false);
  };
  const shown = split === 'none' ? [unit] : [unit, split];
  return (
    <Menu
      trigger={
        <Button icon={<Download />} busy={busy}>
          Export CSV
        </Button>
      }
    >
      <MenuItem icon={<FileSpreadsheet />} onClick={() => void save(shown)}>
        By {unit}
        {split !== 'none' && ` and ${splitLabel(split).toLowerCase()}`} (as shown)
      </MenuItem>
      <MenuItem
        icon={<FileSpreadsheet />}
        onClick={() => void save(scope.all ? ['day', 'account', 'model', 'key'] : ['day', 'model', 'key'])}
      >
        By day, {scope.all && 'account, '}model and key
      </MenuItem>
    </Menu>
  );
}
