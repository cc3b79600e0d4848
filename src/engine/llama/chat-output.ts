import type { FinishReason } from '../../generation.ts';
import { SequenceMatcher } from './sequence-matcher.ts';
import { OutputParser, type OutputParserOptions, type OutputState } from './tool-calls/output-parser.ts';
import type { OutputPart } from './tool-calls/part-collector.ts';

export interface ChatOutputOptions extends OutputParserOptions {
  /** Stop sequences, which must not be empty. They apply only to text, not to reasoning or calls. */
  stop: readonly string[];
  /** Whether the output ends after one call. */
  oneCall: boolean;
}

/** The output of one choice of a chat with tools or reasoning, in parts. */
export class ChatOutput {
  readonly #parser: OutputParser;
  readonly #stop: SequenceMatcher;
  readonly #oneCall: boolean;
  #stopped = false;
  #calls = 0;

  constructor({ stop, oneCall, ...options }: ChatOutputOptions) {
    this.#parser = new OutputParser(options);
    this.#stop = new SequenceMatcher(stop);
    this.#oneCall = oneCall;
  }

  get state(): OutputState {
    return this.#parser.state;
  }

  /** See `OutputParser.callText`. */
  get callText(): string | null {
    return this.#parser.callText;
  }

  /** See `OutputParser.rejectCall`. The text is returned by the next `push` or `flush`. */
  rejectCall(): void {
    this.#parser.rejectCall();
  }

  /** The finish reason if the output must end now; null if it may continue. */
  get finishReason(): FinishReason | null {
    if (this.#stopped) return 'stop';
    return this.#oneCall && this.#parser.completedCalls > 0 ? 'tool_calls' : null;
  }

  /** Whether a stop sequence has matched. */
  get stopped(): boolean {
    return this.#stopped;
  }

  /** Number of calls that have begun. */
  get calls(): number {
    return this.#calls;
  }

  /**
   * Adds the text of a token and returns the parts that are ready, often none. If `isControl` is true, the text is
   * parsed but is not part of the response.
   */
  push(text: string, isControl = false): OutputPart[] {
    const parts = this.#parser.push(text);
    if (!isControl) return this.#search(parts);
    return this.#search(parts.map((part) => (part.type === 'text' ? withoutText(part, text) : part)));
  }

  /** Ends the output. Returns the parts that were held back. */
  flush(): OutputPart[] {
    const parts = this.#search(this.#parser.flush());
    if (!this.#stopped) addText(parts, this.#stop.flush());
    return parts;
  }

  #search(parts: readonly OutputPart[]): OutputPart[] {
    const ready: OutputPart[] = [];
    for (const part of parts) {
      if (this.#stopped) break;
      if (part.type === 'text') {
        const { text, match } = this.#stop.push(part.text);
        addText(ready, text);
        this.#stopped = match !== null;
        continue;
      }
      // A stop sequence cannot span a call.
      addText(ready, this.#stop.flush());
      if (part.type === 'call') this.#calls++;
      ready.push(part);
    }
    return ready;
  }
}

function addText(parts: OutputPart[], text: string): void {
  if (text !== '') parts.push({ type: 'text', text });
}

function withoutText<Part extends { text: string }>(part: Part, control: string): Part {
  return { ...part, text: part.text.replace(control, '') };
}
