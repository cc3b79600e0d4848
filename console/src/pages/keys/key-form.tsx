import { CheckboxGroup } from '@base-ui/react/checkbox-group';
import { useState } from 'react';
import type { ItemOf } from '../../api/client.ts';
import { useRead } from '../../api/queries.ts';
import { Checkbox, GroupCheckbox, Segmented } from '../../components/choices.tsx';
import { Disclosure } from '../../components/disclosure.tsx';
import { Field, TextField } from '../../components/field.tsx';
import type { FieldOf } from '../../components/form.tsx';
import { LimitFields } from '../../components/limit-fields.tsx';
import { Select, type Choice } from '../../components/select.tsx';
import { LIMIT_NAMES, limitInput } from '../../format/limits.ts';
import { dateTime } from '../../format/time.ts';
import { useSession } from '../../state/session.tsx';
import { dayOfField, type Expiry, type KeyDraft } from './key-draft.ts';

const BUDGET = 'usd_per_month';

const OTHER_LIMITS = LIMIT_NAMES.filter((name) => name !== BUDGET);

interface KeyFieldsProps {
  draft: KeyDraft;
  set: (changed: Partial<KeyDraft>) => void;
  field: FieldOf<KeyDraft>;
  invalid: readonly string[];
  /** The existing key; null: new key. */
  before: ItemOf<'listKeys'> | null;
}

/** The fields of a key, with rarely used settings collapsed. */
export function KeyFields({ draft, set, field, invalid, before }: KeyFieldsProps) {
  const { user } = useSession();
  const [more, setMore] = useState(
    draft.models !== null || draft.strict || OTHER_LIMITS.some((name) => draft[name] !== ''),
  );
  const isInvalid = invalid.some(
    (param) => /^(?:limits\.|allowed_models)/.test(param) && param !== `limits.${BUDGET}`,
  );
  return (
    <div className="space-y-5">
      <TextField
        label="Name"
        hint="For example, the app that uses the key"
        autoComplete="off"
        maxLength={100}
        {...field('name')}
      />
      <ExpiryField
        expiry={draft.expiry}
        date={draft.date}
        {...(before === null ? {} : { now: before.expires_at })}
        onChange={set}
      />
      <TextField
        label="Monthly budget"
        aside={limitInput(BUDGET)}
        hint="Per calendar month in UTC. Once it is spent, requests are refused until the next month."
        inputMode="decimal"
        autoComplete="off"
        placeholder="No budget"
        {...field(BUDGET, `limits.${BUDGET}`)}
      />
      <TextField
        label="Tags"
        aside="optional"
        hint="Separated by commas, such as production, team:search"
        autoComplete="off"
        {...field('tags')}
      />
      <Disclosure framed label="Models and limits" open={more || isInvalid} onToggle={setMore}>
        <div className="space-y-5 border-t border-line p-4">
          <ModelsField chosen={draft.models} onChange={(models) => set({ models })} />
          <LimitFields names={OTHER_LIMITS} field={field} />
          <p className="text-xs leading-5 text-ink-3">
            These limits apply across all models, in addition to the account's limits.
            {before?.limits?.models !== undefined &&
              " The key's per-model limits are not shown here and stay as they are."}
          </p>
          <Checkbox checked={draft.strict} onChange={(strict) => set({ strict })}>
            Strict
            <span className="block text-xs leading-5 text-ink-3">
              Refuses requests of which a part would have no effect. Otherwise, such parts are ignored and
              listed in the receipt.
            </span>
          </Checkbox>
          {user.operator && before === null && (
            <Checkbox checked={draft.admin} onChange={(admin) => set({ admin })}>
              Admin key
              <span className="block text-xs leading-5 text-ink-3">
                Manages the whole service through <code className="font-mono">/api</code>: every account, key
                and user. For operators only.
              </span>
            </Checkbox>
          )}
        </div>
      </Disclosure>
    </div>
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
