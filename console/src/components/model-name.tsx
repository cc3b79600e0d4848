interface ModelNameProps {
  id: string;
  /** Never shows the organization, so that all rows of a narrow list look alike. */
  short?: boolean;
}

/** A model ID on one line. Hides its organization if the line is too short for both, and truncates the rest. */
export function ModelName({ id, short = false }: ModelNameProps) {
  const start = id.indexOf('/') + 1;
  if (short) {
    return (
      <span className="block truncate" title={id}>
        {id.slice(start)}
      </span>
    );
  }
  return (
    // The name wraps to a second line if it does not fit, and only the last line is visible.
    <span className="flex h-[1lh] min-w-0 flex-col justify-end overflow-hidden" title={id}>
      <span className="shrink-0 overflow-hidden text-ellipsis">
        <span className="whitespace-nowrap">{id.slice(0, start)}</span>
        <wbr />
        <span className="whitespace-nowrap">{id.slice(start)}</span>
      </span>
    </span>
  );
}
