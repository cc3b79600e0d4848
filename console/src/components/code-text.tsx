/** Text of the service, such as an error message, in which the parts in backquotes are shown as code. */
export function CodeText({ text }: { text: string }) {
  // A backquote without a partner stays in the text.
  const parts = text.split(/`([^`]*)`/);
  // The parts never change order.
  return parts.map((part, index) =>
    index % 2 === 0 ? (
      part
    ) : (
      <code key={index} className="font-mono text-[0.92em] wrap-anywhere">
        {part}
      </code>
    ),
  );
}
