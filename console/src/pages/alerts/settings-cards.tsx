import { Ellipsis } from 'lucide-react';
import { Badge } from '../../components/badge.tsx';
import { IconButton } from '../../components/button.tsx';
import { Card } from '../../components/card.tsx';
import { CodeText } from '../../components/code-text.tsx';
import { DetailList } from '../../components/detail-list.tsx';
import { Time } from '../../components/time.tsx';
import { bytes, counted, percent, whole } from '../../format/number.ts';
import { duration } from '../../format/time.ts';
import { typeLabel, type Settings } from './alert-texts.ts';
import { SilenceMenu } from './silence-menu.tsx';

const IN_FILE = 'Set in the configuration file, under `alerts`';

/** What is reported, to whom, and from which thresholds on. */
export function SettingsCards({ settings }: { settings: Settings }) {
  const { channels, types, thresholds } = settings;
  return (
    <>
      <div className="grid items-start gap-4 lg:grid-cols-2">
        <Card title="Channels" hint={<CodeText text={IN_FILE} />}>
          {channels.length === 0 ? (
            <p className="text-sm text-ink-3">None. Alerts are only listed on this page.</p>
          ) : (
            <DetailList
              details={channels.map(({ id, target }) => {
                const [kind = '', ...name] = id.split(':');
                return {
                  label: kind === 'email' ? 'Email' : `Webhook ${name.join(':')}`,
                  value: <span className="break-all">{target}</span>,
                };
              })}
            />
          )}
        </Card>
        <Card title="Thresholds" hint={<CodeText text={IN_FILE} />}>
          <DetailList
            details={[
              {
                label: 'Error rate',
                value: `${percent(thresholds.error_share)} of ${counted(thresholds.error_min_requests, 'request')} or more in ${period(thresholds.error_window_ms)}`,
              },
              { label: 'Replica down for', value: period(thresholds.replica_down_ms) },
              { label: 'Free disk space below', value: bytes(thresholds.disk_free_bytes) },
              { label: 'Key expires within', value: counted(thresholds.key_expiry_days, 'day') },
              { label: 'Alerts kept for', value: `${whole(thresholds.keep_days)} days` },
            ]}
          />
        </Card>
      </div>
      <Card flush title="Types" hint="What is reported">
        <ul className="divide-y divide-line border-t border-line">
          {types.map((type) => (
            <TypeRow key={type.type} type={type} />
          ))}
        </ul>
      </Card>
    </>
  );
}

/** Formats a setting in milliseconds. */
function period(ms: number): string {
  return ms % 60_000 === 0 ? counted(ms / 60_000, 'minute') : duration(ms);
}

function TypeRow({ type }: { type: Settings['types'][number] }) {
  const name = typeLabel(type.type);
  return (
    <li className="flex items-start gap-3 px-4 py-3 sm:px-5">
      <div className="min-w-0 grow">
        <h3 className="text-sm font-medium">{name}</h3>
        <p className="mt-0.5 text-xs leading-5 text-ink-3">
          <CodeText text={type.description} />
        </p>
      </div>
      <div className="flex shrink-0 items-center gap-1">
        <TypeState type={type} />
        {type.enabled ? (
          <SilenceMenu
            target={{ type: type.type }}
            name={name}
            silencedUntil={type.silenced_until}
            trigger={
              <IconButton label={`Silence ${name}`}>
                <Ellipsis />
              </IconButton>
            }
          />
        ) : (
          <span className="size-8" />
        )}
      </div>
    </li>
  );
}

function TypeState({ type: { enabled, silenced_until: until } }: { type: Settings['types'][number] }) {
  if (!enabled) return <Badge>Off</Badge>;
  if (until === null) return <Badge tone="good">On</Badge>;
  return (
    <span className="text-right">
      <Badge tone="warn">Silenced</Badge>
      <span className="block text-2xs text-ink-3">
        until <Time at={until} />
      </span>
    </span>
  );
}
