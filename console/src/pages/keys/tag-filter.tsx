import { FilterSelect } from '../../components/select.tsx';

interface TagFilterProps {
  tags: readonly string[];
  /** Null: all. */
  value: string | null;
  onChange: (tag: string | null) => void;
}

/** Selects one of the tags, or all. Loaded with the first tag. */
export default function TagFilter({ tags, value, onChange }: TagFilterProps) {
  return (
    <FilterSelect
      label="Tag"
      any="All tags"
      className="max-w-44"
      {...{ value, onChange }}
      choices={tags.map((tag) => ({ value: tag, label: tag }))}
    />
  );
}
