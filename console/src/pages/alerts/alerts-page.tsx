import { BellRing, Send } from 'lucide-react';
import { useList, useRead } from '../../api/queries.ts';
import { act } from '../../api/act.ts';
import type { ResponseOf } from '../../api/client.ts';
import { Badge } from '../../components/badge.tsx';
import { Dialog } from '../../components/dialog.tsx';
import { openOverlay } from '../../components/overlays.tsx';
import { duration } from '../../format/time.ts';
import { Button, ButtonLink } from '../../components/button.tsx';
import { Card } from '../../components/card.tsx';
import { CodeText } from '../../components/code-text.tsx';
import { Loaded } from '../../components/loaded.tsx';
import { Page } from '../../components/page.tsx';
import { EmptyState, Notice } from '../../components/states.tsx';
import { ListFooter } from '../../components/table.tsx';
import { DataAge } from '../../components/updated-at.tsx';
import { useQueryState } from '../../state/url-query.ts';
import { AlertDialog } from './alert-dialog.tsx';
import { AlertsTable } from './alerts-table.tsx';
import { SettingsCards } from './settings-cards.tsx';

const PAGE = 50;
const EVERY_MS = 10_000;

/** Alerts of all instances, and where they are sent. */
export default function AlertsPage() {
  const settings = useRead('readAlertSettings', undefined, { everyMs: EVERY_MS });
  const noChannels = settings.data?.channels.length === 0;
  return (
    <Page
      title="Alerts"
      hint="What needs attention. Alerts are also sent by email and webhook."
      actions={
        <Button
          icon={<Send className="size-4" aria-hidden="true" />}
          disabled={settings.data === undefined || noChannels}
          onClick={sendTest}
        >
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
          <AlertsTable alerts={loaded} openId={openId} onOpen={({ id }) => change({ alert: id })} />
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

/** Sends a test message to each channel, and shows the results. */
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
          <li key={channel} className="px-4 py-3">
            <div className="flex items-start justify-between gap-3">
              <span className="min-w-0 break-all">{channel}</span>
              <Badge tone={error === null ? 'good' : 'bad'}>{error === null ? 'Sent' : 'Not sent'}</Badge>
            </div>
            <p className="mt-0.5 text-xs break-all text-ink-3">
              {target}, {duration(ms)}
            </p>
            {error !== null && <p className="mt-1 text-xs break-words text-bad">{error}</p>}
          </li>
        ))}
      </ul>
    </Dialog>
  );
}
