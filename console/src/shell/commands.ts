/** An entry of the command menu. */
export interface Command {
  /** Unique among all commands. */
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

/** Returns whether each word of the text occurs in the command. */
export function matchesCommand({ label, hint = '', keywords = '' }: Command, text: string): boolean {
  const searched = `${label} ${hint} ${keywords}`.toLowerCase();
  return text
    .toLowerCase()
    .split(/\s+/)
    .every((word) => searched.includes(word));
}
