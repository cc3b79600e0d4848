import { randomBytes } from 'node:crypto';
import { promptTexts, type ChatRequest, type Message } from '../core/generation.ts';

/**
 * The prompt of a chat as numbers, from which its text cannot be read. The pieces are in the order in which most chat
 * templates write them: each tool, each line of the system messages at the start, and each other message.
 */
export interface Fingerprint {
  /** A hash per piece. Equal pieces have equal hashes, within this process. */
  readonly hashes: Float64Array;
  /** The length of each piece in UTF-8, in bytes. */
  readonly lengths: Float64Array;
  /** Length of the whole prompt in UTF-8, in bytes. It may have more pieces. */
  readonly length: number;
  /** Number of pieces that are tools. */
  readonly tools: number;
  /** Number of pieces that are tools or lines of the system messages at the start. */
  readonly instructions: number;
  /** A hash of the options that some templates and servers write into the prompt. */
  readonly options: number;
}

/** Maximum number of pieces. Later ones are not hashed. */
export const MAX_PIECES = 2048;

/** Maximum number of lines of the system messages. The rest of their text is one piece. */
const MAX_LINES = 1024;

/** Returns the fingerprint of a chat. Takes about 2 µs for 1 KB in short lines, and 0.6 µs in long messages. */
export function fingerprintOf(request: ChatRequest): Fingerprint {
  const { messages, tools } = request;
  // One per tool and message, then the variables, which count as options.
  const texts = promptTexts(request);
  const pieces = new Pieces();
  for (const text of texts.slice(0, tools.length)) pieces.add(text);
  const toolPieces = pieces.count;
  const system = leadingSystemMessages(messages);
  for (const text of texts.slice(tools.length, tools.length + system)) pieces.addLines(text);
  const instructions = pieces.count;
  for (const [index, message] of messages.entries())
    if (index >= system) pieces.add(texts[tools.length + index] ?? '', labelOf(message));
  return { ...pieces.finish(), tools: toolPieces, instructions, options: hashOf(optionsOf(request)) };
}

/** Returns the number of system messages before all others. */
export function leadingSystemMessages(messages: readonly Message[]): number {
  const first = messages.findIndex(({ role }) => role !== 'system');
  return first === -1 ? messages.length : first;
}

/** Returns what else of a message a template can write. */
function labelOf(message: Message): string {
  switch (message.role) {
    case 'system':
    case 'user':
      return message.role;
    case 'assistant':
      return ['assistant', ...message.toolCalls.map(({ id }) => id)].join(' ');
    case 'tool':
      return `tool ${message.toolCallId}`;
  }
}

function optionsOf({ templateVariables, reasoningEffort, toolChoice, responseFormat }: ChatRequest): string {
  return JSON.stringify([templateVariables, reasoningEffort, toolChoice, responseFormat]);
}

/** Collects the pieces of one prompt. */
class Pieces {
  readonly #hashes: number[] = [];
  readonly #lengths: number[] = [];
  #length = 0;

  get count(): number {
    return this.#hashes.length;
  }

  add(text: string, label = ''): void {
    const bytes = Buffer.byteLength(text);
    this.#length += bytes;
    if (this.#hashes.length === MAX_PIECES) return;
    this.#hashes.push(hashOf(text, label));
    this.#lengths.push(bytes);
  }

  addLines(text: string): void {
    let start = 0;
    for (let line = 1; line < MAX_LINES && this.count < MAX_PIECES; line++) {
      const end = text.indexOf('\n', start) + 1;
      if (end === 0) break;
      this.add(text.slice(start, end));
      start = end;
    }
    if (start < text.length) this.add(text.slice(start));
  }

  finish(): Pick<Fingerprint, 'hashes' | 'lengths' | 'length'> {
    return {
      hashes: Float64Array.from(this.#hashes),
      lengths: Float64Array.from(this.#lengths),
      length: this.#length,
    };
  }
}

/** The key of all hashes, so that they mean nothing outside of this process. */
const [KEY_A = 0, KEY_B = 0] = new Uint32Array(Uint8Array.from(randomBytes(8)).buffer);

/** The longest text that is encoded at once, in UTF-16 code units, which take up to three bytes each. */
const MAX_CHUNK = 16_384;

/** A buffer for the text that is being hashed. */
const buffer = Buffer.from(new ArrayBuffer(3 * MAX_CHUNK));
/** The same buffer as words, because hashing four bytes at once is faster. */
const words = new Uint32Array(buffer.buffer);

/**
 * Returns a hash of 53 bits. It is not a cryptographic one, which would take five times as long for short lines: callers
 * only see whether their own prompts are equal.
 */
function hashOf(...texts: readonly string[]): number {
  let a = KEY_A;
  let b = KEY_B;
  for (const text of texts) {
    for (let start = 0; start < text.length; start += MAX_CHUNK) {
      const bytes = buffer.write(text.length <= MAX_CHUNK ? text : text.slice(start, start + MAX_CHUNK));
      buffer[bytes] = buffer[bytes + 1] = buffer[bytes + 2] = 0;
      const end = Math.ceil(bytes / 4);
      for (let index = 0; index < end; index++) {
        const word = words[index] as number;
        a = Math.imul(a ^ word, 0x9e3779b1);
        a ^= a >>> 15;
        b = Math.imul(b ^ word, 0x85ebca6b);
        b ^= b >>> 13;
      }
    }
    a = Math.imul(a ^ text.length, 0x9e3779b1);
    b = Math.imul(b ^ text.length, 0x85ebca6b);
    a ^= a >>> 15;
    b ^= b >>> 13;
  }
  return (a >>> 0) * 2 ** 21 + (b >>> 11);
}
