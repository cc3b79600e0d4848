import { BellOff, BellRing } from 'lucide-react';
import { useId, useState, type ReactElement } from 'react';
import type { Arguments } from '../../api/client.ts';
import { useAction } from '../../api/queries.ts';
import { Dialog, FormActions } from '../../components/dialog.tsx';
import { TextField } from '../../components/field.tsx';
import { Menu, MenuItem, MenuSeparator } from '../../components/menu.tsx';
import { dateTime } from '../../format/time.ts';

const HOUR_MS = 3_600_000;

/** Without `until`. */
type Target = Omit<Arguments<'silenceAlerts'>['body'], 'until'>;

interface SilenceMenuProps {
  target: Target;
  /** What is silenced, such as "Disk low". */
  name: string;
  /** Null: not silenced. */
  silencedUntil: string | null;
  /** The button that opens the menu; it needs an accessible name. */
  trigger: ReactElement<Record<string, unknown>>;
}

/** Silences a type of alerts or one alert for a time, or ends a silence. */
export function SilenceMenu({ target, name, silencedUntil, trigger }: SilenceMenuProps) {
  const [choosing, setChoosing] = useState(false);
  const changes = ['listAlerts', 'readAlertSettings'] as const;
  const silence = useAction('silenceAlerts', {
    changes,
    done: ({ silenced_until: until }) =>
      `Silenced ${name}${until === null ? '' : ` until ${dateTime(until)}`}`,
  });
  const unsilence = useAction('unsilenceAlerts', { changes, done: `${name} is no longer silenced` });
  const silenceFor = (ms: number) =>
    silence.mutate({ body: { ...target, until: new Date(Date.now() + ms).toISOString() } });
  return (
    <>
      <Menu trigger={trigger}>
        <MenuItem icon={<BellOff aria-hidden="true" />} onClick={() => silenceFor(HOUR_MS)}>
          Silence for 1 hour
        </MenuItem>
        <MenuItem icon={<BellOff aria-hidden="true" />} onClick={() => silenceFor(24 * HOUR_MS)}>
          Silence for 1 day
        </MenuItem>
        <MenuItem icon={<BellOff aria-hidden="true" />} onClick={() => setChoosing(true)}>
          Silence until …
        </MenuItem>
        {silencedUntil !== null && (
          <>
            <MenuSeparator />
            <MenuItem
              icon={<BellRing aria-hidden="true" />}
              onClick={() => unsilence.mutate({ body: target })}
            >
              End silence
            </MenuItem>
          </>
        )}
      </Menu>
      {choosing && (
        <UntilDialog
          name={name}
          busy={silence.isPending}
          onClose={() => setChoosing(false)}
          onChosen={(until) =>
            silence.mutate({ body: { ...target, until } }, { onSuccess: () => setChoosing(false) })
          }
        />
      )}
    </>
  );
}

interface UntilDialogProps {
  name: string;
  busy: boolean;
  onClose: () => void;
  /** ISO 8601 in UTC. */
  onChosen: (until: string) => void;
}

function UntilDialog({ name, busy, onClose, onChosen }: UntilDialogProps) {
  const form = useId();
  const [nowMs] = useState(() => Date.now());
  const [until, setUntil] = useState(() => localInput(nowMs + 24 * HOUR_MS));
  return (
    <Dialog
      open
      modal
      onClose={onClose}
      title={`Silence ${name}`}
      hint="No messages are sent until this time. What still fires then is sent."
      actions={<FormActions form={form} action="Silence" busy={busy} onCancel={onClose} />}
    >
      <form
        id={form}
        onSubmit={(event) => {
          event.preventDefault();
          onChosen(new Date(until).toISOString());
        }}
      >
        <TextField
          label="Until"
          aside="local time"
          type="datetime-local"
          required
          min={localInput(nowMs)}
          max={localInput(nowMs + 365 * 24 * HOUR_MS)}
          value={until}
          onChange={(event) => setUntil(event.target.value)}
        />
      </form>
    </Dialog>
  );
}

/** Formats Unix milliseconds as the value of a `datetime-local` input, in local time. */
function localInput(atMs: number): string {
  const offsetMs = new Date(atMs).getTimezoneOffset() * 60_000;
  return new Date(atMs - offsetMs).toISOString().slice(0, 16);
}
