import { Select } from '../../components/select.tsx';

/** The choice that shows keys with any tags. No tag is empty. */
const ALL_TAGS = '';

interface TagFilterProps {
  tags: readonly string[];
  /** Null: all. */
  value: string | null;
  onChange: (tag: string | null) => void;
}

/** Selects one of the tags, or all. Loaded with the first tag. */
export default function TagFilter({ tags, value, onChange }: TagFilterProps) {
  return (
    <Select
      small
      label="Tag"
      className="max-w-44"
      value={value ?? ALL_TAGS}
      choices={[{ value: ALL_TAGS, label: 'All tags' }, ...tags.map((tag) => ({ value: tag, label: tag }))]}
      onChange={(tag) => onChange(tag === ALL_TAGS ? null : tag)}
    />
  );
}
