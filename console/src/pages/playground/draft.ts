import type { Answer } from './answer.ts';
import type { Mode } from './parameters.ts';
import { DEFAULTS, type Settings } from './settings.ts';

/** All that was typed and answered: what stays in the browser. */
export interface Draft {
  mode: Mode;
  /** System prompt of chats; empty: none. */
  system: string;
  /** What is being typed in a chat, and as whom. */
  input: string;
  inputRole: Turn['role'];
  /** What a text goes on from. */
  prompt: string;
  /** One, or two side by side. */
  columns: readonly Column[];
  settings: Settings;
}

/** A model, and what was said with it. */
export interface Column {
  /** Empty: none is chosen yet. */
  model: string;
  turns: readonly Turn[];
  /** What the model made of the prompt; null: nothing yet. */
  completion: Completion | null;
}

export interface Turn {
  /** Of its own in the playground. */
  id: string;
  role: 'user' | 'assistant';
  /** Of an answer: that of the choice that the conversation goes on with. */
  text: string;
  /** How it came about; null: it was written by hand, or is still under way. */
  answer: Answer | null;
}

interface Completion {
  id: string;
  /** Null while it is under way. */
  answer: Answer | null;
}

/** An empty playground. */
export const FRESH: Draft = {
  mode: 'chat',
  system: '',
  input: '',
  inputRole: 'user',
  prompt: '',
  columns: [{ model: '', turns: [], completion: null }],
  settings: DEFAULTS,
};

/** What can be done to it. Answers that are under way have their turn already, with no text. */
export type Change =
  | { type: 'set'; values: Partial<Omit<Draft, 'columns' | 'settings'>> }
  | { type: 'settings'; values: Partial<Settings> }
  | { type: 'number'; name: keyof Settings['numbers']; typed: string }
  | { type: 'replace'; draft: Draft }
  /** Gives a column its model; a second column is made where there is none. */
  | { type: 'model'; column: number; model: string }
  | { type: 'close'; column: number }
  | { type: 'edit'; turn: string; text: string }
  | { type: 'switch_role'; turn: string }
  | { type: 'delete'; turn: string }
  /** Takes another choice of an answer, of a turn or a completion. */
  | { type: 'choose'; id: string; choice: number }
  /** What an answer came to, of a turn or a completion. */
  | { type: 'answered'; id: string; answer: Answer };

