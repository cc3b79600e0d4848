import { BellOff, BellRing } from 'lucide-react';
import type { ReactElement } from 'react';
import { act, orToast } from '../../api/act.ts';
import type { Arguments } from '../../api/client.ts';
import { EditDialog } from '../../components/edit-dialog.tsx';
import { TextField } from '../../components/field.tsx';
import { Menu, MenuItem, MenuSeparator } from '../../components/menu.tsx';
import { openOverlay } from '../../components/overlays.tsx';
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

export function SilenceMenu({ target, name, silencedUntil, trigger }: SilenceMenuProps) {
  const silence = (until: string) =>
    act(
      'silenceAlerts',
      { body: { ...target, until } },
      {
        done: ({ silenced_until: end }) => `Silenced ${name}${end === null ? '' : ` until ${dateTime(end)}`}`,
      },
    );
  const silenceFor = (ms: number) => void orToast(silence(new Date(Date.now() + ms).toISOString()));
  const unsilence = () =>
    void orToast(act('unsilenceAlerts', { body: target }, { done: `${name} is no longer silenced` }));
  return (
    <Menu trigger={trigger}>
      <MenuItem icon={<BellOff />} onClick={() => silenceFor(HOUR_MS)}>
        Silence for 1 hour
      </MenuItem>
      <MenuItem icon={<BellOff />} onClick={() => silenceFor(24 * HOUR_MS)}>
        Silence for 1 day
      </MenuItem>
      <MenuItem icon={<BellOff />} onClick={() => silenceUntil(name, silence)}>
        Silence until …
      </MenuItem>
      {silencedUntil !== null && (
        <>
          <MenuSeparator />
          <MenuItem icon={<BellRing />} onClick={unsilence}>
            End silence
          </MenuItem>
        </>
      )}
    </Menu>
  );
}

/** Asks for a time, in ISO 8601 in UTC. */
function silenceUntil(name: string, silence: (until: string) => Promise<unknown>): void {
  const nowMs = Date.now();
  void openOverlay((close) => (
    <EditDialog
      title={`Silence ${name}`}
      hint="No messages are sent until this time. What still fires then is sent."
      action="Silence"
      initial={{ until: localInput(nowMs + 24 * HOUR_MS) }}
      submit={({ until }) => silence(new Date(until).toISOString())}
      onClose={() => close()}
    >
      {(_, __, field) => (
        <TextField
          label="Until"
          aside="local time"
          type="datetime-local"
          required
          min={localInput(nowMs)}
          max={localInput(nowMs + 365 * 24 * HOUR_MS)}
          {...field('until')}
        />
      )}
    </EditDialog>
  ));
}

/** Formats Unix milliseconds as the value of a `datetime-local` input, in local time. */
function localInput(atMs: number): string {
  const offsetMs = new Date(atMs).getTimezoneOffset() * 60_000;
  return new Date(atMs - offsetMs).toISOString().slice(0, 16);
}
