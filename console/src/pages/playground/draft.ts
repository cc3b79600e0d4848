import { emptyAnswer, isCompleteCall, isInProgress, type Answer, type ToolCall } from './answer.ts';
import { DEFAULTS, type Settings } from './settings.ts';

/** The input and responses of the playground, stored in the browser. */
export interface Draft extends Conversation {
  /** The message being typed, and its role. */
  input: string;
  inputRole: Turn['role'];
  /** Its images, as data URIs. */
  images: readonly string[];
}

/** The part of the playground that is stored as a conversation. */
export interface Conversation {
  id: string;
  /** System prompt; empty: none. */
  system: string;
  settings: Settings;
  /** One to `MAX_COLUMNS` side by side. */
  columns: readonly Column[];
}

/** Maximum number of models that are compared. */
export const MAX_COLUMNS = 4;

/** A model and its conversation. */
export interface Column {
  /** Empty: not selected yet. */
  model: string;
  turns: readonly Turn[];
}

export interface Turn {
  /** Unique in the playground. */
  id: string;
  role: 'user' | 'assistant';
  /** For responses, the text of the selected choice. */
  text: string;
  /** As data URIs. Sent only with messages of the user. */
  images: readonly string[];
  /** For responses, the calls of the selected choice; incomplete calls are not sent back. */
  calls: readonly TurnCall[];
  /** The response, possibly in progress; null: written by the user. */
  answer: Answer | null;
}

/** A tool call with its result. */
interface TurnCall extends ToolCall {
  /** As typed by the user; empty: missing. */
  result: string;
}

/** An empty playground. */
export const EMPTY_DRAFT: Draft = {
  id: '',
  system: '',
  input: '',
  inputRole: 'user',
  images: [],
  columns: [{ model: '', turns: [] }],
  settings: DEFAULTS,
};

/** Sets the model of a column; creates the next column if needed, with a copy of the first conversation. */
export function withModel(draft: Draft, column: number, model: string): Draft {
  const old = draft.columns[column];
  if (old?.model === model) return draft;
  if (old) return { ...draft, columns: draft.columns.with(column, { ...old, model }) };
  if (draft.columns.length >= MAX_COLUMNS) return draft;
  const turns = draft.columns[0]?.turns.filter((turn) => !isBlank(turn)) ?? [];
  const copies = turns.map((turn) => ({ ...turn, id: newId() }));
  return { ...draft, columns: [...draft.columns, { model, turns: copies }] };
}

/** Returns whether a turn has no content, such as a response that failed. */
function isBlank({ text, images, calls }: Turn): boolean {
  return text === '' && images.length === 0 && calls.length === 0;
}

export function withoutColumn(draft: Draft, column: number): Draft {
  return { ...draft, columns: draft.columns.filter((_, index) => index !== column) };
}

/** Changes a turn, if it is there. */
function withTurn(draft: Draft, id: string, change: (turn: Turn) => Turn): Draft {
  return withTurnsFrom(draft, id, ([turn, ...later]) => [change(turn), ...later]);
}

/** Changes the text of a turn, which is no longer a response: its usage and timing were for the original text. */
export function edited(draft: Draft, id: string, text: string): Draft {
  return withTurn(draft, id, (turn) => ({ ...turn, text, answer: null }));
}

export function withoutTurn(draft: Draft, id: string): Draft {
  return withTurnsFrom(draft, id, ([, ...later]) => later);
}

/** Sets the result of a call. */
export function withResult(draft: Draft, id: string, call: string, result: string): Draft {
  return withTurn(draft, id, (turn) => ({
    ...turn,
    calls: turn.calls.map((one) => (one.id === call ? { ...one, result } : one)),
  }));
}

/** Changes the response of a turn. Keeps the results of its calls, which the user may have typed in the meantime. */
export function answered(draft: Draft, id: string, change: (answer: Answer) => Answer): Draft {
  return withTurn(draft, id, (turn) => {
    if (turn.answer === null) return turn;
    const answer = change(turn.answer);
    const { text = '', calls = [] } = answer.choices[answer.chosen] ?? {};
    const results = new Map(turn.calls.map((call) => [call.id, call.result]));
    const withResults = calls.map((call) => ({ ...call, result: results.get(call.id) ?? '' }));
    return { ...turn, text, calls: withResults, answer };
  });
}

