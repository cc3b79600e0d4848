import { randomUUID } from 'node:crypto';
import type { Writable } from 'node:stream';
import { setInterval, setTimeout as pause } from 'node:timers/promises';
import { styleText } from 'node:util';
import { printable } from '../output.ts';
import { formatSeconds, type Terminal } from '../progress-bar.ts';
import {
  ChatError,
  type ChatClient,
  type ChatEvent,
  type ChatMessage,
  type PromptProgress,
} from './client.ts';

interface ConversationOptions {
  client: ChatClient;
  model: string;
  system: string | null;
  /** Receives the text of responses. */
  output: Writable;
  /** Receives everything else. */
  notes: Writable;
  /** Shows the progress of a long prompt until the response begins; null: it is not shown. */
  terminal: Terminal | null;
  /** Whether to print tokens and times after each response. */
  verbose: boolean;
  /** Whether to print reasoning, which programs that read the output do not expect. */
  reasoning: boolean;
}

/** How long to wait for a model that is being loaded, in milliseconds. */
const MAX_WAIT_MS = 10 * 60_000;

/** A conversation that is printed as it is generated. */
export class Conversation {
  model: string;
  system: string | null;
  readonly #options: ConversationOptions;
  #messages: ChatMessage[] = [];

  constructor(options: ConversationOptions) {
    this.#options = options;
    this.model = options.model;
    this.system = options.system;
  }

  /** Forgets all messages, but keeps the model and the system message. */
  clear(): void {
    this.#messages = [];
  }

  /**
   * Sends a message and prints the response. If the signal stops it, the part that was printed belongs to the
   * conversation. Throws a `ChatError` if there is no response; then the conversation is as before.
   */
  async send(content: string, signal: AbortSignal): Promise<void> {
    const question: ChatMessage = { role: 'user', content };
    const system: ChatMessage[] = this.system === null ? [] : [{ role: 'system', content: this.system }];
    const printer = new ResponsePrinter(this.#options);
    const startedAt = performance.now();
    try {
      for await (const event of this.#events([...system, ...this.#messages, question], signal)) {
        printer.print(event);
        if (event.type === 'end' && this.#options.verbose)
          writeNote(this.#options.notes, printer.summary(event, performance.now() - startedAt, startedAt));
      }
    } catch (error) {
      if (!signal.aborted) throw error;
    } finally {
      printer.end();
    }
    if (printer.text !== '') this.#messages.push(question, { role: 'assistant', content: printer.text });
  }

  /** Waits for a model that is being loaded. */
  async *#events(messages: readonly ChatMessage[], signal: AbortSignal): AsyncGenerator<ChatEvent, void> {
    const until = performance.now() + MAX_WAIT_MS;
    for (let isFirst = true; ; isFirst = false) {
      try {
        return yield* this.#attempt(messages, signal);
      } catch (error) {
        const canRetry = error instanceof ChatError && error.code === 'engine_unavailable';
        if (!canRetry || error.retryAfterMs === null || performance.now() + error.retryAfterMs > until)
          throw error;
        if (isFirst) writeNote(this.#options.notes, `${error.message} Waiting …`);
        await pause(error.retryAfterMs, undefined, { signal });
      }
    }
  }

  async *#attempt(messages: readonly ChatMessage[], signal: AbortSignal): AsyncGenerator<ChatEvent, void> {
    const { client, terminal } = this.#options;
    const requestId = randomUUID();
    using status = terminal === null ? null : new PromptStatus(client, requestId, terminal);
    for await (const event of client.chat(this.model, messages, requestId, signal)) {
      status?.[Symbol.dispose]();
      yield event;
    }
  }
}

/** Time between two questions for the progress of a prompt, in milliseconds. The service reports it after a second. */
const PROGRESS_EVERY_MS = 1000;

/** Shows the progress of a prompt in the status line of a terminal until it is disposed of. */
class PromptStatus implements Disposable {
  readonly #terminal: Terminal;
  readonly #end = new AbortController();

  constructor(client: ChatClient, requestId: string, terminal: Terminal) {
    this.#terminal = terminal;
    void this.#show(client, requestId).catch((error: unknown) => {
      if (!this.#end.signal.aborted) throw error;
    });
  }

  async #show(client: ChatClient, requestId: string): Promise<void> {
    const { signal } = this.#end;
    for await (const _ of setInterval(PROGRESS_EVERY_MS, undefined, { signal, ref: false })) {
      const progress = await client.promptProgress(requestId, signal);
      signal.throwIfAborted();
      this.#terminal.setStatus(progress === null ? '' : describePrompt(progress));
    }
  }

