import { BellOff } from 'lucide-react';
import { Badge } from '../../components/badge.tsx';
import { Table, type Column } from '../../components/table.tsx';
import { Time } from '../../components/time.tsx';
import { deliveryOf, stateOf, typeLabel, type Alert } from './alert-texts.ts';

interface AlertsTableProps {
  alerts: readonly Alert[];
  /** ID of the open alert. */
  openId: string | null;
  onOpen: (alert: Alert) => void;
}

/** The alerts of all instances, newest first. */
export function AlertsTable({ alerts, openId, onOpen }: AlertsTableProps) {
  return (
    <Table
      label="Alerts"
      columns={alertColumns(onOpen)}
      rows={alerts}
      keyOf={({ id }) => id}
      onOpen={onOpen}
      isOpen={({ id }) => id === openId}
    />
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
          <BellOff className="size-3.5 text-ink-3" aria-hidden="true" />
          <span className="sr-only">Silenced</span>
        </span>
      )}
    </span>
  );
}
