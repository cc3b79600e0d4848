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
  reasoning: string;
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
      reasoning: '',
      logprobs: [],
      reason: 'stop',
    }));
  }

  /** Takes the next event. Events of a choice that was not asked for are left out. */
  add(event: GenerationEvent): void {
    switch (event.type) {
      case 'started':
        break;
      case 'token':
      case 'reasoning': {
        const choice = this.#choices[event.choice];
        if (choice === undefined) break;
        choice[event.type === 'token' ? 'text' : 'reasoning'] += event.text;
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
    const choices = this.#choices.map((choice, index) => this.#choice(choice, index)).join(',');
    return `${head.slice(0, -1)},"choices":[${choices}],"usage":${usageJson(this.#usage)}}`;
  }

  #choice({ text, reasoning, logprobs, reason }: Choice, index: number): string {
    const wanted = this.#request.logprobs;
    const content = JSON.stringify(text);
    const end = `"finish_reason":"${reason}"}`;
    if (this.#request.kind === 'chat') {
      const list = wanted === null ? null : JSON.stringify(chatLogprobs(logprobs, wanted));
      const thought = reasoning === '' ? '' : `"reasoning_content":${JSON.stringify(reasoning)},`;
      const message = `{"role":"assistant","content":${content},${thought}"refusal":null}`;
      return `{"index":${index},"message":${message},"logprobs":${list},${end}`;
    }
    const list = wanted === null ? null : JSON.stringify(textLogprobs(logprobs, wanted, 0));
    return `{"index":${index},"text":${content},"logprobs":${list},${end}`;
  }
}
