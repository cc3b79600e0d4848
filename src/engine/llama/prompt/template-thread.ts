import { extname } from 'node:path';
import { Worker } from 'node:worker_threads';
import { type ErrorCode, ServiceError } from '../../../core/errors.ts';
import { FairTurns } from './fair-turns.ts';
import type { PromptText, ReservedTokens } from './prompt-text.ts';
import type { RenderedPrompt } from './template.ts';
import type { RenderedRequest } from './template-probe.ts';

/** What the thread needs to create the chat template and the texts of prompts. */
export interface TemplateData {
  source: string;
  special: { bos: string; eos: string };
  reserved: ReservedTokens;
}

export type RenderedText = PromptText & Pick<RenderedPrompt, 'bos' | 'reasoning'>;

/** `refusal`: a `ServiceError`. `failed`: another error. */
export type RenderResult =
  | { rendered: RenderedText }
  | { refusal: { code: ErrorCode; message: string; param: string | null; cause: unknown } }
  | { failed: unknown };

/**
 * Renders large chats on a thread, one at a time and in turns between scopes, so that they do not hold the event loop,
 * which also samples. The thread starts with the first chat and then stays, without keeping the process alive while it
 * is idle.
 */
export class TemplateThread implements AsyncDisposable {
  readonly #data: TemplateData;
  readonly #turns = new FairTurns();
  #worker: Worker | null = null;

  constructor(data: TemplateData) {
    this.#data = data;
  }

  /** Throws like `ChatTemplate.render`, or the reason of the signal while the request waits for its turn. */
  async render(request: RenderedRequest, scope: string | null, signal: AbortSignal): Promise<RenderedText> {
    using _ = await this.#turns.take(scope, signal);
    const { messages, tools, toolChoice, reasoningEffort, templateVariables } = request;
    const result = await this.#run(
      JSON.stringify({ messages, tools, toolChoice, reasoningEffort, templateVariables }),
    );
    signal.throwIfAborted();
    if ('rendered' in result) return result.rendered;
    if ('failed' in result) throw result.failed;
    const { code, message, param, cause } = result.refusal;
    throw new ServiceError(code, message, { param: param ?? undefined, cause });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#worker?.terminate();
  }

  /** Runs one task. A text is copied much faster than an object. */
  #run(request: string): Promise<RenderResult> {
    const worker = (this.#worker ??= this.#start());
    const { promise, resolve, reject } = Promise.withResolvers<RenderResult>();
    let reason: unknown = null;
    const onError = (error: unknown): void => void (reason = error);
    const onExit = (): void => {
      this.#worker = null;
      reject(new Error('the thread for chat templates has stopped', { cause: reason }));
    };
    worker.once('message', resolve).once('error', onError).once('exit', onExit);
    worker.ref();
    worker.postMessage(request);
    return promise.finally(() => {
      worker.off('message', resolve).off('error', onError).off('exit', onExit);
      worker.unref();
    });
  }

  #start(): Worker {
    const file = new URL(`./template-worker${extname(import.meta.filename)}`, import.meta.url);
    return new Worker(file, { name: 'chat-template', workerData: this.#data });
  }
}
