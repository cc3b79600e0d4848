import { BellOff, BellRing, Send } from 'lucide-react';
import type { ReactNode } from 'react';
import { act } from '../../api/act.ts';
import type { ResponseOf } from '../../api/client.ts';
import { useList, useRead } from '../../api/queries.ts';
import { Badge } from '../../components/badge.tsx';
import { Button, ButtonLink } from '../../components/button.tsx';
import { Card } from '../../components/card.tsx';
import { CodeText } from '../../components/code-text.tsx';
import { DetailList, Mono } from '../../components/detail-list.tsx';
import { Dialog } from '../../components/dialog.tsx';
import { openOverlay } from '../../components/overlays.tsx';
import { Page } from '../../components/page.tsx';
import { EmptyState, Loaded, Notice } from '../../components/states.tsx';
import { ListFooter, Table, type Column } from '../../components/table.tsx';
import { Time } from '../../components/time.tsx';
import { DataAge } from '../../components/updated-at.tsx';
import { counted } from '../../format/number.ts';
import { duration } from '../../format/time.ts';
import { useQueryState } from '../../state/url-query.ts';
import { deliveryOf, messageState, stateOf, typeLabel, type Alert, type Word } from './alert-texts.ts';
import { SettingsCards } from './settings-cards.tsx';
import { SilenceMenu } from './silence-menu.tsx';

const PAGE = 50;
const EVERY_MS = 10_000;

export default function AlertsPage() {
  const settings = useRead('readAlertSettings', undefined, { everyMs: EVERY_MS });
  const noChannels = settings.data?.channels.length === 0;
  return (
    <Page
      title="Alerts"
      hint="What needs attention. Alerts are also sent by email and webhook."
      actions={
        <Button icon={<Send />} disabled={settings.data === undefined || noChannels} onClick={sendTest}>
          Send test
        </Button>
      }
    >
      <div className="space-y-4">
        {noChannels && (
          <Notice
            tone="warn"
            title="Alerts are not sent"
            action={
              <ButtonLink size="small" to="/docs/guide/alerts">
                Read the guide
              </ButtonLink>
            }
          >
            <CodeText text="Set `alerts.email` or `alerts.webhooks` in the configuration file and restart the service." />
          </Notice>
        )}
        <Card flush>
          <AlertList />
        </Card>
        <Loaded card query={settings}>
          {(loaded) => <SettingsCards settings={loaded} />}
        </Loaded>
      </div>
    </Page>
  );
}

function AlertList() {
  const [query, change] = useQueryState();
  const alerts = useList('listAlerts', { query: { limit: PAGE } }, { everyMs: EVERY_MS });
  const openId = query.get('alert');
  const onOpen = ({ id }: Alert) => change({ alert: id });
  const none = (
    <EmptyState icon={BellRing} title="No alerts yet">
      Alerts appear here when a budget is nearly used up, requests fail, a replica is down, or something else
      needs attention.
    </EmptyState>
  );
  return (
    <Loaded query={alerts} empty={none}>
      {(loaded) => (
        <>
          <div className="flex justify-end border-b border-line px-4 py-1 sm:px-5">
            <DataAge operations={['listAlerts']} />
          </div>
          <Table
            label="Alerts"
            columns={alertColumns(onOpen)}
            rows={loaded}
            keyOf={({ id }) => id}
            onOpen={onOpen}
            isOpen={({ id }) => id === openId}
          />
          <ListFooter shown={loaded.length} what={loaded.length === 1 ? 'alert' : 'alerts'} rest={alerts} />
          <AlertDialog
            alert={loaded.find(({ id }) => id === openId) ?? null}
            onClose={() => change({ alert: null })}
          />
        </>
      )}
    </Loaded>
  );
}

async function sendTest(): Promise<void> {
  const { data } = await act('testAlerts', undefined);
  void openOverlay((close) => <TestResults results={data} onClose={() => close()} />);
}

function TestResults({
  results,
  onClose,
}: {
  results: ResponseOf<'testAlerts'>['data'];
  onClose: () => void;
}) {
  const failed = results.filter(({ error }) => error !== null).length;
  return (
    <Dialog
      open
      onClose={onClose}
      size="medium"
      title={failed === 0 ? 'All test messages were sent' : 'Some test messages were not sent'}
      hint={failed === 0 ? 'Check that they arrived.' : 'Check the settings of the channels that failed.'}
      actions={<Button onClick={onClose}>Done</Button>}
    >
      <ul className="divide-y divide-line rounded-lg border border-line text-sm">
        {results.map(({ channel, target, error, duration_ms: ms }) => (
          <Message
            key={channel}
            channel={channel}
            state={error === null ? { tone: 'good', word: 'Sent' } : { tone: 'bad', word: 'Not sent' }}
            error={error}
          >
            {target}, {duration(ms)}
          </Message>
        ))}
      </ul>
    </Dialog>
  );
}