/** A turn and those after it. */
type TurnsFrom = readonly [Turn, ...Turn[]];

/** Replaces a turn and those after it, in its column. Returns the same draft if the turn is not there. */
function withTurnsFrom(draft: Draft, id: string, change: (turns: TurnsFrom) => readonly Turn[]): Draft {
  for (const [index, column] of draft.columns.entries()) {
    const at = column.turns.findIndex((turn) => turn.id === id);
    const [first, ...later] = column.turns.slice(at);
    if (at === -1 || first === undefined) continue;
    const turns = [...column.turns.slice(0, at), ...change([first, ...later])];
    return { ...draft, columns: draft.columns.with(index, { ...column, turns }) };
  }
  return draft;
}

/** Returns the calls of a turn that are sent back. Incomplete calls are not: the API refuses them. */
export function sentCalls({ calls }: Pick<Turn, 'calls'>): readonly TurnCall[] {
  return calls.filter(isCompleteCall);
}

/** Returns whether the last turn of a column has calls without results. No message may follow them. */
export function awaitsResults({ turns }: Pick<Column, 'turns'>): boolean {
  const last = turns.at(-1);
  return last !== undefined && sentCalls(last).some(({ result }) => result === '');
}

/** Returns whether the last turn is a user message, or a response with calls that all have results. */
export function canRespond({ turns }: Pick<Column, 'turns'>): boolean {
  const last = turns.at(-1);
  if (last === undefined || last.role === 'user') return last !== undefined;
  return sentCalls(last).length > 0 && !awaitsResults({ turns });
}

/** Adds the input as a turn to every column, and one for each response. Does nothing if a call has no result. */
export function sent(draft: Draft): Draft {
  if (draft.columns.some(awaitsResults)) return draft;
  const columns = draft.columns.map((column) => {
    const turns = hasInput(draft) ? [...column.turns, inputTurn(draft, 'user')] : column.turns;
    return canRespond({ turns }) ? { ...column, turns: [...turns, pendingTurn(column)] } : column;
  });
  return { ...draft, columns, input: '', images: [] };
}

/** Adds the input as a turn to every column, without a response. Does nothing if a call has no result. */
export function added(draft: Draft): Draft {
  if (draft.columns.some(awaitsResults)) return draft;
  const columns = draft.columns.map((column) => ({
    ...column,
    turns: [...column.turns, inputTurn(draft, draft.inputRole)],
  }));
  const isUser = draft.inputRole === 'user';
  const images = isUser ? [] : draft.images;
  return { ...draft, columns, input: '', images, inputRole: isUser ? 'assistant' : 'user' };
}

/**
 * Asks for a new response to a user turn, or in place of a response. Removes later turns of its column. `text` replaces
 * the text of a user turn.
 */
export function rerun(draft: Draft, id: string, text?: string): Draft {
  return withAnswer(draft, id, ([turn], answer) => {
    if (turn.role === 'assistant') return [answer];
    // The replaced text is counted among the removed messages, and can be restored with them.
    return [text === undefined ? turn : { ...turn, id: newId(), text }, answer];
  });
}

/** Asks for a response after a turn, whose calls have results. Removes later turns of its column. */
export function continued(draft: Draft, id: string): Draft {
  return withAnswer(draft, id, ([turn], answer) => [turn, answer]);
}

/** Sends a message after the last turn of the column of this turn. Keeps the message being typed. */
export function asked(draft: Draft, id: string, text: string): Draft {
  return withAnswer(draft, id, (turns, answer) => [...turns, written('user', text), answer]);
}

function withAnswer(
  draft: Draft,
  id: string,
  change: (turns: TurnsFrom, answer: Turn) => readonly Turn[],
): Draft {
  const column = draft.columns.find(({ turns }) => turns.some((turn) => turn.id === id));
  return column ? withTurnsFrom(draft, id, (turns) => change(turns, pendingTurn(column))) : draft;
}

