import { Popover } from '@base-ui/react/popover';
import { SlidersHorizontal, X } from 'lucide-react';
import { useRef, useState } from 'react';
import type { Arguments } from '../api/client.ts';
import { useKeys, useRead } from '../api/queries.ts';
import { Button } from '../components/button.tsx';
import { addDays, useToday } from '../components/date-range-days.ts';
import type { FieldErrors } from '../components/field-errors.ts';
import { Field, TextField } from '../components/field.tsx';
import { Form } from '../components/form.tsx';
import { FORM_POPUP } from '../components/popup.ts';
import { failedChoices, FilterSelect, Select, type Choice } from '../components/select.tsx';
import type { Scope } from '../state/account.ts';
import {
  MINIMUM_NAMES,
  MINIMUMS,
  noteOf,
  NOTES,
  STATUSES,
  type Filters,
  type MinimumName,
} from './filters.ts';

interface FilterProps {
  scope: Scope;
  /** Null: all. */
  value: string | null;
  onChange: (value: string | null) => void;
  /** The usage whose requests are counted beside each choice; undefined: no counts. */
  counted?: UsageQuery | undefined;
}

/** Days and filters of a usage report. */
type UsageQuery = Pick<
  NonNullable<Arguments<'readUsage'>['query']>,
  'from' | 'to' | 'key_id' | 'model' | 'client'
>;

/** Models and clients used within this many days are offered. */
const USED_DAYS = 90;

/** Selects one of the used models, or all. */
export function ModelFilter({ scope, value, onChange, counted }: FilterProps) {
  const models = useUsed(scope, 'model', value, counted);
  return (
    <FilterSelect
      label="Model"
      any="All models"
      className="max-w-56"
      {...{ value, onChange }}
      choices={models}
    />
  );
}

/** Returns the used models or clients, and the selected one, in the order of the alphabet. */
function useUsed(
  scope: Scope,
  by: 'model' | 'client',
  selected: string | null,
  counted?: UsageQuery,
): Choice<string>[] {
  const to = addDays(useToday(), 1);
  const period = counted ?? { from: addDays(to, -USED_DAYS), to };
  const used = useRead('readUsage', { query: { ...scope.query, ...period, [by]: undefined, by } });
  const found = new Map((used.data?.data ?? []).map((row) => [row[by], row.requests]));
  if (selected !== null && !found.has(selected)) found.set(selected, 0);
  const choices = [...found].flatMap(([id, requests]) =>
    id === null ? [] : [{ value: id, label: id, ...(counted && used.data && { count: requests }) }],
  );
  return [...choices.toSorted((a, b) => (a.value < b.value ? -1 : 1)), ...failedChoices(used, `the ${by}s`)];
}

/** Selects one of the keys, or all. */
export function KeyFilter({ scope, value, onChange, counted }: FilterProps) {
  const list = useKeys(scope.query);
  const usage = useRead(
    'readUsage',
    { query: { ...scope.query, ...counted, key_id: undefined, by: 'key' } },
    { enabled: counted !== undefined },
  );
  const counts = usage.data && new Map(usage.data.data.map((row) => [row.key_id, row.requests]));
  const keys = list.data?.data ?? [];
  const isListed = value === null || keys.some(({ id }) => id === value);
  // A playground key, or one of very many.
  const other = useRead('getKey', { params: { id: value ?? '' } }, { enabled: !isListed && !list.isPending });
  const known = isListed ? keys : [{ id: value, name: other.data?.name ?? value }, ...keys];
  return (
    <FilterSelect
      label="Key"
      any="All keys"
      className="max-w-56"
      {...{ value, onChange }}
      choices={[
        ...known.map(({ id, name }) => ({ value: id, label: name, count: counts && (counts.get(id) ?? 0) })),
        ...failedChoices(list, 'the keys'),
      ]}
    />
  );
}

/** Common error codes. The URL accepts any other code. */
const CODES = [
  'context_length_exceeded',
  'engine_unavailable',
  'queue_full',
  'internal_error',
  'invalid_api_key',
  'storage_unavailable',
  'shutting_down',
];

type StatusFilterProps = Pick<FilterProps, 'value' | 'onChange'> & {
  /** The requests of each status, as far as they are known. */
  counts?: Readonly<Record<string, number>> | undefined;
};

/** Selects a status or error code, or all. */
export function StatusFilter({ value, onChange, counts = {} }: StatusFilterProps) {
  const known = value !== null && STATUSES[value] === undefined && !CODES.includes(value) ? [value] : [];
  return (
    <FilterSelect
      label="Status"
      any="Any status"
      {...{ value, onChange }}
      choices={[
        ...Object.entries(STATUSES).map(([status, { label, hint }]) => ({
          value: status,
          label,
          hint,
          count: counts[status],
        })),
        ...[...CODES, ...known].map((code) => ({ value: code, label: code })),
      ]}
    />
  );
}

/** The filters that the popover has. */
type More = Pick<Filters, MinimumName | 'client' | 'note'>;

interface MoreFiltersProps {
  scope: Scope;
  filters: Filters;
  onChange: (changes: Readonly<Record<string, string | null>>) => void;
}

