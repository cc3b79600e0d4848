import { streamed } from '../../api/generate.ts';
import type { Column, Draft, Turn } from './draft.ts';
import type { Mode } from './parameters.ts';
import { numbersOf, readJson, unescaped, type Settings } from './settings.ts';

/** A request body of the API. */
export type RequestBody = Readonly<Record<string, unknown>>;

/**
 * Returns the request for the response in the turn `until`, without stream parameters; null: for the next response,
 * after all turns and the current input. The settings must be valid.
 */
export function requestOf(draft: Draft, { model, turns }: Column, until: string | null = null): RequestBody {
  const { mode, settings } = draft;
  if (mode === 'text') return { model, prompt: draft.prompt, ...settingsOf(settings, mode) };
  const at = until === null ? turns.length : turns.findIndex(({ id }) => id === until);
  const before: Pick<Turn, 'role' | 'text'>[] = turns.slice(0, at === -1 ? turns.length : at);
  const typed =
    until === null && draft.input.trim() !== '' ? [{ role: draft.inputRole, text: draft.input }] : [];
  const messages = [
    ...(draft.system.trim() === '' ? [] : [{ role: 'system', content: draft.system }]),
    ...[...before, ...typed]
      // Skips responses without text.
      .filter(({ role, text }) => role === 'user' || text !== '')
      .map(({ role, text }) => ({ role, content: text })),
  ];
  return { model, messages, ...settingsOf(settings, mode) };
}

/** Returns the full request that is sent next; without input, the last one sent. */
export function sentRequest(draft: Draft, column: Column): RequestBody {
  const last = column.turns.at(-1);
  const answered = draft.input.trim() === '' && last?.role === 'assistant' ? last.id : null;
  return streamed(requestOf(draft, column, answered), draft.settings.stream);
}

function settingsOf(settings: Settings, mode: Mode): RequestBody {
  const numbers: Record<string, number> = {};
  for (const { name } of numbersOf(mode, settings)) {
    const typed = settings.numbers[name]?.trim() ?? '';
    if (typed !== '') numbers[name] = Number(typed);
  }
  const { top_logprobs: alternatives, ...others } = numbers;
  const stop = settings.stop.filter((typed) => typed !== '').map(unescaped);
  return {
    ...others,
    ...(stop.length > 0 && { stop }),
    ...(settings.logprobs && logprobsOf(mode, alternatives)),
    ...(mode === 'text' && settings.echo && { echo: true }),
    ...formatOf(settings),
    ...(settings.logitBias.trim() !== '' && { logit_bias: valueOf(settings.logitBias) }),
    ...(settings.user !== '' && { user: settings.user }),
  };
}

/** Chat completions use two fields, text completions one. */
function logprobsOf(mode: Mode, alternatives: number | undefined): RequestBody {
  if (mode === 'text') return { logprobs: alternatives ?? 0 };
  return { logprobs: true, ...(alternatives !== undefined && { top_logprobs: alternatives }) };
}

function formatOf({ format, schemaName, schema }: Settings): RequestBody {
  switch (format) {
    case 'text':
      return {};
    case 'json_object':
      return { response_format: { type: 'json_object' } };
    case 'json_schema': {
      const json_schema = { name: schemaName, schema: valueOf(schema) };
      return { response_format: { type: 'json_schema', json_schema } };
    }
  }
}

/** Parses JSON. Invalid JSON is returned as text for code samples; it is never sent. */
function valueOf(text: string): unknown {
  const read = readJson(text);
  return 'value' in read ? read.value : text;
}
