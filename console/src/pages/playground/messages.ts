import { inputOf, sentCalls, type Draft, type Turn } from './draft.ts';

/** A message of a chat request. */
type Message = Readonly<Record<string, unknown>>;

/**
 * Returns the messages of a chat: the system prompt, these turns and, with `withInput`, the input. Responses with
 * neither text nor calls are skipped.
 */
export function messagesOf(draft: Draft, turns: readonly Turn[], withInput: boolean): Message[] {
  const typed = withInput && draft.input.trim() !== '';
  const endsWithUser = typed && draft.inputRole === 'user';
  const lastUser = endsWithUser ? turns.length : turns.findLastIndex(({ role }) => role === 'user');
  return [
    ...(draft.system.trim() === '' ? [] : [{ role: 'system', content: draft.system }]),
    ...turns.flatMap((turn, index) => turnMessages(turn, index > lastUser)),
    ...(typed ? [{ role: draft.inputRole, content: inputOf(draft) }] : []),
  ];
}

/** Returns the messages of a turn: the calls of a response are followed by their results. */
function turnMessages(turn: Turn, afterLastUser: boolean): Message[] {
  const { role, text } = turn;
  if (role === 'user') return [{ role, content: text }];
  const calls = sentCalls(turn);
  if (calls.length === 0) return text === '' ? [] : [{ role, content: text }];
  const reasoning = afterLastUser ? reasoningOf(turn) : '';
  return [
    {
      role,
      content: text === '' ? null : text,
      ...(reasoning !== '' && { reasoning_content: reasoning }),
      tool_calls: calls.map((call) => ({
        id: call.id,
        type: 'function',
        function: { name: call.name, arguments: call.arguments === '' ? '{}' : call.arguments },
      })),
    },
    ...calls.map(({ id, result }) => ({ role: 'tool', tool_call_id: id, content: result })),
  ];
}

/**
 * Returns the reasoning before the calls of a turn, which models continue when they get the results. Reasoning before
 * the last user message is not sent, because chat templates leave it out.
 */
function reasoningOf({ answer }: Turn): string {
  return answer?.choices[answer.chosen]?.reasoning ?? '';
}
