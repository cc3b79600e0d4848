/** A block of a completion: prose or fenced code. */
export interface Block {
  kind: 'prose' | 'code';
  /** Language of code, as named by the fence; empty: none. */
  language: string;
  text: string;
}

const OPENING = /^ {0,3}(`{3,}|~{3,})[ \t]*([^`\n]*)$/;

/**
 * Splits a text at Markdown code fences. A closing fence has the same character and at least the same length. An open
 * fence extends to the end, so that code is shown as code while it is generated.
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