/** The filters by latency, tokens, cost, client and note: a popover with their fields, and those that are set as chips. */
export function MoreFilters({ scope, filters, onChange }: MoreFiltersProps) {
  const [open, setOpen] = useState(false);
  const trigger = useRef<HTMLButtonElement>(null);
  return (
    <>
      <Popover.Root open={open} onOpenChange={setOpen}>
        <Popover.Trigger
          ref={trigger}
          className="inline-flex h-8 items-center gap-2 rounded-md border border-line-strong bg-surface px-2.5 text-xs text-ink transition-colors hover:bg-hover"
        >
          <SlidersHorizontal className="size-3.5 text-ink-3" />
          More filters
        </Popover.Trigger>
        <Popover.Portal>
          <Popover.Positioner
            sideOffset={4}
            align="start"
            collisionPadding={12}
            className="z-40 outline-none"
          >
            <Popover.Popup aria-label="More filters" className={FORM_POPUP}>
              <FilterForm
                scope={scope}
                filters={filters}
                onApply={(changes) => {
                  onChange(changes);
                  setOpen(false);
                }}
              />
            </Popover.Popup>
          </Popover.Positioner>
        </Popover.Portal>
      </Popover.Root>
      <Chips
        filters={filters}
        onRemove={(name) => {
          onChange({ [name]: null });
          // The chip that had the focus disappears.
          trigger.current?.focus();
        }}
      />
    </>
  );
}

/** Select value of "any". */
const ANY = '';

interface FilterFormProps {
  scope: Scope;
  filters: More;
  onApply: (changes: More) => void;
}

function FilterForm({ scope, filters, onApply }: FilterFormProps) {
  const [texts, setTexts] = useState(() => minimums((name) => filters[name] ?? ''));
  const [client, setClient] = useState(filters.client);
  const clients = useUsed(scope, 'client', filters.client);
  const [note, setNote] = useState(filters.note);
  const [errors, setErrors] = useState<FieldErrors>({});
  const apply = () => {
    const values = minimums((name) => (texts[name].trim() === '' ? null : MINIMUMS[name].parse(texts[name])));
    const invalid = MINIMUM_NAMES.filter((name) => values[name] === null && texts[name].trim() !== '');
    setErrors(Object.fromEntries(invalid.map((name) => [name, MINIMUMS[name].expected])));
    if (invalid.length === 0) onApply({ ...values, client, note });
  };
  return (
    <Form errors={errors} onSubmit={apply}>
      <div className="grid grid-cols-2 items-start gap-3">
        {MINIMUM_NAMES.map((name) => (
          <TextField
            key={name}
            name={name}
            label={`${MINIMUMS[name].label} (${MINIMUMS[name].unit})`}
            inputMode={name === 'tokens' ? 'numeric' : 'decimal'}
            autoComplete="off"
            value={texts[name]}
            onChange={({ target }) => setTexts({ ...texts, [name]: target.value })}
          />
        ))}
      </div>
      <Field label="Client">
        <Select
          value={client ?? ANY}
          choices={[{ value: ANY, label: 'Any client' }, ...clients]}
          onChange={(chosen) => setClient(chosen === ANY ? null : chosen)}
        />
      </Field>
      <Field label="Note">
        <Select
          value={note ?? ANY}
          choices={[
            { value: ANY, label: 'Any or none' },
            ...Object.entries(NOTES).map(([value, { label, hint }]) => ({ value, label, hint })),
          ]}
          onChange={(chosen) => setNote(noteOf(chosen))}
        />
      </Field>
      <Button type="submit" kind="primary" size="small" className="w-full">
        Apply
      </Button>
    </Form>
  );
}

/** Returns a value for each minimum. */
function minimums<Value>(valueOf: (name: MinimumName) => Value): Record<MinimumName, Value> {
  // The object has exactly these names.
  return Object.fromEntries(MINIMUM_NAMES.map((name) => [name, valueOf(name)])) as Record<MinimumName, Value>;
}

function Chips({ filters, onRemove }: { filters: More; onRemove: (name: keyof More) => void }) {
  const chips: { name: keyof More; text: string }[] = MINIMUM_NAMES.flatMap((name) => {
    const value = filters[name];
    return value === null ? [] : [{ name, text: MINIMUMS[name].describe(value) }];
  });
  if (filters.client !== null) chips.push({ name: 'client', text: `Client: ${filters.client}` });
  if (filters.note !== null) chips.push({ name: 'note', text: `Note: ${NOTES[filters.note].label}` });
  if (chips.length === 0) return null;
  return (
    <ul aria-label="Active filters" className="contents">
      {chips.map(({ name, text }) => (
        <li key={name}>
          <button
            type="button"
            aria-label={`Remove filter: ${text}`}
            onClick={() => onRemove(name)}
            className="inline-flex h-8 items-center gap-1.5 rounded-md bg-accent-soft pr-2 pl-2.5 text-xs font-medium text-accent transition-colors hover:bg-hover"
          >
            {text}
            <X className="size-3.5" />
          </button>
        </li>
      ))}
    </ul>
  );
}
