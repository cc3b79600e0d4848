import { ChevronRight } from 'lucide-react';
import { CheckboxGroup } from '@base-ui/react/checkbox-group';
import { useState, type ReactNode } from 'react';
import { isOutcomeUnknown, type ApiError, type ItemOf } from '../../api/client.ts';
import { useRead } from '../../api/queries.ts';
import { Checkbox, GroupCheckbox, Segmented } from '../../components/choices.tsx';
import type { FieldErrors } from '../../components/field-errors.ts';
import { Field, TextField } from '../../components/field.tsx';
import { Form, FormError } from '../../components/form.tsx';
import { LimitFields } from '../../components/limit-fields.tsx';
import { Select, type Choice } from '../../components/select.tsx';
import { LIMIT_NAMES, limitInput } from '../../format/limits.ts';
import { dateTime } from '../../format/time.ts';
import { useSession } from '../../state/session.tsx';
import { dayOfField, settingsOf, type Expiry, type KeyDraft } from './key-draft.ts';

type Settings = NonNullable<ReturnType<typeof settingsOf>['settings']>;

interface KeyFormProps {
  /** Id of the form, for a submit button outside of it. */
  id: string;
  /** Initial input. */
  initial: KeyDraft;
  /** The existing key; null: new key. */
  before: ItemOf<'listKeys'> | null;
  /** Error response of the service. */
  error: ApiError | null;
  onSubmit: (settings: Settings, draft: KeyDraft) => void;
}

const BUDGET = 'usd_per_month';

/** The limits except the budget. */
const OTHER_LIMITS = LIMIT_NAMES.filter((name) => name !== BUDGET);

/** The form of a key, with rarely used settings collapsed. Keeps the input if the service refuses it. */
export function KeyForm({ id, initial, before, error, onSubmit }: KeyFormProps) {
  const { user } = useSession();
  const [draft, setDraft] = useState(initial);
  const [errors, setErrors] = useState<FieldErrors>({});
  const [more, setMore] = useState(initial.models !== null || initial.strict || hasLimits(initial));
  const change = (changed: Partial<KeyDraft>) => setDraft((current) => ({ ...current, ...changed }));
  return (
    <Form
      id={id}
      error={error}
      errors={errors}
      className="space-y-5"
      onSubmit={() => {
        const read = settingsOf(draft, Date.now(), before);
        setErrors(read.errors ?? {});
        if (read.settings !== null) onSubmit(read.settings, draft);
      }}
    >
      <FormError error={error}>
        {before === null && error !== null && isOutcomeUnknown(error) && (
          <p className="mt-1">
            The key may exist. If it is in the list of keys, revoke it: it cannot be shown again.
          </p>
        )}
      </FormError>
      <TextField
        name="name"
        label="Name"
        hint="For example, the app that uses the key"
        autoComplete="off"
        maxLength={100}
        value={draft.name}
        onChange={(event) => change({ name: event.target.value })}
      />
      <ExpiryField
        expiry={draft.expiry}
        date={draft.date}
        {...(before === null ? {} : { now: before.expires_at })}
        onChange={change}
      />
      <TextField
        name={`limits.${BUDGET}`}
        label="Monthly budget"
        aside={limitInput(BUDGET)}
        hint="Per calendar month in UTC. Once it is spent, requests are refused until the next month."
        inputMode="decimal"
        autoComplete="off"
        placeholder="No budget"
        value={draft.limits[BUDGET]}
        onChange={(event) => change({ limits: { ...draft.limits, [BUDGET]: event.target.value } })}
      />
      <TextField
        name="tags"
        label="Tags"
        aside="optional"
        hint="Separated by commas, such as production, team:search"
        autoComplete="off"
        value={draft.tags}
        onChange={(event) => change({ tags: event.target.value })}
      />
      <Collapsible summary="Models and limits" open={more || hasErrors(errors, error)} onToggle={setMore}>
        <ModelsField chosen={draft.models} onChange={(models) => change({ models })} />
        <LimitFields names={OTHER_LIMITS} limits={draft.limits} onChange={(limits) => change({ limits })} />
        <p className="text-xs leading-5 text-ink-3">
          These limits apply across all models, in addition to the account's limits.
          {before?.limits?.models !== undefined &&
            " The key's per-model limits are not shown here and stay as they are."}
        </p>
        <Checkbox checked={draft.strict} onChange={(strict) => change({ strict })}>
          Strict
          <span className="block text-xs leading-5 text-ink-3">
            Refuses requests of which a part would have no effect. Otherwise, such parts are ignored and
            listed in the receipt.
          </span>
        </Checkbox>
        {user.operator && before === null && (
          <Checkbox checked={draft.admin} onChange={(admin) => change({ admin })}>
            Admin key
            <span className="block text-xs leading-5 text-ink-3">
              Manages the whole service through <code className="font-mono">/api</code>: every account, key
              and user. For operators only.
            </span>
          </Checkbox>
        )}
      </Collapsible>
    </Form>
  );
}