/** Returns whether there is a message to send: a text, or images of the user. */
export function hasInput({
  input,
  inputRole,
  images,
}: Pick<Draft, 'input' | 'inputRole' | 'images'>): boolean {
  return input.trim() !== '' || (inputRole === 'user' && images.length > 0);
}

/** Returns the input as it is sent, without trailing white space. */
export function inputOf({ input }: Pick<Draft, 'input'>): string {
  return input.trimEnd();
}

/** Returns how many turns of a draft are missing after a change. */
export function removedTurns(before: Draft, after: Draft): number {
  const idsOf = ({ columns }: Draft) => new Set(columns.flatMap(({ turns }) => turns.map(({ id }) => id)));
  return idsOf(before).difference(idsOf(after)).size;
}

/** Starts a conversation with the same models, system prompt and parameters. Keeps the message being typed. */
export function newChat(draft: Draft): Draft {
  return { ...withoutTurns(draft), id: newId() };
}

/** Returns a draft with the same models, and no messages. */
export function withoutTurns(draft: Draft): Draft {
  return { ...draft, columns: draft.columns.map(({ model }) => ({ model, turns: [] })) };
}

/**
 * Returns a conversation as it was stored. Responses that were in progress are stopped; those that the service had not
 * accepted are left out.
 */
export function opened({ id, system, settings, columns }: Conversation): Conversation {
  const ended = (turn: Turn): Turn[] => {
    const { answer } = turn;
    if (answer === null || !isInProgress(answer)) return [turn];
    return answer.requestId === null ? [] : [{ ...turn, answer: { ...answer, stopped: true } }];
  };
  return {
    id,
    system,
    // Settings of an earlier version may lack some.
    settings: { ...DEFAULTS, ...settings },
    columns: columns.map((column) => ({ ...column, turns: column.turns.flatMap(ended) })),
  };
}

/** Returns a draft whose images were left out, with those of the same turns in a stored conversation. */
export function withImagesOf(stored: Pick<Draft, 'columns'> | null, draft: Draft): Draft {
  const turns = (stored?.columns ?? []).flatMap((column) => column.turns);
  const images = new Map(turns.map((turn) => [turn.id, turn.images]));
  const complete = (turn: Turn): Turn =>
    turn.images.length > 0 ? turn : { ...turn, images: images.get(turn.id) ?? [] };
  return {
    ...draft,
    columns: draft.columns.map((column) => ({ ...column, turns: column.turns.map(complete) })),
  };
}

/** Returns what a new tab starts with: the same models and parameters, and the input of a chat that has not begun. */
export function forNewTab(draft: Draft): Draft {
  const input = hasTurns(draft) ? { input: '', inputRole: 'user' as const } : {};
  return { ...withoutTurns(draft), ...input, id: '', images: [] };
}

/** Returns the model of each column. */
export function modelsOf({ columns }: Pick<Draft, 'columns'>): string[] {
  return columns.map(({ model }) => model);
}

/** Returns whether there is a conversation to store. */
export function hasTurns({ columns }: Pick<Draft, 'columns'>): boolean {
  return columns.some(({ turns }) => turns.length > 0);
}

/** Returns whether any response is in progress. Nothing follows it. */
export function isRunning({ columns }: Pick<Draft, 'columns'>): boolean {
  return columns.some(({ turns }) => {
    const answer = turns.at(-1)?.answer;
    return answer ? isInProgress(answer) : false;
  });
}

function written(role: Turn['role'], text: string): Turn {
  return { id: newId(), role, text, images: [], calls: [], answer: null };
}

/** Returns a turn for the next response. */
function pendingTurn({ model }: Column): Turn {
  return { ...written('assistant', ''), answer: emptyAnswer(model) };
}

/** Returns the input as a turn. */
function inputTurn(draft: Draft, role: Turn['role']): Turn {
  return { ...written(role, inputOf(draft)), images: role === 'user' ? draft.images : [] };
}

/** Returns a random id. `crypto.randomUUID` is not available on pages loaded over plain HTTP. */
export function newId(): string {
  return Array.from(crypto.getRandomValues(new Uint32Array(3)), (part) => part.toString(36)).join('-');
}
