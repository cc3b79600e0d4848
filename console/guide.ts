import { Marked, type Tokens } from 'marked';
import { highlight } from './src/components/highlight.ts';

/** A page of `docs/` for the console. */
export interface GuideContent {
  /** The first heading. */
  title: string;
  /** The text below it. */
  html: string;
  /** Second-level headings, for the table of contents. */
  sections: { id: string; title: string }[];
}

/**
 * Renders a page. Links to other pages of `docs/` lead to the console; links to other files of the repository become
 * plain text. Pictures, which show the console, are left out. Headings have the anchors that GitHub gives them.
 */
export function renderGuide(markdown: string): GuideContent {
  const sections: GuideContent['sections'] = [];
  const ids = new Map<string, number>();
  let title = '';
  const marked = new Marked({
    renderer: {
      heading({ tokens, depth, text }: Tokens.Heading) {
        const plain = text.replaceAll('`', '');
        if (depth === 1) {
          title = plain;
          return '';
        }
        const id = anchorOf(text, ids);
        if (depth === 2) sections.push({ id, title: plain });
        return `<h${depth} id="${id}">${this.parser.parseInline(tokens)}</h${depth}>\n`;
      },
      code({ text, lang = '' }: Tokens.Code) {
        const pieces = highlight(text, lang).map(({ text: piece, kind }) =>
          kind === null ? escaped(piece) : `<span class="code-${kind}">${escaped(piece)}</span>`,
        );
        return `<pre tabindex="0"><code>${pieces.join('')}</code></pre>\n`;
      },
      table({ header, rows }: Tokens.Table) {
        const cells = (row: readonly Tokens.TableCell[], tag: string) =>
          row.map(({ tokens }) => `<${tag}>${this.parser.parseInline(tokens)}</${tag}>`).join('');
        const body = rows.map((row) => `<tr>${cells(row, 'td')}</tr>`).join('');
        const head = header.some(({ text }) => text !== '')
          ? `<thead><tr>${cells(header, 'th')}</tr></thead>`
          : '';
        return `<div class="guide-table" tabindex="0"><table>${head}<tbody>${body}</tbody></table></div>\n`;
      },
      link({ href, tokens }: Tokens.Link) {
        const inner = this.parser.parseInline(tokens);
        const to = hrefOf(href);
        return to === null ? inner : `<a href="${escaped(to)}"${isExternal(to) ? EXTERNAL : ''}>${inner}</a>`;
      },
      image: () => '',
      html: () => '',
    },
  });
  const html = marked.parse(markdown, { async: false }).replaceAll(/<p>\s*<\/p>\n?/g, '');
  return { title, html, sections };
}

const EXTERNAL = ' target="_blank" rel="noreferrer"';

const isExternal = (href: string): boolean => /^[a-z][a-z0-9+.-]*:/.test(href);

/** Returns the address of a link in the console; null: the file is not served. */
function hrefOf(href: string): string | null {
  if (isExternal(href) || href.startsWith('#')) return href;
  const [, page, anchor = ''] = /^([\w-]+)\.md(#.*)?$/.exec(href) ?? [];
  return page === undefined ? null : `/docs/guide/${page}${anchor}`;
}

function anchorOf(title: string, ids: Map<string, number>): string {
  const slug = title
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}\s_-]/gu, '')
    .replaceAll(/\s/g, '-');
  const count = ids.get(slug) ?? 0;
  ids.set(slug, count + 1);
  return count === 0 ? slug : `${slug}-${count}`;
}

function escaped(text: string): string {
  return text
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;');
}
