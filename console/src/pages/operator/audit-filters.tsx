import { SearchSelect } from '../../components/search-select.tsx';
import { Button } from '../../components/button.tsx';
import { useQueryState } from '../../state/url-query.ts';
import { ACTION_LABELS, partsOf, standaloneLabel } from './action-labels.ts';
import type { Named } from './names.ts';

type Names = ReadonlyMap<string, Named>;

/** Filters the audit log by actor, event, subject and account. */
export function AuditFilters({ names }: { names: Names }) {
  const [query, change] = useQueryState();
  const narrowed = ['actor', 'action', 'subject', 'of'].some((name) => query.has(name));
  const choices = (...kinds: readonly string[]) =>
    [...names].flatMap(([value, { name, hint }]) =>
      kinds.includes(partsOf(value).kind) ? [{ value, label: name, hint }] : [],
    );
  const accounts = choices('account').map((choice) => ({ ...choice, value: partsOf(choice.value).id }));
  return (
    <div className="grid grid-cols-2 items-center gap-2 border-b border-line p-3 sm:px-5 lg:flex lg:flex-wrap">
      <SearchSelect
        label="Actor"
        any="Any actor"
        value={query.get('actor')}
        choices={[
          { value: 'service', label: 'Service' },
          { value: 'visitor', label: 'Visitor', hint: 'not signed in' },
          ...choices('user', 'key'),
        ]}
        typed={typedName}
        onChange={(actor) => change({ actor })}
        className="lg:w-44"
      />
      <SearchSelect
        label="Event"
        any="Any event"
        value={query.get('action')}
        choices={Object.keys(ACTION_LABELS).map((action) => ({
          value: action,
          label: standaloneLabel(action),
          hint: action,
        }))}
        onChange={(action) => change({ action })}
        className="lg:w-44"
      />
      <SearchSelect
        label="Subject"
        any="Any subject"
        value={query.get('subject')}
        choices={choices('account', 'user', 'key')}
        typed={typedName}
        onChange={(subject) => change({ subject })}
        className="lg:w-44"
      />
      <SearchSelect
        label="Account"
        any="Any account"
        value={query.get('of')}
        choices={accounts}
        onChange={(of) => change({ of })}
        className="lg:w-44"
      />
      {narrowed && (
        <Button
          size="small"
          kind="quiet"
          onClick={() => change({ actor: null, action: null, subject: null, of: null })}
        >
          Clear filters
        </Button>
      )}
    </div>
  );
}

/** Accepts names that no list contains: `cli:ops`, `plan:free`, deleted users. */
const typedName = (text: string): string | null => (/^[a-z]+:\S+$/.test(text) ? text : null);
