import { memo, useMemo } from 'react';
import { CopyButton } from '../../components/copy.tsx';
import { blocksOf, type Block } from './fences.ts';

/** A completion with its code blocks. Always rendered as text, never as markup. */
export const RichText = memo(function RichText({ text }: { text: string }) {
  const blocks = useMemo(() => blocksOf(text), [text]);
  return (
    <div className="space-y-3">
      {/* Blocks are only appended, so the index is a stable key. */}
      {blocks.map((block, index) => (
        <Part key={`${index}`} {...block} />
      ))}
    </div>
  );
});

/** Memoized, because only the last block changes while a response streams. */
const Part = memo(function Part({ kind, language, text }: Block) {
  if (kind === 'prose')
    return <div className="break-words whitespace-pre-wrap">{text.replace(/^\n+|\n+$/g, '')}</div>;
  return (
    <div className="overflow-hidden rounded-lg border border-line bg-sunken">
      <div className="flex h-9 items-center justify-between border-b border-line pr-1 pl-3">
        <span className="truncate font-mono text-2xs text-ink-3">{language === '' ? 'Code' : language}</span>
        <CopyButton text={text} what="code" />
      </div>
      <pre
        tabIndex={0}
        className="overflow-x-auto p-3 font-mono text-xs leading-5 focus-visible:-outline-offset-2"
      >
        {text}
      </pre>
    </div>
  );
});