function alertColumns(onOpen: (alert: Alert) => void): Column<Alert>[] {
  return [
    {
      name: 'alert',
      heading: 'Alert',
      grow: true,
      cell: (alert) => (
        <>
          <button
            type="button"
            className="block w-full text-left hover:underline max-sm:line-clamp-2 sm:truncate"
            onClick={() => onOpen(alert)}
          >
            {alert.title}
          </button>
          <span className="block truncate text-xs text-ink-3">
            {typeLabel(alert.type)}
            <span className="md:hidden">
              , <Time at={alert.fired_at} />
            </span>
          </span>
        </>
      ),
    },
    { name: 'state', heading: 'State', cell: (alert) => <State alert={alert} /> },
    {
      name: 'delivery',
      heading: 'Messages',
      from: 'sm',
      cell: (alert) => {
        const { tone, word } = deliveryOf(alert);
        return <Badge tone={tone}>{word}</Badge>;
      },
    },
    {
      name: 'fired',
      heading: 'Fired',
      numeric: true,
      from: 'md',
      cell: ({ fired_at: at }) => <Time at={at} />,
    },
    {
      name: 'resolved',
      heading: 'Resolved',
      numeric: true,
      from: 'lg',
      cell: ({ resolved_at: at }) => <Time at={at} never="—" />,
    },
  ];
}

function State({ alert }: { alert: Alert }) {
  const { tone, word } = stateOf(alert);
  return (
    <span className="inline-flex items-center gap-1.5">
      <Badge tone={tone}>{word}</Badge>
      {alert.silenced_until !== null && (
        <span title="Silenced">
          <BellOff className="size-3.5 text-ink-3" />
          <span className="sr-only">Silenced</span>
        </span>
      )}
    </span>
  );
}

interface AlertDialogProps {
  /** Null: closed. */
  alert: Alert | null;
  onClose: () => void;
}

function AlertDialog({ alert, onClose }: AlertDialogProps) {
  return (
    <Dialog
      side
      open={alert !== null}
      onClose={onClose}
      title={alert?.title ?? ''}
      hint={alert === null ? undefined : typeLabel(alert.type)}
      actions={
        alert && (
          <SilenceMenu
            target={{ alert_id: alert.id }}
            name="this alert"
            silencedUntil={alert.silenced_until}
            trigger={<Button icon={<BellOff />}>Silence</Button>}
          />
        )
      }
    >
      {alert && <Details alert={alert} />}
    </Dialog>
  );
}

function Details({ alert }: { alert: Alert }) {
  const { tone, word } = stateOf(alert);
  return (
    <div className="space-y-6">
      <p className="text-sm text-ink-2">
        <CodeText text={alert.text} />
      </p>
      <DetailList
        details={[
          { label: 'State', value: <Badge tone={tone}>{word}</Badge> },
          { label: 'Severity', value: alert.severity === 'critical' ? 'Critical' : 'Warning' },
          { label: 'Fired', value: <Time at={alert.fired_at} /> },
          { label: 'Resolved', value: <Time at={alert.resolved_at} never="—" /> },
          alert.silenced_until !== null && {
            label: 'Silenced until',
            value: <Time at={alert.silenced_until} />,
          },
          { label: 'Condition', value: <Mono>{alert.condition}</Mono> },
          { label: 'Alert ID', value: <Mono>{alert.id}</Mono> },
        ]}
      />
      <Messages messages={alert.messages} />
    </div>
  );
}

function Messages({ messages }: { messages: Alert['messages'] }) {
  if (messages.length === 0) {
    return <p className="text-sm text-ink-3">Nothing was sent, because no channel was configured.</p>;
  }
  return (
    <section>
      <h3 className="mb-2 text-xs font-medium text-ink-3">Messages</h3>
      <ul className="divide-y divide-line rounded-lg border border-line text-sm">
        {messages.map((message) => {
          const { channel, event, attempts, sent_at: sentAt, error } = message;
          return (
            <Message
              key={`${event} ${channel}`}
              channel={channel}
              state={messageState(message)}
              error={error}
            >
              {event === 'firing' ? 'Firing' : 'Resolved'}
              {attempts > 0 && `, ${counted(attempts, 'attempt')}`}
              {sentAt !== null && (
                <>
                  , <Time at={sentAt} />
                </>
              )}
            </Message>
          );
        })}
      </ul>
    </section>
  );
}

interface MessageProps {
  channel: string;
  state: Word;
  error: string | null;
  children: ReactNode;
}

function Message({ channel, state: { tone, word }, error, children }: MessageProps) {
  return (
    <li className="px-4 py-3">
      <div className="flex items-start justify-between gap-3">
        <span className="min-w-0 break-all">{channel}</span>
        <Badge tone={tone}>{word}</Badge>
      </div>
      <p className="mt-0.5 text-xs break-all text-ink-3">{children}</p>
      {error !== null && <p className="mt-1 text-xs break-words text-bad">{error}</p>}
    </li>
  );
}
