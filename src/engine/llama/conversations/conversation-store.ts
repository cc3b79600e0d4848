import { statSync, writeFileSync } from 'node:fs';
import { readdir, readFile, stat, unlink } from 'node:fs/promises';
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import type { Log } from '../../../support/log.ts';
import type { ConversationGauges } from '../../engine.ts';
import type { NativeContext } from '../native/context.ts';
import { commonPrefix } from './common-prefix.ts';
import { checksumsOf, seal } from './file-seal.ts';
import { MAX_AGE_MS, type StoreDirectory } from './store-directory.ts';
import { messageOf } from '../../../support/thrown.ts';

/** A sequence that lost its slot, in a file. */
export interface StoredConversation {
  readonly file: string;
  readonly scope: string;
  readonly tokens: Uint32Array;
  readonly bytes: number;
  /** When it was last saved or loaded, in Unix milliseconds. */
  usedAt: number;
  /** Checksums of a file that an earlier process wrote, until it is loaded: a power failure can damage it. */
  checksums: readonly number[] | null;
}

export interface StoredMatch {
  conversation: StoredConversation;
  /** How many of its first tokens the prompt has. */
  length: number;
  /** As in `Slot`, after it was loaded. */
  minKeep: number;
}

interface StoreOptions {
  directory: StoreDirectory;
  /** Whether the model's sequences can be trimmed. Otherwise, a conversation can only be used as a whole. */
  canTrim: boolean;
  /** As in `GgufInfo`. */
  slidingWindow: number | null;
  /** Expected bytes of a sequence: of each token, and in addition. */
  size: { perToken: number; fixed: number };
  /**
   * What the files depend on: the model, the sizes of the context, the addon. Conversations of an earlier process with
   * the same fingerprint are used again.
   */
  fingerprint: string;
  log: Log;
}

interface Room {
  /** Of the new conversation; null: there is none. */
  scope?: string | null;
  bytes?: number;
  /** Not deleted. */
  needed?: StoredConversation | null;
}

/** Conversations of fewer tokens are computed again. */
export const MIN_TOKENS = 256;

/** A conversation that has grown by fewer tokens is not saved again. */
export const MIN_ADDED = 16;

/** Time without saves after one has failed, in milliseconds. */
const PAUSE_MS = 60_000;

/** Maximum number of conversations. */
const MAX_CONVERSATIONS = 512;

/**
 * Maximum time of a save or load, in milliseconds, because no tokens are computed meanwhile. Writes to a disk are
 * expected to be as fast as the memory that buffers them; `maxPauseMs` limits their time if they are not.
 */
const MAX_MS = 2000;

/** A file also has the tokens. */
const TOKEN_BYTES = 4;

/** A shorter time is always worth it, in milliseconds. */
const SHORT_MS = 20;

/** Maximum time of a save that may turn out to be needless, in milliseconds. */
const QUICK_MS = 50;

/** Time between deletions of conversations that are too old, in milliseconds. */
const SWEEP_MS = 60 * 60 * 1000;

/** Total time to save the conversations in slots before the process exits, in milliseconds. */
const MAX_EXIT_MS = 1200;

/**
 * Keeps the sequences of conversations that lost their slot in files, so that a conversation that returns is loaded and
 * not computed again. The files are bounded in number, bytes and age; the least recently used are deleted first. A file
 * that cannot be written or read costs only time. Only the step loop calls `save` and `load`, between decodes.
 */
export class ConversationStore implements AsyncDisposable {
  readonly #options: StoreOptions;
  /** Ordered by their last use, oldest first. */
  #conversations: StoredConversation[] = [];
  #bytes = 0;
  /** Measured size in relation to the expected one. */
  #sizeRatio = 1;
  #saveMsPerByte: number;
  #loadMsPerByte: number;
  /** Of the disk itself, without the memory that buffers writes; 0 on a RAM disk. */
  #flushMsPerByte: number;
  /** Bytes of the files that may not be on the disk yet. */
  #unflushedBytes = 0;
  /** Resolves when the files that were saved so far are on the disk, with their records. */
  #sealed: Promise<void> = Promise.resolve();
  #nextId = 0;
  #sweep: NodeJS.Timeout | undefined;
  /** No conversation is saved until this time, in Unix milliseconds. */
  #pausedUntil = 0;
  #saves = 0;
  #loads = 0;
  #loadMs = 0;

