import type { ResponseOutcome, ReportedUsage, TortureRequest } from './records.ts';

/** The fields of bodies and chunks that callers record. */
interface ResponseBody {
  error?: { code?: string | null };
  usage?: { prompt_tokens: number; completion_tokens: number } | null;
  choices?: { index: number; delta?: { content?: string }; text?: string; finish_reason?: string | null }[];
}

/** Returns the outcome of a request with a JSON response. */
export function parseBody(status: number, text: string): ResponseOutcome {
  const body = parse(text);
  if (status === 200 && body?.choices?.every(({ finish_reason }) => finish_reason)) {
    return { kind: 'complete', usage: usageOf(body) };
  }
  if (status === 200) return { kind: 'connection-lost', reason: 'the body of a 200 is not a completion' };
  return { kind: 'refused', status, code: body?.error?.code ?? 'none' };
}

/** Parses a stream. */
export class StreamParser {
  /** Completion tokens received, over all choices. */
  received = 0;
  /** Set by `[DONE]`. */
  outcome: ResponseOutcome | null = null;
  readonly #request: TortureRequest;
  readonly #finished = new Set<number>();
  #pending = '';
  #usage: ReportedUsage | null = null;
  #error: string | null = null;

  constructor(request: TortureRequest) {
    this.#request = request;
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
      this.outcome = this.#end();
      return;
    }
    const chunk = parse(data);
    if (chunk === null) {
      this.#error = 'invalid JSON';
      return;
    }
    if (chunk.error) this.#error = chunk.error.code ?? 'none';
    else this.#usage = usageOf(chunk) ?? this.#usage;
    for (const { index, delta, text, finish_reason: reason } of chunk.choices ?? []) {
      // Every token of the scripted engine is a word.
      this.received += (delta?.content ?? text ?? '').match(/\S+/g)?.length ?? 0;
      if (reason) this.#finished.add(index);
    }
  }

  #end(): ResponseOutcome {
    if (this.#error !== null) return { kind: 'stream-error', code: this.#error };
    const { n = 1, prompt } = this.#request.body;
    const choices = Number(n) * (Array.isArray(prompt) ? prompt.length : 1);
    if (this.#finished.size < choices) return { kind: 'connection-lost', reason: '[DONE] without a finish' };
    return { kind: 'complete', usage: this.#usage };
  }
}

function usageOf({ usage }: ResponseBody): ReportedUsage | null {
  return usage ? { prompt: usage.prompt_tokens, completion: usage.completion_tokens } : null;
}

/** Returns null for invalid JSON. */
function parse(text: string): ResponseBody | null {
  try {
    // All fields are optional.
    return JSON.parse(text) as ResponseBody;
  } catch {
    return null;
  }
}