/** The playground after a change; the same object where nothing changed. */
export function changed(draft: Draft, change: Change): Draft {
  switch (change.type) {
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
      // What was written over is no answer any more: its numbers would be those of another text.
      return withTurn(draft, change.turn, (turn) => [{ ...turn, text: change.text, answer: null }]);
    case 'switch_role':
      return withTurn(draft, change.turn, (turn) => [
        { ...turn, role: turn.role === 'user' ? 'assistant' : 'user', answer: null },
      ]);
    case 'delete':
      return withTurn(draft, change.turn, () => []);
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
  // It begins with what was said so far, so that both go on from the same.
  const turns = draft.columns[0]?.turns.filter(({ text }) => text !== '') ?? [];
  const copies = turns.map((turn) => ({ ...turn, id: newId() }));
  return { ...draft, columns: [...draft.columns, { model, turns: copies, completion: null }] };
}

function withTurn(draft: Draft, id: string, change: (turn: Turn) => readonly Turn[]): Draft {
  const columns = draft.columns.map((column) =>
    column.turns.some((turn) => turn.id === id)
      ? { ...column, turns: column.turns.flatMap((turn) => (turn.id === id ? change(turn) : [turn])) }
      : column,
  );
  return { ...draft, columns };
}

function chosen(draft: Draft, id: string, choice: number): Draft {
  for (const { turns, completion } of draft.columns) {
    const answer =
      turns.find((turn) => turn.id === id)?.answer ?? (completion?.id === id && completion.answer);
    if (answer && answer.choices[choice]) return answered(draft, id, { ...answer, chosen: choice });
  }
  return draft;
}

function answered(draft: Draft, id: string, answer: Answer): Draft {
  const text = answer.choices[answer.chosen]?.text ?? '';
  const after = withTurn(draft, id, (turn) => [{ ...turn, text, answer }]);
  const columns = after.columns.map((column) =>
    column.completion?.id === id ? { ...column, completion: { id, answer } } : column,
  );
  return { ...after, columns };
}

/** An answer that is to be: of which model, as which turn or completion. */
export interface Pending {
  id: string;
  column: number;
}

/** What was typed as the next turn of every column, and a turn for the answer of each. */
export function sent(draft: Draft): { draft: Draft; pending: Pending[] } {
  const typed = draft.input.trim() !== '';
  const pending: Pending[] = [];
  const columns = draft.columns.map((column, index) => {
    const turns = typed ? [...column.turns, written('user', draft.input)] : [...column.turns];
    if (turns.at(-1)?.role !== 'user') return column;
    const answer = written('assistant', '');
    pending.push({ id: answer.id, column: index });
    return { ...column, turns: [...turns, answer] };
  });
  return { draft: { ...draft, columns, input: '' }, pending };
}

/** What was typed as the next turn of every column, without asking for an answer. */
export function added(draft: Draft): Draft {
  const columns = draft.columns.map((column) => ({
    ...column,
    turns: [...column.turns, written(draft.inputRole, draft.input)],
  }));
  return { ...draft, columns, input: '', inputRole: draft.inputRole === 'user' ? 'assistant' : 'user' };
}

/** The conversation up to this turn, and a new turn for its answer; an answer itself is asked for anew. */
export function rerun(draft: Draft, id: string): { draft: Draft; pending: Pending[] } {
  const pending: Pending[] = [];
  const columns = draft.columns.map((column, index) => {
    const at = column.turns.findIndex((turn) => turn.id === id);
    const turn = column.turns[at];
    if (!turn) return column;
    const kept = column.turns.slice(0, turn.role === 'user' ? at + 1 : at);
    const answer = written('assistant', '');
    pending.push({ id: answer.id, column: index });
    return { ...column, turns: [...kept, answer] };
  });
  return { draft: { ...draft, columns }, pending };
}

/** A completion of the prompt for every column. */
export function completing(draft: Draft): { draft: Draft; pending: Pending[] } {
  const pending = draft.columns.map((_, column) => ({ id: newId(), column }));
  const columns = draft.columns.map((column, index) => {
    const id = pending[index]?.id;
    return id === undefined ? column : { ...column, completion: { id, answer: null } };
  });
  return { draft: { ...draft, columns }, pending };
}

/** The same models with nothing said to them, and everything as the service has it by itself. */
export function cleared({ mode, columns }: Draft): Draft {
  return { ...FRESH, mode, columns: columns.map(({ model }) => ({ model, turns: [], completion: null })) };
}

/** Every answer in it, by its id. */
export function answersOf({ columns }: Draft): [id: string, answer: Answer][] {
  return columns
    .flatMap(({ turns, completion }) => [...turns, ...(completion ? [completion] : [])])
    .flatMap(({ id, answer }) => (answer ? [[id, answer] as [string, Answer]] : []));
}

/** Whether something was said or typed that would be lost. */
export function isEmpty({ system, input, prompt, columns }: Draft): boolean {
  return (
    (system + input + prompt).trim() === '' &&
    columns.every(({ turns, completion }) => turns.length === 0 && completion === null)
  );
}

function written(role: Turn['role'], text: string): Turn {
  return { id: newId(), role, text, answer: null };
}

let count = 0;

/** Of its own in this browser. `crypto.randomUUID` is closed to pages that come over plain HTTP. */
function newId(): string {
  return `${Date.now().toString(36)}-${(count++).toString(36)}`;
}
