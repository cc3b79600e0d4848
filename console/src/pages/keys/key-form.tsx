import { ChevronRight } from 'lucide-react';
import { useState, type ReactNode } from 'react';
import type { ApiError, Element } from '../../api/client.ts';
import { Checkbox } from '../../components/choices.tsx';
import { TextField } from '../../components/field.tsx';
import { FormFault } from '../../components/form-fault.tsx';
import { useSession } from '../../shell/session.tsx';
import { ExpiryField } from './expiry-field.tsx';
import { settingsOf, type Faults, type KeyDraft } from './key-draft.ts';
import { LimitFields } from './limit-fields.tsx';
import { ModelsField } from './models-field.tsx';

type Settings = NonNullable<ReturnType<typeof settingsOf>['settings']>;

interface KeyFormProps {
  /** Of the form, for the button that submits it from outside. */
  id: string;
  /** Where it begins. */
  initial: KeyDraft;
  /** The key that is changed; null: it is new. */
  before: Element<'listKeys'> | null;
  /** What the service said no with. */
  error: ApiError | null;
  onSubmit: (settings: Settings, draft: KeyDraft) => void;
}

/** The fields that have a place for what is wrong with them. */
const PLACES = [
  'name',
  'expires_at',
  'limits.usd_per_month',
  'limits.requests_per_minute',
  'limits.tokens_per_minute',
  'limits.requests_in_flight',
  'limits.tokens_per_day',
  'limits.tokens_per_month',
];

/** All that can be said of a key: the usual in sight, the rest folded. What was typed stays when the service says no. */
export function KeyForm({ id, initial, before, error, onSubmit }: KeyFormProps) {
  const { person } = useSession();
  const [draft, setDraft] = useState(initial);
  const [faults, setFaults] = useState<Faults>({});
  const [more, setMore] = useState(initial.models !== null || hasLimits(initial));
  const change = (changed: Partial<KeyDraft>) => setDraft((current) => ({ ...current, ...changed }));
  const faultAt = (param: string) => faults[param] ?? (error?.param === param ? error.message : null);
  const modelsFault =
    faults['allowed_models'] ?? (error?.param?.startsWith('allowed_models') ? error.message : null);
  return (
    <form
      id={id}
      noValidate
      className="space-y-5"
      onSubmit={(event) => {
        event.preventDefault();
        const read = settingsOf(draft, Date.now(), before);
        setFaults(read.faults ?? {});
        if (read.settings !== null) onSubmit(read.settings, draft);
      }}
    >
      <FormFault error={modelsFault === null ? error : null} fields={PLACES} />
      <TextField
        label="Name"
        hint="What it is for, such as the program that uses it."
        autoComplete="off"
        maxLength={100}
        required
        value={draft.name}
        error={faultAt('name')}
        onChange={(event) => change({ name: event.target.value })}
      />
      <ExpiryField
        expiry={draft.expiry}
        date={draft.date}
        {...(before === null ? {} : { now: before.expires_at })}
        error={faultAt('expires_at')}
        onChange={change}
      />
      <TextField
        label="Monthly budget"
        aside="USD, optional"
        hint="Of a calendar month in UTC. Once it is spent, requests are refused until the next one."
        inputMode="decimal"
        autoComplete="off"
        placeholder="No budget of its own"
        value={draft.limits.usd_per_month}
        error={faultAt('limits.usd_per_month')}
        onChange={(event) => change({ limits: { ...draft.limits, usd_per_month: event.target.value } })}
      />
      <Folded summary="Models and limits" open={more || hasFaults(faults, error)} onToggle={setMore}>
        <ModelsField chosen={draft.models} onChange={(models) => change({ models })} error={modelsFault} />
        <LimitFields limits={draft.limits} onChange={(limits) => change({ limits })} faultAt={faultAt} />
        <p className="text-xs leading-5 text-ink-3">
          They hold beside the limits of the account, for all models together.
          {before?.limits?.models !== undefined &&
            ' Those that this key has for single models stay as they are.'}
        </p>
        {person.operator && before === null && (
          <Checkbox checked={draft.admin} onChange={(admin) => change({ admin })}>
            Admin key
            <span className="block text-xs leading-5 text-ink-3">
              Manages the whole service over <code className="font-mono">/api</code>: every account, key and
              person. For an operator’s own programs, never for callers.
            </span>
          </Checkbox>
        )}
      </Folded>
    </form>
  );
}

function hasLimits({ limits }: KeyDraft): boolean {
  return Object.entries(limits).some(([name, text]) => name !== 'usd_per_month' && text !== '');
}

function hasFaults(faults: Faults, error: ApiError | null): boolean {
  const params = [...Object.keys(faults), error?.param ?? ''];
  return params.some((param) => /^(?:limits\.(?!usd_per_month)|allowed_models)/.test(param));
}

/** What few need. */
function Folded({
  summary,
  open,
  onToggle,
  children,
}: {
  summary: string;
  open: boolean;
  onToggle: (open: boolean) => void;
  children: ReactNode;
}) {
  return (
    <details
      className="group rounded-lg border border-line"
      open={open}
      onToggle={(event) => onToggle(event.currentTarget.open)}
    >
      <summary className="flex h-10 list-none items-center gap-2 rounded-lg px-3 text-sm font-medium hover:bg-hover [&::-webkit-details-marker]:hidden">
        <ChevronRight
          className="size-4 text-ink-3 transition-transform group-open:rotate-90"
          aria-hidden="true"
        />
        {summary}
      </summary>
      <div className="space-y-5 border-t border-line p-4">{children}</div>
    </details>
  );
}
