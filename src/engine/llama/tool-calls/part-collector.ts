/** A part of the output of a model. `arguments` belong to the last `call`; their texts together are a JSON object. */
export type OutputPart =
  | { type: 'text' | 'reasoning' | 'arguments'; text: string }
  | { type: 'call'; name: string };

/** Maximum white space that is held back, in UTF-16 code units. */
const MAX_SPACE = 256;

/**
 * Collects the parts of an output and joins adjacent ones. Omits white space at both ends of the reasoning and after it,
 * before a call, between calls, and after the last call.
 */
export class PartCollector {
  #parts: OutputPart[] = [];
  /** White space at the end of the text or reasoning so far, which may be omitted. */
  #space = '';
  #last: OutputPart['type'] | null = null;

  /** Returns the parts since the last call of this method. */
  take(): OutputPart[] {
    const parts = this.#parts;
    this.#parts = [];
    return parts;
  }

  text(text: string): void {
    const kept = this.#last === 'reasoning' ? text.trimStart() : text;
    // White space between reasoning and text belongs to neither.
    if (this.#last === 'reasoning') this.#space = '';
    this.#spaced('text', kept);
  }

  reasoning(text: string): void {
    this.#spaced('reasoning', this.#last === 'reasoning' ? text : text.trimStart());
  }

  /** Starts a call. */
  call(name: string): void {
    this.#space = '';
    this.#last = 'call';
    this.#parts.push({ type: 'call', name });
  }

  arguments(text: string): void {
    this.#add('arguments', text);
  }

  /** Ends the output. */
  end(): void {
    const space = this.#space;
    this.#space = '';
    if (this.#last === 'text' || this.#last === null) this.#add('text', space);
  }

  #spaced(type: 'text' | 'reasoning', text: string): void {
    const whole = this.#space + text;
    const trimmed = whole.trimEnd();
    const keep = whole.length - trimmed.length > MAX_SPACE ? whole.length : trimmed.length;
    this.#space = whole.slice(keep);
    this.#add(type, whole.slice(0, keep));
  }

  #add(type: 'text' | 'reasoning' | 'arguments', text: string): void {
    if (text === '') return;
    this.#last = type;
    const last = this.#parts.at(-1);
    if (last !== undefined && last.type !== 'call' && last.type === type) last.text += text;
    else this.#parts.push({ type, text });
  }
}
