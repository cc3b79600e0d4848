import { classNames } from './class-names.ts';

export const INPUT = classNames(
  'w-full rounded-lg border border-line-strong bg-surface px-3 text-sm text-ink placeholder:text-ink-3',
  'focus-visible:outline-2 focus-visible:-outline-offset-1 focus-visible:outline-accent',
  'data-invalid:border-bad disabled:bg-sunken disabled:text-ink-3',
);
