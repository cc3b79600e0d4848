import { CodeText } from './code-text.tsx';
import { TextLink } from './link.tsx';
import { GUIDE } from './guide-pages.ts';

/** Like `CodeText`, and references such as `docs/limits.md, "Key limits"` are links to the guide. */
export function GuideText({ text }: { text: string }) {
  // Captures the page and the section.
  const parts = text.split(/docs\/([\w-]+)\.md(?:, "([^"]+)")?/);
  return parts.map((part, index) => {
    // The parts never change order.
    if (index % 3 === 0) return <CodeText key={index} text={part} />;
    if (index % 3 === 2) return null;
    return <GuideLink key={index} slug={part} section={parts[index + 1]} />;
  });
}

function GuideLink({ slug, section }: { slug: string; section: string | undefined }) {
  const page = GUIDE.flatMap(({ pages }) => pages).find((one) => one.slug === slug);
  if (section === undefined) return <TextLink to={`/docs/guide/${slug}`}>{page?.title ?? slug}</TextLink>;
  const anchor = section
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}\s_-]/gu, '')
    .replaceAll(/\s/g, '-');
  return (
    <TextLink to={`/docs/guide/${slug}#${anchor}`}>
      {page?.title ?? slug}: {section}
    </TextLink>
  );
}
