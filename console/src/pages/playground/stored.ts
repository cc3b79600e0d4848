import { emptyAnswer, type Answer, type ToolCall } from './answer.ts';
import { isObject } from '../../format/json.ts';
import { EMPTY_DRAFT, MAX_COLUMNS, type Column, type Draft, type Turn } from './draft.ts';
import { MAX_STOPS, REASONING_EFFORTS, type Settings, type ToolChoice } from './settings.ts';

/** Maximum size of all images together, in characters: half of what browsers store for a site, because there are two copies. */
const MAX_IMAGES = 1_500_000;

/** Returns whether the images of the playground are small enough to be stored. */
export function canStoreImages({ images, columns }: Pick<Draft, 'images' | 'columns'>): boolean {
  const all = [...images, ...columns.flatMap(({ turns }) => turns.flatMap((turn) => turn.images))];
  return all.reduce((sum, { length }) => sum + length, 0) <= MAX_IMAGES;
}

/** Serializes the playground, without log probabilities, responses in progress, and images that are too large. */
export function storedText(draft: Pick<Draft, 'images' | 'columns'> & Partial<Draft>): string {
  const storesImages = canStoreImages(draft);
  const columns = draft.columns.map(({ turns, ...column }) => ({
    ...column,
    turns: storedTurns(turns, storesImages),
  }));
  return JSON.stringify({ ...draft, images: storesImages ? draft.images : [], columns });
}

function storedTurns(turns: readonly Turn[], storesImages: boolean): Turn[] {
  return turns
    .filter((turn) => turn.text !== '' || turn.answer !== null || turn.role === 'user')
    .map((turn) => ({
      ...turn,
      images: storesImages ? turn.images : [],
      answer: turn.answer && withoutLogprobs(turn.answer),
    }));
}

function withoutLogprobs(answer: Answer): Answer {
  return { ...answer, choices: answer.choices.map((choice) => ({ ...choice, logprobs: [] })) };
}

/** Parses a stored playground. Invalid values, such as those of another version, get their defaults. */
export function fromStored(text: string | null): Draft {
  let value: unknown;
  try {
    value = JSON.parse(text ?? 'null');
  } catch {
    return EMPTY_DRAFT;
  }
  return draftOf(value);
}

/** Like `fromStored`, for the value of the JSON. */
export function draftOf(value: unknown): Draft {
  if (!isObject(value)) return EMPTY_DRAFT;
  const columns = Array.isArray(value.columns) ? value.columns.slice(0, MAX_COLUMNS).flatMap(columnOf) : [];
  return {
    id: textOf(value.id, EMPTY_DRAFT.id),
    system: textOf(value.system, EMPTY_DRAFT.system),
    input: textOf(value.input, EMPTY_DRAFT.input),
    inputRole: roleOf(value.inputRole),
    images: imagesOf(value.images),
    columns: columns.length > 0 ? columns : EMPTY_DRAFT.columns,
    settings: settingsOf(value.settings),
  };
}

function columnOf(value: unknown): Column[] {
  if (!isObject(value)) return [];
  return [
    {
      model: textOf(value.model, ''),
      turns: Array.isArray(value.turns) ? value.turns.flatMap(turnOf) : [],
    },
  ];
}

function turnOf(value: unknown): Turn[] {
  if (!isObject(value) || typeof value.id !== 'string' || typeof value.text !== 'string') return [];
  const { id, text, calls } = value;
  return [
    {
      id,
      role: roleOf(value.role),
      text,
      images: imagesOf(value.images),
      calls: Array.isArray(calls)
        ? calls.flatMap((call: unknown) =>
            callOf(call).map((valid) => ({
              ...valid,
              result: isObject(call) ? textOf(call.result, '') : '',
            })),
          )
        : [],
      answer: answerOf(value.answer),
    },
  ];
}

function callOf(value: unknown): ToolCall[] {
  if (!isObject(value) || typeof value.id !== 'string') return [];
  return [{ id: value.id, name: textOf(value.name, ''), arguments: textOf(value.arguments, '') }];
}

