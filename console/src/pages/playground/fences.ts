/** A piece of an answer: prose, or code between fences. */
export interface Block {
  kind: 'prose' | 'code';
  /** Of code, as its fence names it; empty: it does not. */
  language: string;
  text: string;
}

const OPENING = /^ {0,3}(`{3,}|~{3,})[ \t]*([^`\n]*)$/;

/**
 * Splits a text at its code fences, as Markdown has them: a fence ends with one of the same characters at least as
 * long. A fence that is still open holds all that follows, so that code looks like code while it comes.
 */
export function blocksOf(text: string): Block[] {
  const blocks: Block[] = [];
  let prose: string[] = [];
  let code: { fence: string; language: string; lines: string[] } | null = null;
  const endProse = () => {
    const text = prose.join('\n');
    if (text.trim() !== '') blocks.push({ kind: 'prose', language: '', text });
    prose = [];
  };
  const endCode = ({ language, lines }: NonNullable<typeof code>) =>
    blocks.push({ kind: 'code', language, text: lines.join('\n') });
  for (const line of text.split('\n')) {
    if (code !== null) {
      if (closes(line, code.fence)) {
        endCode(code);
        code = null;
      } else code.lines.push(line);
      continue;
    }
    const [, fence, language = ''] = OPENING.exec(line) ?? [];
    if (fence === undefined) prose.push(line);
    else {
      endProse();
      code = { fence, language: language.trim().split(/\s/, 1)[0] ?? '', lines: [] };
    }
  }
  endProse();
  if (code !== null) endCode(code);
  return blocks;
}

function closes(line: string, fence: string): boolean {
  const bare = line.trim();
  return bare.length >= fence.length && bare === (fence[0] ?? '').repeat(bare.length);
}