  /** Removes the line. Can be called again. */
  [Symbol.dispose](): void {
    this.#end.abort();
    this.#terminal.setStatus('');
  }
}

function describePrompt(progress: PromptProgress): string {
  const [done, all] = [progress.done_tokens, progress.prompt_tokens].map((count) =>
    count.toLocaleString('en-US'),
  );
  const left = progress.left_ms === null ? '' : `, about ${formatSeconds(progress.left_ms / 1000)} left`;
  return `Reading the prompt: ${done} of ${all} tokens${left}`;
}

class ResponsePrinter {
  text = '';
  readonly #options: ConversationOptions;
  #firstAt: number | null = null;
  #isReasoning = false;
  #endsLine = true;

  constructor(options: ConversationOptions) {
    this.#options = options;
  }

  print(event: ChatEvent): void {
    if (event.type === 'end') {
      this.end();
      if (event.finishReason === 'length')
        writeNote(this.#options.notes, 'The response reached its maximum length.');
      return;
    }
    this.#firstAt ??= performance.now();
    const { output, notes, reasoning } = this.#options;
    if (event.type === 'reasoning') {
      if (!reasoning) return;
      if (!this.#isReasoning) writeNote(notes, 'Thinking …');
      this.#isReasoning = true;
      this.#write(notes, event.text, true);
      return;
    }
    if (this.#isReasoning) {
      this.#endLine();
      notes.write('\n');
      this.#isReasoning = false;
    }
    this.text += event.text;
    this.#write(output, event.text, false);
  }

  /** Ends the last line. Can be called again. */
  end(): void {
    this.#endLine();
    this.#isReasoning = false;
  }

  summary({ usage }: Extract<ChatEvent, { type: 'end' }>, totalMs: number, startedAt: number): string {
    if (usage === null) return `${(totalMs / 1000).toFixed(1)} s`;
    const { prompt_tokens: prompt, completion_tokens: completion, prompt_tokens_details: details } = usage;
    const firstMs = this.#firstAt === null ? totalMs : this.#firstAt - startedAt;
    const speed = ((completion - 1) * 1000) / (totalMs - firstMs);
    return [
      `prompt ${prompt} tokens (${details?.cached_tokens ?? 0} cached)`,
      `first token after ${(firstMs / 1000).toFixed(2)} s`,
      `response ${completion} tokens${completion > 1 ? ` at ${speed.toFixed(1)} tokens/s` : ''}`,
    ].join(', ');
  }

  #write(stream: Writable, text: string, isDim: boolean): void {
    const shown = printable(text);
    if (shown === '') return;
    stream.write(isDim ? dim(shown, stream) : shown);
    this.#endsLine = shown.endsWith('\n');
  }

  #endLine(): void {
    if (this.#endsLine) return;
    (this.#isReasoning ? this.#options.notes : this.#options.output).write('\n');
    this.#endsLine = true;
  }
}

function writeNote(stream: Writable, text: string): void {
  stream.write(`${dim(text, stream)}\n`);
}

/** Dims text if the stream is a terminal with colors and `NO_COLOR` is not set. */
function dim(text: string, stream: Writable): string {
  return styleText('dim', text, { stream });
}
