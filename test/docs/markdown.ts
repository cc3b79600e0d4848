import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

export const ROOT = join(import.meta.dirname, '..', '..');

/** Paths of all Markdown files, relative to the root. */
export const PAGES: readonly string[] = [
  ...globSync('*.md', { cwd: ROOT }),
  ...globSync('docs/**/*.md', { cwd: ROOT }),
].sort();

export function readPage(page: string): string {
  return readFileSync(join(ROOT, page), 'utf8');
}

/** Returns the anchors that GitHub generates for the headings of a page. */
export function anchorsOf(text: string): Set<string> {
  const seen = new Map<string, number>();
  const anchors = new Set<string>();
  for (const [, title = ''] of withoutCode(text).matchAll(/^#{1,6} +(.+?) *#*$/gm)) {
    const slug = title
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N}\s_-]/gu, '')
      .replaceAll(/\s/g, '-');
    const count = seen.get(slug) ?? 0;
    seen.set(slug, count + 1);
    anchors.add(count === 0 ? slug : `${slug}-${count}`);
  }
  return anchors;
}

/** Returns the targets of the links of a page, except in code. */
export function linksOf(text: string): string[] {
  const prose = withoutCode(text).replaceAll(/`[^`\n]*`/g, '');
  return [...prose.matchAll(/\]\(([^()\s]+)\)/g)].map((match) => match[1] ?? '');
}

/** Returns the rows of all tables of a page, with trimmed cells. */
export function rowsOf(text: string): string[][] {
  return withoutCode(text)
    .split('\n')
    .filter((line) => line.startsWith('|') && !/^\|[\s|:-]+$/.test(line))
    .map((line) =>
      line
        .split(/(?<!\\)\|/)
        .slice(1, -1)
        .map((cell) => cell.trim().replaceAll('\\|', '|')),
    );
}

export interface Snippet {
  page: string;
  name: string;
  /** The word after the fence, such as `python`. */
  language: string;
  code: string;
}

/** Returns the code blocks below `<!-- snippet: name -->`, which a test runs. */
export function snippetsOf(page: string): Snippet[] {
  const pattern = /<!-- snippet: ([\w-]+) -->\s*```(\w+)\n([\s\S]*?)\n```/g;
  return [...readPage(page).matchAll(pattern)].map(([, name = '', language = '', code = '']) => ({
    page,
    name,
    language,
    code,
  }));
}

/** Returns the contents of unindented code blocks of a language. */
export function blocksOf(text: string, language: string): string[] {
  const pattern = new RegExp(`^\`\`\`${language}\\n([\\s\\S]*?)\\n\`\`\`$`, 'gm');
  return [...text.matchAll(pattern)].map(([, code = '']) => code);
}

function withoutCode(text: string): string {
  return text.replaceAll(/^ *```[\s\S]*?^ *```/gm, '');
}
