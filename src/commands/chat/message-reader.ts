import { createInterface } from 'node:readline';
import type { Readable, Writable } from 'node:stream';
import { ReadStream } from 'node:tty';

const CTRL_C = 3;
const PROMPT = '>>> ';
const NEXT_LINE = '... ';

/** Encloses a message of several lines. */
const QUOTES = '"""';

/** Reads messages that a user types or pastes on a terminal, with editing and a history. */
export class MessageReader {
  readonly #input: Readable;
  readonly #output: Writable;
  /** Latest first, as readline keeps them. */
  #history: string[] = [];

  constructor(input: Readable, output: Writable) {
    this.#input = input;
    this.#output = output;
  }

  /**
   * Runs `respond` while what the user types is not shown, so that it does not mix with the response. The next `read`
   * begins with it. Ctrl+C calls `onInterrupt`, because the terminal is in raw mode.
   */
  async hideTyping<T>(respond: () => Promise<T>, onInterrupt: () => void): Promise<T> {
    const input = this.#input;
    if (!(input instanceof ReadStream)) return await respond();
    const typed: Buffer[] = [];
    const onData = (data: Buffer): void => {
      if (data.includes(CTRL_C)) onInterrupt();
      else typed.push(data);
    };
    input.setRawMode(true);
    input.on('data', onData).resume();
    try {
      return await respond();
    } finally {
      input.off('data', onData).pause();
      input.setRawMode(false);
      if (typed.length > 0) input.unshift(Buffer.concat(typed));
    }
  }

  /**
   * Returns the next message, or null at the end of the input (Ctrl+D). A message is one line, several lines between
   * `"""`, or several lines that were pasted together, after which the user presses Enter. Returns null if the signal is
   * aborted.
   */
  read(signal: AbortSignal): Promise<string | null> {
    const { promise, resolve } = Promise.withResolvers<string | null>();
    const editor = createInterface({
      input: this.#input,
      output: this.#output,
      terminal: true,
      history: [...this.#history],
      prompt: PROMPT,
      signal,
    });
    const lines: string[] = [];
    /** Lines that arrived in this turn of the event loop. */
    let arrived = 0;
    const finish = (message: string): void => {
      resolve(message);
      editor.close();
    };
    const onLines = (): void => {
      const isPasted = arrived > 1 || editor.line !== '';
      arrived = 0;
      const text = lines.join('\n');
      const isQuoted = text.trimStart().startsWith(QUOTES);
      if (isQuoted ? isClosed(text.trim()) : !isPasted)
        return finish(isQuoted ? text.trim().slice(QUOTES.length, -QUOTES.length).trim() : text.trim());
      editor.setPrompt(NEXT_LINE);
      editor.prompt(true);
    };
    editor.on('history', (history) => (this.#history = history));
    editor.on('line', (line) => {
      lines.push(line);
      if (arrived++ === 0) setImmediate(onLines);
    });
    editor.on('SIGINT', () => {
      const hasText = lines.length > 0 || editor.line !== '';
      lines.length = 0;
      editor.write(null, { ctrl: true, name: 'e' });
      editor.write(null, { ctrl: true, name: 'u' });
      this.#output.write(hasText ? '\n' : '\nPress Ctrl+D or type /bye to leave the chat.\n');
      editor.setPrompt(PROMPT);
      editor.prompt();
    });
    // After `finish`, the promise is resolved already.
    editor.on('close', () => resolve(null));
    editor.prompt();
    return promise;
  }
}

function isClosed(text: string): boolean {
  return text.length >= 2 * QUOTES.length && text.endsWith(QUOTES);
}
