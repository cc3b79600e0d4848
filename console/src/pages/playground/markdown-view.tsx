import { lazy, memo, Suspense, useState } from 'react';
import { classNames } from '../../components/class-names.ts';
import { CopyButton } from '../../components/copy.tsx';
import { headingLevels, MarkdownReader, type Block, type Inline, type Item } from './markdown.ts';

const Highlighted = lazy(() => import('../../components/highlighted.tsx'));

/** Longer code is not highlighted, so that it can be shown as it streams, in characters. */
const MAX_HIGHLIGHTED = 20_000;

/** A text in Markdown, possibly incomplete. Its HTML is shown as text, and its images as links. */
export const Markdown = memo(function Markdown({ text }: { text: string }) {
  const [reader] = useState(() => new MarkdownReader());
  const blocks = reader.read(text);
  return (
    <div className="space-y-3 break-words">
      <Blocks blocks={blocks} levels={headingLevels(blocks)} />
    </div>
  );
});

interface BlocksProps {
  blocks: readonly Block[];
  /** Levels of the headings. Others, such as those in lists, are only shown as such. */
  levels?: ReadonlyMap<Block, number>;
}

function Blocks({ blocks, levels }: BlocksProps) {
  // Blocks are only appended, so the index is a stable key.
  return blocks.map((block, index) => (
    <BlockView key={`${index}`} block={block} level={levels?.get(block)} />
  ));
}

/** Memoized, because only the last block changes while a response streams. */
const BlockView = memo(function BlockView({ block, level }: { block: Block; level: number | undefined }) {
  switch (block.kind) {
    case 'paragraph':
      return (
        <p className="whitespace-pre-wrap">
          <Inlines parts={block.children} />
        </p>
      );
    case 'heading':
      return (
        <p
          {...(level !== undefined && { role: 'heading', 'aria-level': level })}
          className={HEADINGS[block.depth]}
        >
          <Inlines parts={block.children} />
        </p>
      );
    case 'code':
      return <CodeBlock language={block.language} text={block.text} />;
    case 'math':
      return <p className="font-mono text-xs leading-5 whitespace-pre-wrap">{block.text}</p>;
    case 'quote':
      return (
        <blockquote className="space-y-2 border-l-2 border-line-strong pl-3 text-ink-2">
          <Blocks blocks={block.blocks} />
        </blockquote>
      );
    case 'list':
      return <List start={block.start} items={block.items} />;
    case 'table':
      return <Table {...block} />;
    case 'rule':
      return <hr className="border-line" />;
  }
});

const HEADINGS: Readonly<Record<number, string>> = {
  1: 'pt-2 text-lg font-semibold tracking-tight first:pt-0',
  2: 'pt-2 text-base font-semibold tracking-tight first:pt-0',
  3: 'pt-1 font-semibold first:pt-0',
  4: 'font-semibold',
  5: 'font-medium',
  6: 'font-medium text-ink-2',
};

function Inlines({ parts }: { parts: readonly Inline[] }) {
  return parts.map((part, index) => <InlineView key={`${index}`} part={part} />);
}

const TAGS = { strong: 'strong', emphasis: 'em', strike: 'del' } as const;

function InlineView({ part }: { part: Inline }) {
  switch (part.kind) {
    case 'text':
      return part.text;
    case 'code':
      return (
        <code className="rounded bg-sunken px-1 py-0.5 font-mono text-[0.875em] wrap-anywhere">
          {part.text}
        </code>
      );
    case 'strong':
    case 'emphasis':
    case 'strike': {
      const Tag = TAGS[part.kind];
      return (
        <Tag className={part.kind === 'strong' ? 'font-semibold' : undefined}>
          <Inlines parts={part.children} />
        </Tag>
      );
    }
    case 'link':
      return (
        <a
          href={part.href}
          target="_blank"
          rel="noopener noreferrer"
          title={part.href}
          className="text-accent underline underline-offset-2 wrap-anywhere hover:text-accent-hover"
        >
          <Inlines parts={part.children} />
        </a>
      );
    case 'break':
      return <br />;
  }
}

function List({ start, items }: { start: number | null; items: readonly Item[] }) {
  const Tag = start === null ? 'ul' : 'ol';
  const isTasks = start === null && items.some(({ checked }) => checked !== null);
  return (
    <Tag
      {...(start !== null && { start })}
      className={classNames(
        'space-y-1',
        isTasks ? '' : start === null ? 'list-disc pl-5' : 'list-decimal pl-7',
      )}
    >
      {items.map(({ checked, blocks }, index) => (
        <li
          key={`${index}`}
          className={classNames('marker:text-ink-3', checked === null ? '' : 'flex gap-2')}
        >
          {checked !== null && (
            <input
              type="checkbox"
              checked={checked}
              disabled
              aria-label={checked ? 'Done' : 'Not done'}
              className="mt-1 size-3.5 shrink-0 accent-accent"
            />
          )}
          <div className="min-w-0 space-y-1">
            <Blocks blocks={blocks} />
          </div>
        </li>
      ))}
    </Tag>
  );
}

const ALIGN = { left: 'text-left', center: 'text-center', right: 'text-right' } as const;

function Table({ align, header, rows }: Extract<Block, { kind: 'table' }>) {
  const alignOf = (column: number) => ALIGN[align[column] ?? 'left'];
  return (
    <div
      tabIndex={0}
      role="region"
      aria-label="Table"
      className="overflow-x-auto rounded-lg border border-line"
    >
      <table className="w-full text-sm">
        <thead className="bg-sunken text-xs text-ink-2">
          <tr>
            {header.map((cell, column) => (
              <th key={`${column}`} className={classNames('px-3 py-2 font-medium', alignOf(column))}>
                <Inlines parts={cell} />
              </th>
            ))}
          </tr>
        </thead>
        <tbody className="divide-y divide-line">
          {rows.map((row, index) => (
            <tr key={`${index}`}>
              {row.map((cell, column) => (
                <td
                  key={`${column}`}
                  className={classNames('max-w-96 min-w-16 px-3 py-2 align-top', alignOf(column))}
                >
                  <Inlines parts={cell} />
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function CodeBlock({ language, text }: { language: string; text: string }) {
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
        {text.length > MAX_HIGHLIGHTED ? (
          text
        ) : (
          <Suspense fallback={text}>
            <Highlighted text={text} language={language} />
          </Suspense>
        )}
      </pre>
    </div>
  );
}
