export interface Command {
  value: string;
  label: string;
  /** Shown beside the label; also searched. */
  hint?: string | undefined;
  /** Other words that find it. */
  keywords?: string;
  run: () => void;
}

export interface CommandGroup {
  label: string;
  items: readonly Command[];
}

export function matchesCommand({ label, hint = '', keywords = '' }: Command, text: string): boolean {
  const searched = `${label} ${hint} ${keywords}`.toLowerCase();
  return text
    .toLowerCase()
    .split(/\s+/)
    .every((word) => searched.includes(word));
}
