import type { Ending, ToldUsage, Wish } from './books.ts';

/** The parts of bodies and chunks that callers keep books of. */
interface Body {
  error?: { code?: string | null };
  usage?: { prompt_tokens: number; completion_tokens: number } | null;
  choices?: { index: number; delta?: { content?: string }; text?: string; finish_reason?: string | null }[];
}

/** How a request ended whose answer came as one JSON body. */
export function readWhole(status: number, text: string): Ending {
  const body = parse(text);
  if (status === 200 && body?.choices?.every(({ finish_reason }) => finish_reason)) {
    return { how: 'whole', usage: told(body) };
  }
  if (status === 200) return { how: 'lost', why: 'a body of 200 that is no answer' };
  return { how: 'refused', status, code: body?.error?.code ?? 'none' };
}

/** A stream, frame by frame. */
export class AnswerInParts {
  /** Completion tokens that have arrived, all choices together. */
  received = 0;
  /** Set by `[DONE]`. */
  ending: Ending | null = null;
  readonly #wish: Wish;
  readonly #finished = new Set<number>();
  #pending = '';
  #usage: ToldUsage | null = null;
  #error: string | null = null;

  constructor(wish: Wish) {
    this.#wish = wish;
  }

  push(text: string): void {
    const frames = (this.#pending + text).split('\n\n');
    this.#pending = frames.pop() ?? '';
    for (const frame of frames) this.#read(frame);
  }

  #read(frame: string): void {
    if (!frame.startsWith('data: ')) return;
    const data = frame.slice('data: '.length);
    if (data === '[DONE]') {
      this.ending = this.#end();
      return;
    }
    const chunk = parse(data);
    if (chunk === null) {
      this.#error = 'a frame that is no JSON';
      return;
    }
    if (chunk.error) this.#error = chunk.error.code ?? 'none';
    else this.#usage = told(chunk) ?? this.#usage;
    for (const { index, delta, text, finish_reason: reason } of chunk.choices ?? []) {
      // Every token of the scripted engine is a word.
      this.received += (delta?.content ?? text ?? '').match(/\S+/g)?.length ?? 0;
      if (reason) this.#finished.add(index);
    }
  }

  #end(): Ending {
    if (this.#error !== null) return { how: 'framed', code: this.#error };
    const { n = 1, prompt } = this.#wish.body;
    const choices = Number(n) * (Array.isArray(prompt) ? prompt.length : 1);
    if (this.#finished.size < choices) return { how: 'lost', why: '[DONE] without a finish' };
    return { how: 'whole', usage: this.#usage };
  }
}

function told({ usage }: Body): ToldUsage | null {
  return usage ? { prompt: usage.prompt_tokens, completion: usage.completion_tokens } : null;
}

/** Null for what is no JSON. */
function parse(text: string): Body | null {
  try {
    // An answer of the service; what is not there is undefined.
    return JSON.parse(text) as Body;
  } catch {
    return null;
  }
}
