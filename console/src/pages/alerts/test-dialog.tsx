import type { ResponseOf } from '../../api/client.ts';
import { Badge } from '../../components/badge.tsx';
import { Button } from '../../components/button.tsx';
import { Dialog } from '../../components/dialog.tsx';
import { duration } from '../../format/time.ts';

interface TestDialogProps {
  /** Null: closed. */
  results: ResponseOf<'testAlerts'>['data'] | null;
  onClose: () => void;
}

/** The result of a test message for each channel. */
export function TestDialog({ results, onClose }: TestDialogProps) {
  const failed = results?.filter(({ error }) => error !== null).length ?? 0;
  return (
    <Dialog
      open={results !== null}
      onClose={onClose}
      size="medium"
      title={failed === 0 ? 'All test messages were sent' : 'Some test messages were not sent'}
      hint={failed === 0 ? 'Check that they arrived.' : 'Check the settings of the channels that failed.'}
      actions={<Button onClick={onClose}>Done</Button>}
    >
      <ul className="divide-y divide-line rounded-lg border border-line text-sm">
        {results?.map(({ channel, target, error, duration_ms: ms }) => (
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
