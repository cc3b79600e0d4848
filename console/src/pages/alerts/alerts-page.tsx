import { BellRing, Send } from 'lucide-react';
import { useAction, useList, useRead } from '../../api/queries.ts';
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
import { TestDialog } from './test-dialog.tsx';

const PAGE = 50;
const EVERY_MS = 10_000;

/** Alerts of all instances, and where they are sent. */
export default function AlertsPage() {
  const settings = useRead('readAlertSettings', undefined, { everyMs: EVERY_MS });
  const test = useAction('testAlerts');
  const noChannels = settings.data?.channels.length === 0;
  return (
    <Page
      title="Alerts"
      hint="What needs attention. Alerts are also sent by email and webhook."
      actions={
        <Button
          icon={<Send className="size-4" aria-hidden="true" />}
          disabled={settings.data === undefined || noChannels}
          busy={test.isPending}
          onClick={() => test.mutate(undefined)}
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
      <TestDialog results={test.data?.data ?? null} onClose={() => test.reset()} />
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
