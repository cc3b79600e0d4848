import { streamed } from '../../api/generate.ts';
import type { Column, Draft, Turn } from './draft.ts';
import type { Mode } from './parameters.ts';
import { numbersOf, readJson, unescaped, type Settings } from './settings.ts';

/** A request as the interface takes it. */
export type RequestBody = Readonly<Record<string, unknown>>;

/**
 * The request for the answer that is to stand as the turn `until`, without what says how it is sent; null: for the
 * one after all turns and what is being typed. The settings have no faults.
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
      // An answer that never came says nothing.
      .filter(({ role, text }) => role === 'user' || text !== '')
      .map(({ role, text }) => ({ role, content: text })),
  ];
  return { model, messages, ...settingsOf(settings, mode) };
}

/** The request that is sent next, as it goes over the wire; where nothing is typed, the one that was answered last. */
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

/** A chat is asked for them in two fields, a text in one. */
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

/** What is no JSON goes as it was typed: a sample of code shows it, and nothing sends it. */
function valueOf(text: string): unknown {
  const read = readJson(text);
  return 'value' in read ? read.value : text;
}
