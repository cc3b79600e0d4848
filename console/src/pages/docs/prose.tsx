/** Words of the document, in which what stands between backticks is code. */
export function Prose({ text }: { text: string }) {
  return text.split(/`([^`]+)`/).map((part, index) =>
    index % 2 === 0 ? (
      part
    ) : (
      // Parts have no other name than their place, and never change it.
      <code key={index} className="rounded bg-sunken px-1 font-mono text-[0.9em] break-words">
        {part}
      </code>
    ),
  );
}