  private constructor(options: StoreOptions) {
    this.#options = options;
    this.#saveMsPerByte = options.directory.writeMsPerByte;
    this.#loadMsPerByte = options.directory.readMsPerByte;
    this.#flushMsPerByte = options.directory.flushMsPerByte;
  }

  /** Deletes the files in the directory, or uses those that an earlier process has left for this one. */
  static async open(options: StoreOptions): Promise<ConversationStore> {
    const store = new ConversationStore(options);
    await store.#recover();
    // Also in an idle engine, no conversation is kept for longer.
    store.#sweep = setInterval(() => void store.#makeRoom(), SWEEP_MS).unref();
    return store;
  }

  gauges(): ConversationGauges {
    return {
      entries: this.#conversations.length,
      bytes: this.#bytes,
      saves: this.#saves,
      loads: this.#loads,
      loadMs: Math.round(this.#loadMs),
    };
  }

  /**
   * Returns the conversation with the longest usable prefix of the prompt, if it is longer than `cachedTokens` by more
   * than `margin`, and faster to load than to compute the tokens beyond these. Only conversations of the same scope are
   * used.
   */
  find(
    prompt: Uint32Array,
    scope: string,
    cachedTokens: number,
    msPerToken: number | null,
    margin = 0,
  ): StoredMatch | null {
    // The last token is computed again, because its logits are needed.
    const reusable = prompt.subarray(0, -1);
    let best: StoredMatch | null = null;
    for (const conversation of this.#conversations) {
      if (conversation.scope !== scope) continue;
      const beaten: number = best?.length ?? Math.max(cachedTokens + margin, MIN_TOKENS - 1);
      const length = this.#usable(conversation, reusable, beaten);
      if (length > beaten) best = { conversation, length, minKeep: this.#minKeep(conversation) };
    }
    if (best === null) return null;
    const { bytes, checksums } = best.conversation;
    const computeMs = msPerToken === null ? Infinity : (best.length - cachedTokens) * msPerToken;
    const maxMs = Math.max(computeMs, SHORT_MS);
    // No memory buffers what an earlier process wrote.
    const isFast =
      checksums === null
        ? bytes * this.#loadMsPerByte <= Math.min(maxMs, MAX_MS)
        : bytes * Math.max(this.#loadMsPerByte, this.#flushMsPerByte) <=
          Math.min(maxMs, this.#options.directory.maxPauseMs);
    return isFast ? best : null;
  }

  /**
   * Whether a sequence is worth saving: it has enough tokens that neither a conversation nor `elsewhere` (the most that
   * another slot has of it) has, and saving and loading it is much faster than computing it again.
   */
  isWorthSaving(tokens: Uint32Array, scope: string, elsewhere: number, msPerToken: number | null): boolean {
    if (Date.now() < this.#pausedUntil) return false;
    let saved = elsewhere;
    for (const conversation of this.#conversations)
      if (conversation.scope === scope) saved = Math.max(saved, this.#usable(conversation, tokens, saved));
    const added = tokens.length - saved;
    if (tokens.length < MIN_TOKENS || added < MIN_ADDED) return false;
    const bytes = this.#expectedBytes(tokens.length);
    const saveMs = bytes * this.#saveMsPerByte;
    const { maxBytes, maxPauseMs } = this.#options.directory;
    if (bytes > maxBytes || saveMs > MAX_MS) return false;
    if ((this.#unflushedBytes + bytes) * this.#flushMsPerByte > maxPauseMs) return false;
    const computeMs = msPerToken === null ? Infinity : added * msPerToken;
    // What is saved already has to be loaded anyway.
    if (saved > 0) return 2 * saveMs <= computeMs;
    return 2 * (saveMs + bytes * this.#loadMsPerByte) <= Math.max(computeMs, SHORT_MS);
  }

  /** Whether saving that many tokens hardly delays a request that arrives meanwhile. */
  isQuickToSave(tokens: number): boolean {
    return this.#expectedBytes(tokens) * this.#saveMsPerByte <= QUICK_MS;
  }

  /**
   * Saves a sequence. Never rejects: a failure is logged, and the conversation is computed again if it returns. Keeps
   * `needed`, which is loaded next.
   */
  async save(
    context: NativeContext,
    sequence: number,
    tokens: Uint32Array,
    scope: string,
    needed: StoredConversation | null = null,
  ): Promise<void> {
    const { directory, log } = this.#options;
    const file = join(directory.path, `${this.#nextId++}${STATE}`);
    const copy = tokens.slice();
    try {
      await this.#makeRoom({ scope, bytes: this.#expectedBytes(tokens.length), needed });
      const startedAt = performance.now();
      // llama.cpp would create a file that everybody can read.
      writeFileSync(file, '', { mode: 0o600, flag: 'wx' });
      const bytes = await context.save(sequence, copy, file);
      this.#saveMsPerByte = measured(this.#saveMsPerByte, performance.now() - startedAt, bytes);
      this.#sizeRatio *= bytes / this.#expectedBytes(tokens.length);
      const conversation: StoredConversation = {
        file,
        scope,
        tokens: copy,
        bytes,
        usedAt: Date.now(),
        checksums: null,
      };
      this.#saves++;
      await this.#delete(
        (older) => older.scope === scope && older !== needed && this.#replaces(conversation, older),
      );
      this.#conversations.push(conversation);
      this.#bytes += bytes;
      await this.#makeRoom({ needed });
      this.#seal(conversation);
    } catch (error) {
      await deleteFiles(file);
      const reason = messageOf(error);
      log.warn('a conversation could not be saved; is there room in the directory?', {
        reason,
        directory: directory.path,
      });
      this.#pausedUntil = Date.now() + PAUSE_MS;
      // The likeliest reason is a full disk. Older conversations make room for newer ones.
      await this.#makeRoom({ bytes: directory.maxBytes - this.#bytes * 0.75, needed });
    }
  }

  /** Waits for the disk in the background. */
  #seal(conversation: StoredConversation): void {
    const { directory, fingerprint, log } = this.#options;
    if (!directory.keeps && this.#flushMsPerByte === 0) return;
    const { file, bytes } = conversation;
    this.#unflushedBytes += bytes;
    const isKept = () => this.#conversations.includes(conversation);
    this.#sealed = this.#sealed.then(async () => {
      try {
        if (!isKept()) return;
        const flushMs = await seal(file, directory.keeps ? recordOf(conversation, fingerprint) : null);
        if (this.#flushMsPerByte > 0) this.#flushMsPerByte = measured(this.#flushMsPerByte, flushMs, bytes);
        // It may have been deleted before its record was written.
        if (!isKept()) await deleteFiles(file);
      } catch (error) {
        const reason = messageOf(error);
        if (isKept()) log.warn('a saved conversation may not be used again after a restart', { reason });
      } finally {
        this.#unflushedBytes -= bytes;
      }
    });
  }

  /** Loads a conversation. Returns false if it could not be loaded; then it is deleted, and the sequence is cleared. */
  async load(context: NativeContext, sequence: number, conversation: StoredConversation): Promise<boolean> {
    const { file, tokens, bytes, checksums } = conversation;
    const startedAt = performance.now();
    try {
      const size = statSync(file).size;
      if (size !== bytes) throw new Error(`the file has ${size} bytes instead of ${bytes}`);
      if (checksums !== null && !isDeepStrictEqual(await checksumsOf(file), checksums))
        throw new Error('the file is damaged');
      const loaded = await context.load(sequence, file);
      if (Buffer.compare(bytesOf(loaded), bytesOf(tokens)) !== 0)
        throw new Error('the file has another conversation');
    } catch (error) {
      context.clear(sequence);
      const reason = messageOf(error);
      this.#options.log.warn('a saved conversation could not be loaded; it is computed again', { reason });
      await this.#delete((other) => other === conversation);
      return false;
    }
    const loadMs = performance.now() - startedAt;
    this.#loads++;
    this.#loadMs += loadMs;
    if (checksums === null) this.#loadMsPerByte = measured(this.#loadMsPerByte, loadMs, bytes);
    conversation.checksums = null;
    this.touch(conversation);
    return true;
  }

  /** Makes a conversation the last one that is deleted. Call it before a save that precedes its load. */
  touch(conversation: StoredConversation): void {
    conversation.usedAt = Date.now();
    const others = this.#conversations.filter((other) => other !== conversation);
    // It may just have been deleted because of its age.
    if (others.length < this.#conversations.length) this.#conversations = [...others, conversation];
  }

  /** Deletes the conversations of a scope. */
  async forget(scope: string): Promise<void> {
    await this.#delete((conversation) => conversation.scope === scope);
  }

  /**
   * Called before the process exits, with the sequences in the slots. If a later process will use the directory, saves as
   * many of them as is possible in a short time.
   */
  async saveAll(
    context: NativeContext,
    sequences: readonly { id: number; tokens: Uint32Array; scope: string }[],
  ): Promise<void> {
    if (!this.#options.directory.keeps) return;
    const until = performance.now() + MAX_EXIT_MS;
    for (const { id, tokens, scope } of sequences) {
      const expectedMs =
        this.#expectedBytes(tokens.length) * Math.max(this.#saveMsPerByte, this.#flushMsPerByte);
      if (performance.now() + expectedMs > until) continue;
      if (context.canStore(id) && this.isWorthSaving(tokens, scope, 0, null))
        await this.save(context, id, tokens, scope);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    clearInterval(this.#sweep);
    await this.#sealed;
    await this.#options.directory[Symbol.asyncDispose]();
  }

  /** Returns how many tokens of a sequence do not have to be computed with a conversation; 0 if at most `beaten`. */
  #usable(conversation: StoredConversation, sequence: Uint32Array, beaten: number): number {
    const { tokens } = conversation;
    // Otherwise, hundreds of conversations with the same long system prompt would be compared token by token.
    if (tokens[beaten] === undefined || tokens[beaten] !== sequence[beaten]) return 0;
    const length = commonPrefix(tokens, tokens.length, sequence);
    return length >= this.#minKeep(conversation) ? length : 0;
  }

  /**
   * Returns to how many tokens a conversation can be trimmed. The files of models with a sliding window have only the
   * latest tokens of these layers, so that longer conversations can only be used as a whole.
   */
  #minKeep({ tokens, bytes }: StoredConversation): number {
    const { canTrim, slidingWindow, size } = this.#options;
    const hasAll = tokens.length < (slidingWindow ?? Infinity) && bytes >= tokens.length * size.perToken;
    return canTrim && hasAll ? 0 : tokens.length;
  }

  /** Whether a conversation is hardly of use beside a newer one. */
  #replaces(newer: StoredConversation, { tokens }: StoredConversation): boolean {
    if (this.#minKeep(newer) > 0) return false;
    return tokens.length - commonPrefix(tokens, tokens.length, newer.tokens) < MIN_TOKENS;
  }

  #expectedBytes(tokens: number): number {
    const { perToken, fixed } = this.#options.size;
    return (tokens * (perToken + TOKEN_BYTES) + fixed) * this.#sizeRatio;
  }

  /**
   * Deletes old conversations, and others until there is room for a new one of `scope`. These are the least recently used
   * ones of scopes that have more than an equal share, so that no account removes the conversations of all others.
   */
  async #makeRoom({ scope = null, bytes = 0, needed = null }: Room = {}): Promise<void> {
    const oldest = Date.now() - MAX_AGE_MS;
    const remaining = this.#conversations.filter(({ usedAt }) => usedAt >= oldest);
    const limits = [
      { max: this.#options.directory.maxBytes, added: bytes, of: (each: StoredConversation) => each.bytes },
      { max: MAX_CONVERSATIONS, added: scope === null ? 0 : 1, of: () => 1 },
    ];
    for (const { max, added, of } of limits) {
      const used = new Map(scope === null ? [] : [[scope, added]]);
      let total = added;
      for (const each of remaining) {
        used.set(each.scope, (used.get(each.scope) ?? 0) + of(each));
        total += of(each);
      }
      const share = max / used.size;
      while (total > max) {
        const isOver = (each: StoredConversation) => (used.get(each.scope) ?? 0) > share;
        const others = remaining.filter((each) => each !== needed);
        const next = others.find(isOver) ?? others[0];
        if (next === undefined) break;
        remaining.splice(remaining.indexOf(next), 1);
        used.set(next.scope, (used.get(next.scope) ?? 0) - of(next));
        total -= of(next);
      }
    }
    const kept = new Set(remaining);
    if (kept.size < this.#conversations.length) await this.#delete((each) => !kept.has(each));
  }

  async #delete(isDeleted: (conversation: StoredConversation) => boolean): Promise<void> {
    const kept: StoredConversation[] = [];
    const deleted: StoredConversation[] = [];
    for (const conversation of this.#conversations)
      (isDeleted(conversation) ? deleted : kept).push(conversation);
    this.#conversations = kept;
    for (const { file, bytes } of deleted) {
      this.#bytes -= bytes;
      await deleteFiles(file);
    }
  }

  async #recover(): Promise<void> {
    const { directory, fingerprint, log } = this.#options;
    const found: StoredConversation[] = [];
    // A process that was killed may have left a record without its file.
    const names = (await readdir(directory.path)).map((name) => name.replace(/\.json$/, ''));
    for (const name of new Set(names)) {
      if (!name.endsWith(STATE)) continue;
      const file = join(directory.path, name);
      this.#nextId = Math.max(this.#nextId, Number.parseInt(name, 10) + 1 || 0);
      const conversation = directory.keeps ? await readRecord(file, fingerprint) : null;
      if (conversation === null) await deleteFiles(file);
      else found.push(conversation);
    }
    this.#conversations = found.toSorted((a, b) => a.usedAt - b.usedAt);
    this.#bytes = found.reduce((sum, { bytes }) => sum + bytes, 0);
    await this.#makeRoom();
    if (this.#conversations.length > 0)
      log.info('conversations of an earlier process are used again', {
        conversations: this.#conversations.length,
      });
  }
}

const STATE = '.state';

/** A file beside a conversation's, from which a later process can use it. It is written when the other one is on the disk. */
interface ConversationRecord {
  fingerprint: string;
  scope: string;
  bytes: number;
  /** In base64. */
  tokens: string;
  /** See `checksumsOf`. */
  checksums: readonly number[];
}

const recordFileOf = (file: string) => `${file}.json`;

/** Without the checksums, which are written with it. */
function recordOf({ file, scope, bytes, tokens }: StoredConversation, fingerprint: string) {
  const data: Omit<ConversationRecord, 'checksums'> = {
    fingerprint,
    scope,
    bytes,
    tokens: bytesOf(tokens).toString('base64'),
  };
  return { file: recordFileOf(file), data };
}

/** Returns null if the file has no record, or cannot be used with this fingerprint. */
async function readRecord(file: string, fingerprint: string): Promise<StoredConversation | null> {
  try {
    const record = JSON.parse(await readFile(recordFileOf(file), 'utf8')) as ConversationRecord;
    const { scope, bytes, tokens, checksums } = record;
    const { size, mtimeMs } = await stat(file);
    if (record.fingerprint !== fingerprint || size !== bytes) return null;
    const data = Uint8Array.from(Buffer.from(tokens, 'base64'));
    return { file, scope, tokens: new Uint32Array(data.buffer), bytes, usedAt: mtimeMs, checksums };
  } catch {
    return null; // For example, the process ended before it wrote the record.
  }
}

/** Never rejects. A file that cannot be deleted is tried again when the directory is opened. */
async function deleteFiles(file: string): Promise<void> {
  await unlink(recordFileOf(file)).catch(() => {});
  await unlink(file).catch(() => {});
}

function bytesOf(tokens: Uint32Array): Buffer {
  return Buffer.from(tokens.buffer, tokens.byteOffset, tokens.byteLength);
}

/** Returns the average time per byte. The time of a small file is mostly not that of its bytes. */
function measured(msPerByte: number, ms: number, bytes: number): number {
  return bytes < MEASURED_BYTES ? msPerByte : msPerByte * 0.75 + (ms / bytes) * 0.25;
}

const MEASURED_BYTES = 1024 * 1024;
