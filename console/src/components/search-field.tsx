import { Search } from 'lucide-react';
import { useQueryState } from '../state/url-query.ts';
import { classNames } from './class-names.ts';
import { INPUT } from './input.ts';

interface SearchFieldProps {
  /** Accessible name and placeholder. */
  label: string;
  value: string;
  onChange: (value: string) => void;
  className?: string;
}

export function SearchField({ label, value, onChange, className }: SearchFieldProps) {
  return (
    <span className={classNames('relative block', className)}>
      <Search className="pointer-events-none absolute top-2 left-2.5 size-4 text-ink-3" />
      <input
        type="search"
        aria-label={label}
        placeholder={label}
        value={value}
        onChange={({ target }) => onChange(target.value)}
        className={classNames(INPUT, 'h-8 rounded-md pr-2 pl-8 text-xs')}
      />
    </span>
  );
}

/** A search field whose text is the parameter `q` of the URL. */
export function UrlSearchField({
  label,
  className = 'w-full sm:w-64',
}: Omit<SearchFieldProps, 'value' | 'onChange'>) {
  const [query, change] = useQueryState();
  const onChange = (q: string) => change({ q }, { replace: true });
  return <SearchField {...{ label, className, onChange }} value={query.get('q') ?? ''} />;
}
