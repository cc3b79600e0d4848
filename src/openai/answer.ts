import type { FinishReason, GenerationEvent, GenerationRequest, TokenLogprob, Usage } from '../generation.ts';
import { chatLogprobs, textLogprobs } from './logprobs.ts';
import { usageJson } from './usage.ts';

/** What an answer is called: constant through it, in every chunk of a stream. */
export interface AnswerIdentity {
  /** `chatcmpl-…` or `cmpl-…`. */
  id: string;
  /** Unix seconds. */
  created: number;
  /** The id that the caller named. */
  model: string;
}

interface Choice {
  text: string;
  logprobs: TokenLogprob[];
  reason: FinishReason;
}

/** Gathers the events of one generation into the whole JSON answer. */
export class AnswerBuilder {
  readonly #identity: AnswerIdentity;
  readonly #request: GenerationRequest;
  readonly #choices: Choice[];
  #usage: Usage = { promptTokens: 0, completionTokens: 0, cachedTokens: 0 };

  constructor(identity: AnswerIdentity, request: GenerationRequest) {
    this.#identity = identity;
    this.#request = request;
    const prompts = request.kind === 'text' ? request.prompts.length : 1;
    this.#choices = Array.from({ length: prompts * request.choices }, () => ({
      text: '',
      logprobs: [],
      reason: 'stop',
    }));
  }

  /** Takes the next event. Events of a choice that was not asked for are left out. */
  add(event: GenerationEvent): void {
    switch (event.type) {
      case 'started':
        break;
      case 'token': {
        const choice = this.#choices[event.choice];
        if (choice === undefined) break;
        choice.text += event.text;
        if (event.logprobs !== null) choice.logprobs.push(...event.logprobs);
        break;
      }
      case 'finish': {
        const choice = this.#choices[event.choice];
        if (choice !== undefined) choice.reason = event.reason;
        break;
      }
      case 'end':
        this.#usage = event.usage;
    }
  }

  /** The body of the answer; complete once `end` was added. */
  body(): string {
    const { id, created, model } = this.#identity;
    const chat = this.#request.kind === 'chat';
    const head = JSON.stringify({ id, object: chat ? 'chat.completion' : 'text_completion', created, model });
    const choices = JSON.stringify(this.#choices.map((choice, index) => this.#choice(choice, index)));
    return `${head.slice(0, -1)},"choices":${choices},"usage":${usageJson(this.#usage)}}`;
  }

  #choice(choice: Choice, index: number): object {
    const wanted = this.#request.logprobs;
    const finish = { finish_reason: choice.reason };
    if (this.#request.kind === 'chat') {
      const logprobs = wanted === null ? null : chatLogprobs(choice.logprobs, wanted);
      return {
        index,
        message: { role: 'assistant', content: choice.text, refusal: null },
        logprobs,
        ...finish,
      };
    }
    const logprobs = wanted === null ? null : textLogprobs(choice.logprobs, wanted, 0);
    return { index, text: choice.text, logprobs, ...finish };
  }
}
