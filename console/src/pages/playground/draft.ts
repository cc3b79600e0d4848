import { isCompleteCall, type Answer, type ToolCall } from './answer.ts';
import { DEFAULTS, type Settings } from './settings.ts';

/** The input and responses of the playground, stored in the browser. */
export interface Draft {
  /** ID of the conversation; empty: not assigned yet. */
  id: string;
  /** System prompt; empty: none. */
  system: string;
  /** The message being typed, and its role. */
  input: string;
  inputRole: Turn['role'];
  /** Its images, as data URIs. */
  images: readonly string[];
  /** One to `MAX_COLUMNS` side by side. */
  columns: readonly Column[];
  settings: Settings;
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
  /** The response; null: written by the user, or in progress. */
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

/** A change of the draft. Responses in progress already have a turn without text. */
export type Change =
  /** Adds images to the message being typed. */
  | { type: 'attach'; images: readonly string[] }
  | { type: 'set'; values: Partial<Omit<Draft, 'columns' | 'settings'>> }
  | { type: 'settings'; values: Partial<Settings> }
  | { type: 'number'; name: keyof Settings['numbers']; typed: string }
  | { type: 'replace'; draft: Draft }
  /** Sets the model of a column; creates the next column if needed. */
  | { type: 'model'; column: number; model: string }
  | { type: 'close'; column: number }
  /** Sets the text of a turn. */
  | { type: 'edit'; turn: string; text: string }
  /** Sets the result of a call. */
  | { type: 'result'; turn: string; call: string; result: string }
  | { type: 'switch_role'; turn: string }
  | { type: 'delete'; turn: string }
  /** Selects another choice of a response. */
  | { type: 'choose'; id: string; choice: number }
  /** Stores the finished response of a turn. */
  | { type: 'answered'; id: string; answer: Answer };

/** Applies a change. Returns the same object if nothing changed. */
export function changed(draft: Draft, change: Change): Draft {
  switch (change.type) {
    case 'attach':
      return { ...draft, images: [...draft.images, ...change.images] };
    case 'set':
      return { ...draft, ...change.values };
    case 'settings':
      return { ...draft, settings: { ...draft.settings, ...change.values } };
    case 'number': {
      const numbers = { ...draft.settings.numbers, [change.name]: change.typed };
      return { ...draft, settings: { ...draft.settings, numbers } };
    }
    case 'replace':
      return change.draft;
    case 'model':
      return withModel(draft, change.column, change.model);
    case 'close':
      return { ...draft, columns: draft.columns.filter((_, index) => index !== change.column) };
    case 'edit':
      // An edited turn is no longer a response: its usage and timing were for the original text.
      return withTurn(draft, change.turn, (turn) => ({ ...turn, text: change.text, answer: null }));
    case 'result':
      return withTurn(draft, change.turn, (turn) => ({
        ...turn,
        calls: turn.calls.map((call) =>
          call.id === change.call ? { ...call, result: change.result } : call,
        ),
      }));
    case 'switch_role':
      return withTurn(draft, change.turn, (turn) => ({
        ...turn,
        role: turn.role === 'user' ? 'assistant' : 'user',
        calls: [],
        answer: null,
      }));
    case 'delete':
      return withTurnsFrom(draft, change.turn, ([, ...later]) => later);
    case 'choose':
      return chosen(draft, change.id, change.choice);
    case 'answered':
      return answered(draft, change.id, change.answer);
  }
}

function withModel(draft: Draft, column: number, model: string): Draft {
  const old = draft.columns[column];
  if (old?.model === model) return draft;
  if (old) return { ...draft, columns: draft.columns.map((one) => (one === old ? { ...one, model } : one)) };
  if (draft.columns.length >= MAX_COLUMNS) return draft;
  // A new column starts with a copy of the first conversation.
  const turns = draft.columns[0]?.turns.filter((turn) => !isBlank(turn)) ?? [];
  const copies = turns.map((turn) => ({ ...turn, id: newId() }));
  return { ...draft, columns: [...draft.columns, { model, turns: copies }] };
}

function withTurn(draft: Draft, id: string, change: (turn: Turn) => Turn): Draft {
  const columns = draft.columns.map((column) => {
    if (!column.turns.some((turn) => turn.id === id)) return column;
    return { ...column, turns: column.turns.map((turn) => (turn.id === id ? change(turn) : turn)) };
  });
  return { ...draft, columns };
}

/** A turn and those after it. */
type TurnsFrom = readonly [Turn, ...Turn[]];

/** Replaces a turn that is shown, and those after it. */
function withTurnsFrom(draft: Draft, id: string, change: (turns: TurnsFrom) => readonly Turn[]): Draft {
  const columns = draft.columns.map((column) => {
    const at = column.turns.findIndex((turn) => turn.id === id);
    const [first, ...later] = column.turns.slice(at);
    if (at === -1 || first === undefined) return column;
    return { ...column, turns: [...column.turns.slice(0, at), ...change([first, ...later])] };
  });
  return { ...draft, columns };
}

function chosen(draft: Draft, id: string, choice: number): Draft {
  for (const { turns } of draft.columns) {
    const answer = turns.find((turn) => turn.id === id)?.answer;
    if (answer?.choices[choice]) return answered(draft, id, { ...answer, chosen: choice });
  }
  return draft;
}

function answered(draft: Draft, id: string, answer: Answer): Draft {
  const { text = '', calls = [] } = answer.choices[answer.chosen] ?? {};
  return withTurn(draft, id, (turn) => {
    // A response is stored again when its usage arrives. The user may have typed results by then.
    const results = new Map(turn.calls.map((call) => [call.id, call.result]));
    const withResults = calls.map((call) => ({ ...call, result: results.get(call.id) ?? '' }));
    return { ...turn, text, calls: withResults, answer };
  });
}

/** A response that is about to be requested: its column, and the id of its turn. */
export interface Pending {
  id: string;
  column: number;
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

/** Adds the input as a turn to every column, and a turn for each response. Does nothing if a call has no result. */
export function sent(draft: Draft): { draft: Draft; pending: Pending[] } {
  if (draft.columns.some(awaitsResults)) return { draft, pending: [] };
  const pending: Pending[] = [];
  const columns = draft.columns.map((column, index) => {
    const turns = hasInput(draft) ? [...column.turns, inputTurn(draft, 'user')] : [...column.turns];
    if (!canRespond({ turns })) return column;
    const answer = written('assistant', '');
    pending.push({ id: answer.id, column: index });
    return { ...column, turns: [...turns, answer] };
  });
  return { draft: { ...draft, columns, input: '', images: [] }, pending };
}

/** Adds the input as a turn to every column, without a response. Does nothing if a call has no result. */
export function added(draft: Draft): Draft {
  if (draft.columns.some(awaitsResults)) return draft;
  const columns = draft.columns.map((column) => ({
    ...column,
    turns: [...column.turns, inputTurn(draft, draft.inputRole)],
  }));
  const isUser = draft.inputRole === 'user';
  return {
    ...draft,
    columns,
    input: '',
    images: isUser ? [] : draft.images,
    inputRole: isUser ? 'assistant' : 'user',
  };
}

/**
 * Asks for a new response to a user turn, or in place of a response. Removes later turns of its column. `text` replaces
 * the text of a user turn.
 */
export function rerun(draft: Draft, id: string, text?: string): { draft: Draft; pending: Pending[] } {
  return withAnswer(draft, id, ([turn], answer) => {
    if (turn.role === 'assistant') return [answer];
    // The replaced text is counted among the removed messages, and can be restored with them.
    return [text === undefined ? turn : { ...turn, id: newId(), text }, answer];
  });
}

/** Asks for a response after a turn, whose calls have results. Removes later turns of its column. */
export function continued(draft: Draft, id: string): { draft: Draft; pending: Pending[] } {
  return withAnswer(draft, id, ([turn], answer) => [turn, answer]);
}

/** Sends a message after the last turn of the column of this turn. Keeps the message being typed. */
export function asked(draft: Draft, id: string, text: string): { draft: Draft; pending: Pending[] } {
  return withAnswer(draft, id, (turns, answer) => [...turns, written('user', text), answer]);
}

function withAnswer(
  draft: Draft,
  id: string,
  change: (turns: TurnsFrom, answer: Turn) => readonly Turn[],
): { draft: Draft; pending: Pending[] } {
  const column = draft.columns.findIndex(({ turns }) => turns.some((turn) => turn.id === id));
  if (column === -1) return { draft, pending: [] };
  const answer = written('assistant', '');
  return {
    draft: withTurnsFrom(draft, id, (turns) => change(turns, answer)),
    pending: [{ id: answer.id, column }],
  };
}

/** Returns whether there is a message to send: a text, or images of the user. */
export function hasInput({
  input,
  inputRole,
  images,
}: Pick<Draft, 'input' | 'inputRole' | 'images'>): boolean {
  return input.trim() !== '' || (inputRole === 'user' && images.length > 0);
}

/** Returns whether a turn has no content, such as that of a response in progress. */
export function isBlank({ text, images, calls }: Turn): boolean {
  return text === '' && images.length === 0 && calls.length === 0;
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
  return { ...draft, id: newId(), columns: draft.columns.map((column) => ({ ...column, turns: [] })) };
}

/** Replaces the conversation by another one. Keeps the message being typed. */
export function opened(draft: Draft, { id, system, settings, columns }: Conversation): Draft {
  return {
    ...draft,
    id,
    system,
    settings,
    columns,
  };
}

/** The part of the playground that is stored as a conversation. */
export type Conversation = Pick<Draft, 'id' | 'system' | 'settings' | 'columns'>;

/** Returns whether two drafts have the same conversation. */
export function isSameConversation(one: Conversation, other: Conversation): boolean {
  return (
    one.id === other.id &&
    one.system === other.system &&
    one.settings === other.settings &&
    hasSameTurns(one, other)
  );
}

/** Returns whether two drafts have the same models with the same messages. */
export function hasSameTurns(one: Pick<Draft, 'columns'>, other: Pick<Draft, 'columns'>): boolean {
  return (
    one.columns.length === other.columns.length &&
    one.columns.every(({ model, turns }, index) => {
      const column = other.columns[index];
      return model === column?.model && turns === column.turns;
    })
  );
}

/** Returns what a new tab starts with: the same models and parameters, and the input of a chat that has not begun. */
export function forNewTab(draft: Draft): Draft {
  return hasTurns(draft)
    ? { ...newChat(draft), id: '', input: '', inputRole: 'user', images: [] }
    : { ...draft, id: '' };
}

/** Returns the model of each column. */
export function modelsOf({ columns }: Pick<Draft, 'columns'>): string[] {
  return columns.map(({ model }) => model);
}

/** Returns whether there is a conversation to store. */
export function hasTurns({ columns }: Pick<Draft, 'columns'>): boolean {
  return columns.some(({ turns }) => turns.length > 0);
}

/** Returns all responses by id. */
export function answersOf({ columns }: Draft): [id: string, answer: Answer][] {
  return columns
    .flatMap(({ turns }) => turns)
    .flatMap(({ id, answer }) => (answer ? [[id, answer] as [string, Answer]] : []));
}

function written(role: Turn['role'], text: string): Turn {
  return { id: newId(), role, text, images: [], calls: [], answer: null };
}

/** Returns the input as a turn. */
function inputTurn(draft: Draft, role: Turn['role']): Turn {
  return { ...written(role, inputOf(draft)), images: role === 'user' ? draft.images : [] };
}

let count = 0;
/** Distinguishes the tabs. */
const TAB = Math.floor(Math.random() * 36 ** 4).toString(36);

/**
 * Returns an id that is unique in this browser. `crypto.randomUUID` is not available on pages loaded over plain HTTP.
 */
export function newId(): string {
  return `${Date.now().toString(36)}-${TAB}-${(count++).toString(36)}`;
}