function answerOf(value: unknown): Answer | null {
  if (!isObject(value) || !Array.isArray(value.choices)) return null;
  const { usage, fault } = value;
  return {
    ...emptyAnswer(textOf(value.model, '')),
    choices: value.choices.flatMap((choice: unknown) =>
      isObject(choice) && typeof choice.text === 'string'
        ? [
            {
              text: choice.text,
              reasoning: textOf(choice.reasoning, ''),
              calls: Array.isArray(choice.calls) ? choice.calls.flatMap(callOf) : [],
              finish: orNull(choice.finish, 'string'),
              logprobs: [],
            },
          ]
        : [],
    ),
    chosen: numberOf(value.chosen, 0),
    requestId: orNull(value.requestId, 'string'),
    ttftMs: orNull(value.ttftMs, 'number'),
    totalMs: orNull(value.totalMs, 'number'),
    usage: isObject(usage)
      ? {
          promptTokens: numberOf(usage.promptTokens, 0),
          completionTokens: numberOf(usage.completionTokens, 0),
          reasoningTokens: numberOf(usage.reasoningTokens, 0),
          cachedTokens: numberOf(usage.cachedTokens, 0),
        }
      : null,
    cost: orNull(value.cost, 'string'),
    fault: isObject(fault)
      ? {
          message: textOf(fault.message, ''),
          code: textOf(fault.code, ''),
          param: orNull(fault.param, 'string'),
          requestId: orNull(fault.requestId, 'string'),
          retryAtMs: orNull(fault.retryAtMs, 'number'),
        }
      : null,
    stopped: value.stopped === true,
  };
}

/** Returns settings from a stored value. Invalid ones get their defaults. */
export function settingsOf(value: unknown): Settings {
  const { settings } = EMPTY_DRAFT;
  if (!isObject(value)) return settings;
  const numbers = isObject(value.numbers) ? Object.entries(value.numbers) : [];
  const { format } = value;
  return {
    // Unknown names are harmless: requests only include known parameters.
    numbers: Object.fromEntries(numbers.filter(([, typed]) => typeof typed === 'string')),
    stop: Array.isArray(value.stop)
      ? value.stop.filter((one) => typeof one === 'string').slice(0, MAX_STOPS)
      : settings.stop,
    format: format === 'json_object' || format === 'json_schema' ? format : 'text',
    schemaName: textOf(value.schemaName, settings.schemaName),
    schema: textOf(value.schema, settings.schema),
    logprobs: value.logprobs === true,
    user: textOf(value.user, settings.user),
    stream: value.stream !== false,
    tools: textOf(value.tools, settings.tools),
    toolChoice: toolChoiceOf(value.toolChoice),
    parallelToolCalls: value.parallelToolCalls !== false,
    reasoningEffort: REASONING_EFFORTS.find((effort) => effort === value.reasoningEffort) ?? '',
    templateVariables: textOf(value.templateVariables, settings.templateVariables),
  };
}

function toolChoiceOf(value: unknown): ToolChoice {
  if (value === 'none' || value === 'required') return value;
  return typeof value === 'string' && value.startsWith('function:') ? (value as ToolChoice) : 'auto';
}

function imagesOf(value: unknown): string[] {
  if (!Array.isArray(value)) return [];
  return value.filter((image) => typeof image === 'string' && image.startsWith('data:image/'));
}

function roleOf(value: unknown): Turn['role'] {
  return value === 'assistant' ? 'assistant' : 'user';
}

function textOf(value: unknown, otherwise: string): string {
  return typeof value === 'string' ? value : otherwise;
}

function numberOf(value: unknown, otherwise: number): number {
  return typeof value === 'number' ? value : otherwise;
}

function orNull<Type extends 'string' | 'number'>(
  value: unknown,
  type: Type,
): (Type extends 'string' ? string : number) | null {
  // TypeScript does not narrow conditional types by `typeof`.
  return typeof value === type ? (value as Type extends 'string' ? string : number) : null;
}
