import {
  NO_USAGE,
  totalChoices,
  type FinishReason,
  type GenerationEvent,
  type GenerationRequest,
  type TokenLogprob,
  type ToolCall,
  type Usage,
} from '../generation.ts';
import type { WholeResponse } from '../protocol.ts';
import { SHAPES, type ResponseIdentity } from './shape.ts';
import { chatLogprobs, textLogprobs } from './logprobs.ts';
import { usageJson } from './usage.ts';

interface ResponseChoice {
  text: string;
  reasoning: string;
  calls: ToolCall[];
  logprobs: TokenLogprob[];
  reason: FinishReason;
}

/** Builds a non-streaming JSON response from the events of one generation. */
export class ResponseBuilder implements WholeResponse {
  readonly #identity: ResponseIdentity;
  readonly #request: GenerationRequest;
  readonly #choices: ResponseChoice[];
  #usage: Usage = NO_USAGE;

  constructor(identity: ResponseIdentity, request: GenerationRequest) {
    this.#identity = identity;
    this.#request = request;
    this.#choices = Array.from({ length: totalChoices(request) }, () => ({
      text: '',
      reasoning: '',
      calls: [],
      logprobs: [],
      reason: 'stop',
    }));
  }

  /** Adds the next event. Ignores events of choices that were not requested. */
  add(event: GenerationEvent): void {
    switch (event.type) {
      case 'started':
        break;
      case 'token':
      case 'reasoning': {
        const choice = this.#choices[event.choice];
        if (choice === undefined) break;
        choice[event.type === 'token' ? 'text' : 'reasoning'] += event.text;
        // Not `push(...event.logprobs)`: a whole response of a replica is one event, which can have more log
        // probabilities than a function can have arguments.
        for (const logprob of event.logprobs ?? []) choice.logprobs.push(logprob);
        break;
      }
      case 'tool-call':
        this.#choices[event.choice]?.calls.push({ id: event.id, name: event.name, arguments: '' });
        break;
      case 'tool-arguments': {
        // Calls do not overlap.
        const call = this.#choices[event.choice]?.calls.at(-1);
        if (call !== undefined) call.arguments += event.text;
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

  /** The JSON body, complete after the `end` event. */
  body(): string {
    const { id, created, model } = this.#identity;
    const { object } = SHAPES[this.#request.kind];
    const head = JSON.stringify({ id, object, created, model });
    const choices = this.#choices.map((choice, index) => this.#choice(choice, index)).join(',');
    return `${head.slice(0, -1)},"choices":[${choices}],"usage":${usageJson(this.#request.kind, this.#usage)}}`;
  }

  #choice({ text, reasoning, calls, logprobs, reason }: ResponseChoice, index: number): string {
    const alternatives = this.#request.logprobs;
    const end = `"finish_reason":"${reason}"}`;
    switch (this.#request.kind) {
      case 'chat': {
        const content = text === '' && calls.length > 0 ? null : JSON.stringify(text);
        const list = alternatives === null ? null : JSON.stringify(chatLogprobs(logprobs, alternatives));
        const reasoningField = reasoning === '' ? '' : `"reasoning_content":${JSON.stringify(reasoning)},`;
        const callsField = calls.length === 0 ? '' : `"tool_calls":${JSON.stringify(calls.map(toolCall))},`;
        const message = `{"role":"assistant","content":${content},${reasoningField}${callsField}"refusal":null}`;
        return `{"index":${index},"message":${message},"logprobs":${list},${end}`;
      }
      case 'text': {
        const list = alternatives === null ? null : JSON.stringify(textLogprobs(logprobs, alternatives, 0));
        return `{"index":${index},"text":${JSON.stringify(text)},"logprobs":${list},${end}`;
      }
    }
  }
}

/** Formats a call of a message. */
function toolCall({ id, name, arguments: text }: ToolCall): object {
  return { id, type: 'function', function: { name, arguments: text } };
}
