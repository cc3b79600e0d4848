import { ApiError, call } from '../../api/client.ts';
import { generateFor } from '../../api/playground-key.ts';
import { queryClient } from '../../api/queries.ts';
import type { FieldErrors } from '../../components/field-errors.ts';
import { counted } from '../../format/number.ts';
import { notify } from '../../notify.ts';
import { UserRecords } from '../../state/user-records.ts';
import { readStored, userItems, writeStored, type UserItems } from '../../state/user-storage.ts';
import { afterEvent, faultOf, isInProgress, type Answer } from './answer.ts';
import { Conversations } from './conversations.ts';
import {
  added,
  answered,
  asked,
  continued,
  forNewTab,
  hasTurns,
  isRunning,
  modelsOf,
  newChat,
  newId,
  removedTurns,
  rerun,
  sent,
  withImagesOf,
  withModel,
  withoutColumn,
  withoutTurn,
  withoutTurns,
  type Column,
  type Draft,
  type Turn,
} from './draft.ts';
import type { Model } from './model-text.ts';
import { FULL, Presets } from './presets.ts';
import { recommendedOf, requestOf } from './request.ts';
import { validationErrors, type Settings } from './settings.ts';
import { fromTabText, tabText, withoutImages } from './tab-text.ts';

/** State of the playground. */
export interface PlaygroundState {
  draft: Draft;
  /** Validation errors of the settings; requests are blocked until they are fixed. */
  errors: FieldErrors;
  /** Whether this browser has stored the draft. */
  isStored: boolean;
  /** Whether its images are stored too. */
  storesImages: boolean;
}

/** What the playground gets from its page. */
interface Surroundings {
  /** The account that is charged. */
  accountId: string;
  /** The configured models that generate text, ready or not. */
  models: readonly Model[];
  /** Called when the user sends a request with invalid settings. */
  onInvalid: () => void;
  /** Changes the query of the URL, which names the models. */
  changeQuery: (changes: Readonly<Record<string, string | null>>, how: { replace: true }) => void;
}

/** Continues a response. The API has no way to begin a response with a given text. */
const CONTINUE = 'Continue exactly where you stopped, without repeating anything.';

/** Delay before each attempt to read a receipt, in milliseconds. Requests are settled shortly after they end. */
const RECEIPT_DELAYS_MS = [200, 1000, 3000];

/** Debounce of the storage writes, in milliseconds. */
const PAUSE_MS = 300;

/** Key of the queries for the conversations and presets. */
export const RECORDS = 'playground-records';

/** The playground of a user in this tab: its state, and what its components do with it. */
export class Playground {
  readonly presets: Presets;
  readonly #conversations: Conversations;
  readonly #userId: string;
  /** Tells other tabs which conversation has changed. */
  readonly #items: UserItems;
  readonly #listeners = new Set<() => void>();
  #surroundings: Surroundings | null = null;
  #state: PlaygroundState;
  #frame: number | null = null;
  #pause: ReturnType<typeof setTimeout> | undefined;
  #saving = Promise.resolve();
  #stop = new AbortController();

