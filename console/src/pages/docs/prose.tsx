/** Text with code in backquotes. */
export function Prose({ text }: { text: string }) {
  return text.split(/`([^`]+)`/).map((part, index) =>
    index % 2 === 0 ? (
      part
    ) : (
      // The parts never change order.
      <code key={index} className="rounded bg-sunken px-1 font-mono text-[0.9em] break-words">
        {part}
      </code>
    ),
  );
}