function hasLimits({ limits }: KeyDraft): boolean {
  return OTHER_LIMITS.some((name) => limits[name] !== '');
}

function hasErrors(errors: FieldErrors, error: ApiError | null): boolean {
  const params = [...Object.keys(errors), error?.param ?? ''];
  return params.some((param) => /^(?:limits\.|allowed_models)/.test(param) && param !== `limits.${BUDGET}`);
}

/** A collapsible section. */
function Collapsible({
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

interface ExpiryFieldProps {
  expiry: Expiry;
  date: string;
  /** Current expiry of an existing key, ISO 8601; null: never; default: new key. */
  now?: string | null;
  onChange: (change: { expiry: Expiry; date: string }) => void;
}

const EXPIRY_PRESETS: readonly Choice<Expiry>[] = [
  { value: '7', label: 'In 7 days' },
  { value: '30', label: 'In 30 days' },
  { value: '90', label: 'In 90 days' },
  { value: '365', label: 'In 1 year' },
  { value: 'date', label: 'Custom date…' },
];

/** Selects when a key expires. */
function ExpiryField({ expiry, date, now, onChange }: ExpiryFieldProps) {
  const [today] = useState(() => dayOfField(Date.now()));
  const never: Choice<Expiry> = { value: 'never', label: 'Never' };
  const choices =
    now === undefined
      ? [never, ...EXPIRY_PRESETS]
      : now === null
        ? [{ ...never, value: 'same' as const }, ...EXPIRY_PRESETS]
        : [{ value: 'same' as const, label: dateTime(now) }, never, ...EXPIRY_PRESETS];
  return (
    <div className="grid items-start gap-4 sm:grid-cols-2">
      <Field label="Expires" name={expiry === 'date' ? undefined : 'expires_at'}>
        <Select
          value={expiry}
          choices={choices}
          onChange={(chosen) => onChange({ expiry: chosen, date: date || today })}
        />
      </Field>
      {expiry === 'date' && (
        <TextField
          name="expires_at"
          label="Expiry date"
          aside="end of day, local time"
          type="date"
          min={today}
          value={date}
          onChange={(event) => onChange({ expiry, date: event.target.value })}
        />
      )}
    </div>
  );
}

interface ModelsFieldProps {
  /** Null: all. */
  chosen: readonly string[] | null;
  onChange: (chosen: readonly string[] | null) => void;
}

/** Selects the models that a key may use: all, including later ones, or a list. */
function ModelsField({ chosen, onChange }: ModelsFieldProps) {
  const models = useRead('listServedModels', undefined);
  const served = models.data?.data.map(({ id }) => id) ?? [];
  // A key may name models that are no longer configured.
  const all = [...new Set([...served, ...(chosen ?? [])])];
  return (
    <Field
      name="allowed_models"
      label="Models"
      aside={
        <Segmented
          label="Allowed models"
          value={chosen === null ? 'all' : 'some'}
          choices={[
            { value: 'all', label: 'All models' },
            { value: 'some', label: 'Selected models' },
          ]}
          onChange={(which) => onChange(which === 'all' ? null : [])}
        />
      }
    >
      {chosen === null ? (
        <p className="text-xs leading-5 text-ink-3">Includes models added later</p>
      ) : (
        <CheckboxGroup
          value={[...chosen]}
          onValueChange={(values) => onChange(all.filter((id) => values.includes(id)))}
          className="max-h-52 space-y-2.5 overflow-y-auto rounded-lg border border-line-strong p-3"
        >
          {all.map((id) => (
            <GroupCheckbox key={id} value={id}>
              <span className="font-mono text-xs break-all">{id}</span>
              {models.data !== undefined && !served.includes(id) && (
                <span className="text-xs text-ink-3"> (not available)</span>
              )}
            </GroupCheckbox>
          ))}
          {all.length === 0 && (
            <p className="text-xs text-ink-3">
              {models.isPending ? 'Loading models' : (models.error?.message ?? 'No models configured')}
            </p>
          )}
        </CheckboxGroup>
      )}
    </Field>
  );
}