  private constructor(userId: string, conversations: Conversations, draft: Draft) {
    this.#userId = userId;
    this.#conversations = conversations;
    this.#items = userItems(userId);
    this.presets = new Presets(new UserRecords(userId, 'preset'));
    this.#state = { draft, errors: validationErrors(draft.settings), isStored: true, storesImages: true };
    addEventListener('pagehide', () => this.#storeTab());
    this.#items.onChangedElsewhere((name, text) => {
      if (name === CHANGED) void this.#follow(text ?? '');
    });
    if (conversations.isChanged(draft)) void this.#save();
    this.#completeAll();
  }

  /** Restores the playground of this tab from this browser, or what a new tab starts with. Once in each page load. */
  static of(userId: string): Promise<Playground> {
    const restored = RESTORED.get(userId) ?? Playground.#restore(userId);
    RESTORED.set(userId, restored);
    return restored;
  }

  static async #restore(userId: string): Promise<Playground> {
    const conversations = new Conversations(new UserRecords(userId, 'conversation'));
    const { draft, revisions } = fromTabText(readStored(userId));
    const stored = await conversations.read(draft.id).catch(() => null);
    if (!hasTurns(draft))
      return new Playground(userId, conversations, { ...draft, ...(stored && conversations.show(stored)) });
    conversations.resume(draft.id, revisions, stored);
    return new Playground(userId, conversations, withImagesOf(stored, draft));
  }

  get state(): PlaygroundState {
    return this.#state;
  }

  /** Calls the listener after each change, at most once per frame for responses. Returns a function that unsubscribes. */
  readonly subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  };

  surround(surroundings: Surroundings): void {
    this.#surroundings = surroundings;
  }

  /** Changes the draft. */
  change(change: (draft: Draft) => Draft): void {
    this.#setDraft(change(this.#state.draft));
    this.#publish();
  }

  set(values: Partial<Draft>): void {
    this.change((draft) => ({ ...draft, ...values }));
  }

  setSettings(values: Partial<Settings>): void {
    this.change((draft) => ({ ...draft, settings: { ...draft.settings, ...values } }));
  }

  setNumber(name: keyof Settings['numbers'], typed: string): void {
    this.setSettings({ numbers: { ...this.#state.draft.settings.numbers, [name]: typed } });
  }

  /** Selects another choice of a response. The conversation continues with it. */
  choose(turn: string, choice: number): void {
    this.change((draft) => answered(draft, turn, (answer) => ({ ...answer, chosen: choice })));
  }

  /** Sends the next request to every model. */
  send(): void {
    this.#start(sent);
  }

  /** Adds the input as a turn without sending a request. */
  add(): void {
    if (!isRunning(this.#state.draft)) this.change(added);
  }

  /** Asks the model to continue a response that was cut off. */
  continueText(turn: string): void {
    this.#start((draft) => asked(draft, turn, CONTINUE));
  }

  /** Runs again from this turn, in its column; `text` replaces its text. Offers to undo it. */
  runFrom(turn: string, text?: string): void {
    this.#start((draft) => rerun(draft, turn, text));
  }

  /** Sends the results of the calls of this turn. Removes later turns, and offers to undo it. */
  continueFrom(turn: string): void {
    this.#start((draft) => continued(draft, turn));
  }

  /** Deletes a turn, and offers to undo it. */
  remove(turn: string): void {
    this.#replace(withoutTurn(this.#state.draft, turn));
  }

  /** Sets the model of a column, or opens the next column with it. */
  chooseModel(column: number, model: string): void {
    this.#replace(withModel(this.#state.draft, column, model));
  }

  /** Closes one of several columns, and offers to undo it. */
  closeColumn(column: number): void {
    this.#replace(withoutColumn(this.#state.draft, column));
  }

  /** Stops the responses in progress. They keep the text received so far. */
  stop(): void {
    this.#stop.abort();
    this.#stop = new AbortController();
  }

  /** Starts a conversation with the same models and parameters. */
  newChat(): void {
    this.#show(newChat(this.#state.draft));
  }

  /** Shows a stored conversation. Stops responses in progress; they keep their text. */
  async open(id: string): Promise<void> {
    await this.#save();
    const found = await this.#conversations.read(id).catch(() => null);
    if (found === null) return notify.error('This conversation was deleted.');
    if (id === this.#state.draft.id) return;
    this.#show({ ...this.#state.draft, ...this.#conversations.show(found) });
    this.#completeAll();
  }

  /** Deletes a stored conversation, and offers to undo it. */
  async removeConversation(id: string): Promise<void> {
    const isShown = this.#state.draft.id === id;
    if (isShown) this.newChat();
    await this.#save();
    const restore = await this.#conversations.remove(id).catch(reportFull);
    this.#announce(id);
    if (!restore) return;
    const undo = async () => {
      await restore();
      this.#announce(id);
      if (isShown) await this.open(id);
    };
    notify.success('Conversation deleted', { label: 'Undo', run: () => void undo().catch(reportFull) });
  }

  async renameConversation(id: string, title: string): Promise<void> {
    await this.#conversations.rename(id, title).catch(reportFull);
    this.#announce(id);
  }

  /** Returns the stored conversations, the newest first. */
  async listConversations() {
    // The query that calls this sees what is saved here.
    await this.#save(false);
    return await this.#conversations.list().catch(() => []);
  }

  #publish(): void {
    if (this.#frame !== null) cancelAnimationFrame(this.#frame);
    this.#frame = null;
    for (const listener of this.#listeners) listener();
  }

  #setDraft(draft: Draft): void {
    if (draft === this.#state.draft) return;
    const { settings } = this.#state.draft;
    const errors = draft.settings === settings ? this.#state.errors : validationErrors(draft.settings);
    this.#state = { ...this.#state, draft, errors };
    clearTimeout(this.#pause);
    this.#pause = setTimeout(() => void this.#save(), PAUSE_MS);
  }

  /** Replaces the draft. If turns are missing in the new one, offers to restore them. */
  #replace(next: Draft, done?: string): void {
    const before = this.#state.draft;
    const query = modelQuery(modelsOf(next));
    const { model, compare } = modelQuery(modelsOf(before));
    if (query.model !== model || query.compare !== compare)
      this.#surroundings?.changeQuery(query, { replace: true });
    this.change(() => next);
    const count = removedTurns(before, next);
    if (count === 0) return;
    const restore = () => {
      this.stop();
      // Another conversation may be shown by then.
      void this.#save();
      const { id, columns } = before;
      this.#replace({ ...this.#state.draft, id, columns }, 'Messages restored');
    };
    notify.success(done ?? `${counted(count, 'message')} removed`, { label: 'Undo', run: restore });
  }

  /** Shows another conversation. Stops responses in progress and stores the text received so far. */
  #show(next: Draft): void {
    this.stop();
    void this.#save();
    this.#surroundings?.changeQuery({ mode: null, ...modelQuery(modelsOf(next)) }, { replace: true });
    this.change(() => next);
  }

  /** Requests the responses that the next draft has turns for. */
  #start(next: (draft: Draft) => Draft): void {
    const { draft, errors } = this.#state;
    if (isRunning(draft)) return;
    if (Object.keys(errors).length > 0) {
      this.#surroundings?.onInvalid();
      return;
    }
    this.#replace(next(draft));
    for (const column of this.#state.draft.columns) {
      const turn = column.turns.at(-1);
      if (turn?.answer && isInProgress(turn.answer)) void this.#run(turn, column);
    }
  }

  /** Requests a response, and completes its turn as it arrives. Never rejects. */
  async #run({ id }: Turn, column: Column): Promise<void> {
    if (this.#surroundings === null) return;
    const { accountId, models } = this.#surroundings;
    const { draft } = this.#state;
    const pricing = models.find((one) => one.id === column.model)?.pricing ?? null;
    const body = requestOf(draft, column, recommendedOf(models, column.model), id);
    const { signal } = this.#stop;
    const sentAt = performance.now();
    try {
      const request = { body, stream: draft.settings.stream, signal };
      for await (const event of generateFor(accountId, request)) {
        this.#setDraft(answered(this.#state.draft, id, (answer) => afterEvent(answer, event, pricing)));
        this.#frame ??= requestAnimationFrame(() => this.#publish());
      }
    } catch (error) {
      this.#setDraft(
        answered(this.#state.draft, id, (answer) => ({
          ...answer,
          totalMs: answer.requestId === null ? null : performance.now() - sentAt,
          ...(signal.aborted ? { stopped: true } : { fault: faultOf(asApiError(error)) }),
        })),
      );
    }
    this.#publish();
    const turns = this.#state.draft.columns.flatMap((one) => one.turns);
    const ended = turns.find((turn) => turn.id === id)?.answer;
    if (ended) void this.#complete(id, ended);
  }

  /** Adds the missing usage and cost to the responses that have ended. */
  #completeAll(): void {
    for (const { turns } of this.#state.draft.columns)
      for (const { id, answer } of turns)
        if (answer && !isInProgress(answer)) void this.#complete(id, answer);
  }

  /**
   * Adds usage and cost from the receipt to a response that was stopped or interrupted and therefore lacks them. Never
   * rejects.
   */
  async #complete(id: string, { requestId, usage, cost }: Answer): Promise<void> {
    if (requestId === null || (usage !== null && cost !== null)) return;
    for (const ms of RECEIPT_DELAYS_MS) {
      await new Promise((resolve) => setTimeout(resolve, ms));
      try {
        const { request } = await call('getReceipt', { params: { id: requestId } });
        if (request.state === 'open') continue;
        const usage = {
          promptTokens: request.prompt_tokens,
          completionTokens: request.completion_tokens,
          reasoningTokens: request.reasoning_tokens,
          cachedTokens: request.cached_tokens,
        };
        this.change((draft) =>
          answered(draft, id, (answer) => ({ ...answer, usage, cost: request.cost_usd })),
        );
      } catch {
        // Usage and cost stay unknown.
      }
      return;
    }
  }

  /** Stores the draft in this browser. Resolves after all earlier writes. `reload`: whether the lists are read again. */
  #save(reload = true): Promise<void> {
    clearTimeout(this.#pause);
    const { draft } = this.#state;
    this.#saving = this.#saving.then(async () => {
      let isStored = true;
      if (this.#conversations.isChanged(draft)) {
        try {
          const { id, removed } = await this.#conversations.save(draft);
          if (id !== draft.id && this.#state.draft.id === draft.id) {
            this.set({ id });
            notify.success('Another tab changed this conversation. This tab continues in a new one.');
          }
          if (removed > 0)
            notify.success(`${counted(removed, 'old conversation')} deleted to make room for this one`);
          this.#announce(id, reload);
        } catch {
          isStored = false;
        }
      }
      this.#storeTab(isStored);
    });
    return this.#saving;
  }

  /** Stores what this tab shows, with the messages if they are not among the conversations yet. */
  #storeTab(isSaved = true): void {
    const { draft } = this.#state;
    const isChanged = this.#conversations.isChanged(draft);
    const revisions = this.#conversations.revisionsOf(draft.id);
    const text = tabText(isChanged ? draft : withoutTurns(draft), revisions);
    const newTab = tabText(forNewTab(draft), []);
    const storesImages = writeStored(this.#userId, text, newTab);
    const isStored = (storesImages || writeStored(this.#userId, withoutImages(text), newTab)) && isSaved;
    if (isStored === this.#state.isStored && storesImages === this.#state.storesImages) return;
    this.#state = { ...this.#state, isStored, storesImages };
    this.#publish();
  }

  #announce(id: string, reload = true): void {
    // Another text each time, because only changes are events for other tabs.
    this.#items.write(CHANGED, JSON.stringify([id, newId()]));
    if (reload) void queryClient.invalidateQueries({ queryKey: [RECORDS] });
  }

  /** Shows the changes of another tab to the conversation of this tab, unless this tab has changed it too. */
  async #follow(text: string): Promise<void> {
    void queryClient.invalidateQueries({ queryKey: [RECORDS] });
    const { id } = this.#state.draft;
    if (!text.includes(id)) return;
    const found = await this.#conversations.read(id).catch(() => null);
    const { draft } = this.#state;
    if (found === null || id !== draft.id || isRunning(draft) || this.#conversations.isChanged(draft)) return;
    this.set(this.#conversations.show(found));
  }
}

const RESTORED = new Map<string, Promise<Playground>>();

/** Name of the item that tells other tabs which conversation has changed. */
const CHANGED = 'changed';

/** Separates the models in the URL. Their IDs have no commas. */
export const SEPARATOR = ',';

/** Returns the part of the URL that selects these models, one for each column. */
function modelQuery([first = '', ...others]: readonly string[]): Record<'model' | 'compare', string> {
  return { model: first, compare: others.join(SEPARATOR) };
}

function reportFull(): void {
  notify.error(FULL);
}

export function asApiError(error: unknown): ApiError {
  if (error instanceof ApiError) return error;
  return new ApiError('Could not read the response. Reload the page and try again.', {
    status: 0,
    code: 'unreadable',
    cause: error,
  });
}
