import { BellOff } from 'lucide-react';
import { Badge } from '../../components/badge.tsx';
import { Button } from '../../components/button.tsx';
import { CodeText } from '../../components/code-text.tsx';
import { DetailList } from '../../components/detail-list.tsx';
import { Dialog } from '../../components/dialog.tsx';
import { Time } from '../../components/time.tsx';
import { counted } from '../../format/number.ts';
import { messageState, stateOf, typeLabel, type Alert } from './alert-texts.ts';
import { SilenceMenu } from './silence-menu.tsx';

interface AlertDialogProps {
  /** Null: closed. */
  alert: Alert | null;
  onClose: () => void;
}

/** The details of an alert, and what was sent about it. */
export function AlertDialog({ alert, onClose }: AlertDialogProps) {
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
            trigger={<Button icon={<BellOff className="size-4" aria-hidden="true" />}>Silence</Button>}
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
          ...(alert.silenced_until === null
            ? []
            : [{ label: 'Silenced until', value: <Time at={alert.silenced_until} /> }]),
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
          const { tone, word } = messageState(message);
          return (
            <li key={`${event} ${channel}`} className="px-4 py-3">
              <div className="flex items-start justify-between gap-3">
                <span className="min-w-0 break-all">{channel}</span>
                <Badge tone={tone}>{word}</Badge>
              </div>
              <p className="mt-0.5 text-xs text-ink-3">
                {event === 'firing' ? 'Firing' : 'Resolved'}
                {attempts > 0 && `, ${counted(attempts, 'attempt')}`}
                {sentAt !== null && (
                  <>
                    , <Time at={sentAt} />
                  </>
                )}
              </p>
              {error !== null && <p className="mt-1 text-xs break-words text-bad">{error}</p>}
            </li>
          );
        })}
      </ul>
    </section>
  );
}

function Mono({ children }: { children: string }) {
  return <span className="font-mono text-xs break-all">{children}</span>;
}
