import { Search } from 'lucide-react';
import { classNames } from '../../components/class-names.ts';
import { INPUT } from '../../components/field.tsx';

interface FindFieldProps {
  /** The current search. */
  value: string;
  onFind: (id: string) => void;
}

/** Searches for a request id or a client request id on Enter. */
export function FindField({ value, onFind }: FindFieldProps) {
  return (
    <form
      role="search"
      className="relative w-full sm:w-72"
      onSubmit={(event) => {
        event.preventDefault();
        const text = new FormData(event.currentTarget).get('id');
        onFind(typeof text === 'string' ? text.trim() : '');
      }}
    >
      <Search
        className="pointer-events-none absolute top-1/2 left-2.5 size-3.5 -translate-y-1/2 text-ink-3"
        aria-hidden="true"
      />
      <input
        // Resets the field when the URL changes.
        key={value}
        name="id"
        type="search"
        enterKeyHint="search"
        autoComplete="off"
        spellCheck={false}
        maxLength={512}
        defaultValue={value}
        aria-label="Find by request ID or client request ID"
        placeholder="Request ID or client request ID"
        className={classNames(INPUT, 'h-8 rounded-md pl-8 text-xs')}
      />
    </form>
  );
}
