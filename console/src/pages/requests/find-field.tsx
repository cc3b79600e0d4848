import { Search } from 'lucide-react';
import { classNames } from '../../components/class-names.ts';
import { INPUT } from '../../components/field.tsx';

interface FindFieldProps {
  /** What was looked for last. */
  value: string;
  onFind: (id: string) => void;
}

/** Takes the id of a request, ours or the caller's own; Enter looks for it. */
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
        // Written anew when the address says otherwise.
        key={value}
        name="id"
        type="search"
        enterKeyHint="search"
        autoComplete="off"
        spellCheck={false}
        maxLength={512}
        defaultValue={value}
        aria-label="Find by request id, or by your own id"
        placeholder="Request id, or your own id"
        className={classNames(INPUT, 'h-8 rounded-md pl-8 text-xs')}
      />
    </form>
  );
}
