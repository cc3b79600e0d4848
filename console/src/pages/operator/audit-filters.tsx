import { SearchSelect } from '../../components/search-select.tsx';
import { Button } from '../../components/button.tsx';
import { useQueryState } from '../../shell/query.ts';
import { ACTION_WORDS, actionWords, partsOf } from './audit-words.ts';
import type { Named } from './names.ts';

type Names = ReadonlyMap<string, Named>;

/** Narrows the log by who, what, to what and which account. */
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
        label="By whom"
        any="By anybody"
        value={query.get('actor')}
        choices={[
          { value: 'service', label: 'The service itself' },
          { value: 'visitor', label: 'A visitor', hint: 'nobody who is signed in' },
          ...choices('person', 'key'),
        ]}
        typed={typedName}
        onChange={(actor) => change({ actor })}
        className="lg:w-44"
      />
      <SearchSelect
        label="What"
        any="Any action"
        value={query.get('action')}
        choices={Object.keys(ACTION_WORDS).map((action) => ({
          value: action,
          label: standalone(actionWords(action)),
          hint: action,
        }))}
        onChange={(action) => change({ action })}
        className="lg:w-44"
      />
      <SearchSelect
        label="To what"
        any="To anything"
        value={query.get('subject')}
        choices={choices('account', 'person', 'key')}
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
          Show all
        </Button>
      )}
    </div>
  );
}

/** What the log names and no list has: `cli:ops`, `plan:free`, who was deleted. */
const typedName = (text: string): string | null => (/^[a-z]+:\S+$/.test(text) ? text : null);

/** Words that are made to stand before a name, without one. */
const standalone = (words: string): string => (/ (?:of|to|for|from)$/.test(words) ? `${words} …` : words);
