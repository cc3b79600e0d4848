import { streamed } from '../../api/generate.ts';
import { EMPTY_DRAFT, sentCalls, type Conversation, type Turn } from './draft.ts';
import { requestOf } from './request.ts';

/** Returns a conversation as a document in Markdown. Images are left out. */
export function markdownOf(title: string, { system, columns }: Omit<Conversation, 'id'>): string {
  const parts = [`# ${title}`];
  if (system.trim() !== '') parts.push('## System prompt', system.trim());
  for (const { model, turns } of columns) {
    if (columns.length > 1) parts.push(`# ${model}`);
    for (const turn of turns) {
      parts.push(
        `## ${turn.role === 'user' ? 'User' : (turn.answer?.model ?? 'Assistant')}`,
        ...bodyOf(turn),
      );
    }
  }
  return `${parts.join('\n\n')}\n`;
}

function bodyOf(turn: Turn): string[] {
  const calls = sentCalls(turn).flatMap(({ name, arguments: json, result }) => [
    `Call of \`${name}\`:`,
    fenced('json', json === '' ? '{}' : json),
    ...(result === '' ? [] : ['Result:', fenced('', result)]),
  ]);
  const images = turn.images.length > 0 ? [`_${turn.images.length} images_`] : [];
  return [...images, ...(turn.text.trim() === '' ? [] : [turn.text.trim()]), ...calls];
}

/** Returns a code block whose fence is longer than those in the text. */
function fenced(language: string, text: string): string {
  const longest = [...text.matchAll(/`+/g)].reduce((most, [ticks]) => Math.max(most, ticks.length), 2);
  const fence = '`'.repeat(longest + 1);
  return `${fence}${language}\n${text}\n${fence}`;
}

/** Returns a conversation as JSON: for each model, the request that would continue it, with all messages and parameters. */
export function jsonOf(title: string, updatedAtMs: number, conversation: Conversation): string {
  const { columns, settings } = conversation;
  const draft = { ...EMPTY_DRAFT, ...conversation };
  const requests = columns.map((column) => streamed(requestOf(draft, column, {}), settings.stream));
  return `${JSON.stringify({ title, updated_at: new Date(updatedAtMs).toISOString(), requests }, null, 2)}\n`;
}

/** Returns a file name that all systems accept. */
export function fileNameOf(title: string, extension: 'md' | 'json'): string {
  const name = title
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}]+/gu, '-')
    .replaceAll(/^-+|-+$/g, '')
    .slice(0, 60);
  return `${name === '' ? 'conversation' : name}.${extension}`;
}
