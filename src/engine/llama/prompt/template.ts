import { Environment, Template } from '@huggingface/jinja';
import { ServiceError } from '../../../core/errors.ts';
import { EFFORT_BUDGETS, REASONING_EFFORTS, type ReasoningEffort } from '../../../core/generation.ts';
import {
  dateOf,
  rendererNames,
  RenderingWork,
  rewriteSyntax,
  TemplateRefusal,
} from './template-environment.ts';
import { MarkedTexts, searchedLiterals, type TemplateSegment } from './template-markers.ts';
import {
  FALLBACK_TAGS,
  fallbackMessages,
  offeredTools,
  type TemplateForm,
  templateForms,
  templateMessages,
  templateTools,
  type Turns,
  withoutNullArguments,
  withSimpleSchema,
} from './template-messages.ts';
import { CALLS, isComplete, type RenderedRequest, userSays } from './template-probe.ts';
import { detectFormat } from '../tool-calls/formats.ts';
import { GENERIC } from '../tool-calls/json-formats.ts';
import {
  detectReasoning,
  type PromptReasoning,
  type ReasoningFormat,
  reasoningOf,
} from '../tool-calls/reasoning.ts';
import type { ToolFormat } from '../tool-calls/tool-format.ts';
import { messageOf } from '../../../support/thrown.ts';

export interface RenderedPrompt {
  /** Whether the template starts with BOS, which is not in `segments`. */
  bos: boolean;
  /** Alternately trusted and untrusted. No segment is empty. */
  segments: readonly TemplateSegment[];
  /** Also `closed` for models that do not reason. */
  reasoning: PromptReasoning;
}

/** The template is invalid, or cannot render a simple chat. */
export class ChatTemplateError extends Error {
  override readonly name = 'ChatTemplateError';
}

/**
 * A model's chat template (Jinja, from `tokenizer.chat_template`).
 *
 * The template never sees the caller's text. It renders markers instead, which are then replaced with the text, so no
 * text can forge a turn of another role. Two things still work. Templates can trim a message, because white space at
 * both ends is outside the marker. They can also search it for strings (`'</think>' in content`), because these strings
 * are not replaced with markers.
 *
 * The markers also show what became of the texts. If the template leaves out a message, or refuses the order of the
 * turns, the turns are changed. A request whose messages cannot all be rendered intact is refused.
 */
export class ChatTemplate {
  /** The template's family, as in `architecture.instruct_type`; null if unknown. */
  readonly instructType: string | null;
  /** The format of tool calls. `GENERIC`: the template cannot render tools, so a message describes them. */
  readonly toolFormat: ToolFormat;
  /** Null if the model does not reason. */
  readonly reasoning: ReasoningFormat | null;
  readonly source: string;
  readonly special: { bos: string; eos: string };
  readonly #template: Template;
  readonly #literals: RegExp | null;
  readonly #now: () => Date;
  /** The value of the variable `tools` for a request without tools. */
  #noTools: null | [] = null;
  /** Null if the template cannot render tools; `fallbackMessages` is used then. */
  readonly #form: TemplateForm | null;
  /** The values of `reasoning_effort` that the template accepts. */
  readonly #efforts: readonly ReasoningEffort[] = REASONING_EFFORTS;

  /**
   * `special` contains the text of the model's BOS and EOS tokens, empty if it has none. `now` is for `strftime_now`.
   * Throws `ChatTemplateError`.
   */
  constructor(source: string, special: { bos: string; eos: string }, now: () => Date = () => new Date()) {
    try {
      this.#template = new Template(source);
    } catch (error) {
      throw new ChatTemplateError(`The chat template is invalid: ${messageOf(error)}`, { cause: error });
    }
    rewriteSyntax(this.#template.parsed);
    this.instructType =
      TEMPLATE_FAMILIES.find(({ marks }) => marks.every((mark) => source.includes(mark)))?.name ?? null;
    this.reasoning = detectReasoning(source);
    this.source = source;
    this.special = special;
    this.#literals = searchedLiterals(this.#template.parsed);
    this.#now = now;
    // Some templates always iterate over `tools`, which fails with null.
    if (this.#rendered(userSays('Hello'), null) === null) this.#noTools = [];
    this.#checkSimpleMessage();
    this.#efforts = REASONING_EFFORTS.filter(
      (reasoningEffort) => this.#rendered({ ...userSays('Hello'), reasoningEffort }, null) !== null,
    );
    const format = detectFormat(source);
    const forms = format !== GENERIC && source.includes('tools') ? templateForms() : [];
    const renders = (arrangement: Arrangement) => (form: TemplateForm) =>
      isComplete(this.#rendered(CALLS, form, arrangement));
    this.#form =
      forms.find(renders(AS_SENT)) ?? forms.find(renders({ turns: 'unchanged', isStrict: false })) ?? null;
    this.toolFormat = this.#form === null ? GENERIC : format;
  }

  /** Whether the text is part of the template's own text, such as the tag of a call. */
  mentions(text: string): boolean {
    return this.source.includes(text) || (this.#form === null && FALLBACK_TAGS.includes(text));
  }

  /**
   * Renders the messages, the tools, and the start of the assistant's turn. Throws 400 `invalid_value` if the template
   * refuses the messages, leaves out one of them, even with changed turns, or would exceed `work`. If the template fails
   * for another reason, the error has a `cause`.
   */
  render(request: RenderedRequest, work = new RenderingWork()): RenderedPrompt {
    const errors: unknown[] = [];
    for (const simpler of simplerRequests(request)) {
      for (const arrangement of ARRANGEMENTS) {
        try {
          return this.#render(simpler, this.#form, arrangement, work);
        } catch (error) {
          errors.push(error);
          if (work.isExceeded) throw errors[0];
        }
      }
      // A simpler request only helps if the template has failed.
      if (errors.every((error) => error instanceof ServiceError && error.cause === undefined)) break;
    }
    throw errors[0];
  }

  #render(
    request: RenderedRequest,
    form: TemplateForm | null,
    arrangement: Arrangement,
    work = new RenderingWork(),
  ): RenderedPrompt {
    const texts = new MarkedTexts(this.#literals);
    const output = this.#execute(request, form, arrangement, texts, work);
    const { bos } = this.special;
    const startsWithBos = bos !== '' && output.startsWith(bos);
    const segments = texts.split(startsWithBos ? output.slice(bos.length) : output);
    if (segments === null)
      throw invalidMessages(
        'The chat template of this model changes text inside these messages, which is not supported.',
      );
    const missing = texts.missing();
    if (missing !== null) {
      const message = `\`${missing}\`: the chat template of this model leaves this out here.`;
      throw new ServiceError('invalid_value', message, { param: missing });
    }
    const last = segments.at(-1);
    const ending = last?.trusted === true ? last.text : '';
    const reasoning = this.reasoning === null ? 'closed' : reasoningOf(this.reasoning, ending);
    return { bos: startsWithBos, segments, reasoning };
  }

  #execute(
    request: RenderedRequest,
    form: TemplateForm | null,
    { turns, isStrict }: Arrangement,
    texts: MarkedTexts,
    work: RenderingWork,
  ): string {
    try {
      const environment = new Environment();
      const names = {
        ...this.#variables(request, form, turns, texts),
        ...rendererNames(this.#now, isStrict),
      };
      for (const [name, value] of Object.entries(names)) {
        if (!environment.variables.has(name)) environment.set(name, value);
      }
      return work.run(this.#template.parsed, environment);
    } catch (error) {
      if (error instanceof TemplateRefusal) throw invalidMessages(texts.restore(error.message));
      // The template rendered a simple chat at load, so these messages are the cause.
      throw invalidMessages('The chat template of this model cannot render these messages.', error);
    }
  }

  /**
   * Returns the template's variables. Later entries override earlier ones, so the caller cannot replace the variables
   * of the renderer.
   */
  #variables(
    request: RenderedRequest,
    form: TemplateForm | null,
    turns: Turns,
    texts: MarkedTexts,
  ): Record<string, unknown> {
    const tools = offeredTools(request);
    const listed = form === null || tools.length === 0 ? null : templateTools(tools, form, texts);
    return {
      ...(texts.value(request.templateVariables) as object),
      ...this.#reasoning(request.reasoningEffort),
      messages:
        form === null
          ? fallbackMessages(request.messages, tools, turns, texts)
          : templateMessages(request.messages, form, turns, texts),
      bos_token: this.special.bos,
      eos_token: this.special.eos,
      add_generation_prompt: true,
      tools: listed ?? this.#noTools,
      documents: null,
      // Firefunction reads these two instead of `tools` and `strftime_now`.
      functions: listed === null ? '' : JSON.stringify(listed),
      datetime: dateOf(this.#now()),
    };
  }

  /** Returns the most reasoning tokens of an effort; null: no maximum, or the template tells the model the effort. */
  budgetOf(effort: ReasoningEffort | null): number | null {
    if (effort === null || this.source.includes('reasoning_effort')) return null;
    return EFFORT_BUDGETS.find(([name]) => name === effort)?.[1] ?? null;
  }

  /** Templates of DeepSeek and Granite read `thinking` instead of `enable_thinking`. */
  #reasoning(effort: ReasoningEffort | null): Record<string, unknown> {
    if (effort === null) return {};
    const thinks = effort !== 'none';
    const accepted = nearestEffort(effort, this.#efforts);
    return {
      enable_thinking: thinks,
      thinking: thinks,
      ...(accepted !== null && { reasoning_effort: accepted }),
    };
  }

  /** Returns the text of the prompt, or null if the template refuses the request. */
  #rendered(request: RenderedRequest, form: TemplateForm | null, arrangement = AS_SENT): string | null {
    try {
      return this.#render(request, form, arrangement)
        .segments.map(({ text }) => text)
        .join('');
    } catch (error) {
      if (error instanceof ServiceError) return null;
      throw error;
    }
  }

  /** Finds unsupported templates at load, before the first request. */
  #checkSimpleMessage(): void {
    try {
      const { segments } = this.#render(userSays('Hello'), null, AS_SENT);
      if (!segments.some(({ text, trusted }) => !trusted && text.endsWith('Hello'))) {
        throw invalidMessages('it omits the user message');
      }
    } catch (error) {
      const cause = error instanceof ServiceError ? (error.cause ?? error) : error;
      throw new ChatTemplateError(`The chat template fails to render a simple message: ${messageOf(cause)}`, {
        cause: error,
      });
    }
  }
}

/** How a request is passed to the template. */
interface Arrangement {
  turns: Turns;
  /** Whether the template may refuse turns because their roles do not alternate. */
  isStrict: boolean;
}

const AS_SENT: Arrangement = { turns: 'unchanged', isStrict: true };

/** The first one that loses no message is used. */
const ARRANGEMENTS: readonly Arrangement[] = [
  AS_SENT,
  { turns: 'system-first', isStrict: true },
  { turns: 'system-first', isStrict: false },
  { turns: 'no-system', isStrict: true },
  { turns: 'no-system', isStrict: false },
];

/** Returns the request, and simpler ones for templates that fail with null arguments or expect each parameter to have one type. */
function* simplerRequests(request: RenderedRequest): Generator<RenderedRequest> {
  yield request;
  const withoutNull = { ...request, messages: request.messages.map(withoutNullArguments) };
  yield withoutNull;
  yield { ...withoutNull, tools: request.tools.map(withSimpleSchema) };
}

/** Returns the nearest effort that the template accepts, or null if there is none. Never turns reasoning on or off. */
function nearestEffort(
  effort: ReasoningEffort,
  accepted: readonly ReasoningEffort[],
): ReasoningEffort | null {
  const at = REASONING_EFFORTS.indexOf(effort);
  const distance = (other: ReasoningEffort): number => Math.abs(REASONING_EFFORTS.indexOf(other) - at);
  const candidates = accepted.filter((other) => (other === 'none') === (effort === 'none'));
  return candidates.toSorted((a, b) => distance(a) - distance(b))[0] ?? null;
}

/** Maximum length of a template's error message in a response, in UTF-16 code units. */
const MAX_MESSAGE_LENGTH = 300;

function invalidMessages(message: string, cause?: unknown): ServiceError {
  return new ServiceError('invalid_value', message.slice(0, MAX_MESSAGE_LENGTH), {
    param: 'messages',
    cause,
  });
}

/** Identified by the strings in their templates. Newer families first, because they share strings with older ones. */
const TEMPLATE_FAMILIES: readonly { name: string; marks: readonly string[] }[] = [
  { name: 'gpt-oss', marks: ['<|start|>', '<|channel|>'] },
  { name: 'phi4', marks: ['<|im_start|>', '<|im_sep|>'] },
  { name: 'qwen3', marks: ['<|im_start|>', 'last_query_index'] },
  { name: 'chatml', marks: ['<|im_start|>'] },
  { name: 'llama4', marks: ['<|header_start|>'] },
  { name: 'llama3', marks: ['<|start_header_id|>'] },
  { name: 'llama2', marks: ['[INST]', '<<SYS>>'] },
  { name: 'mistral', marks: ['[INST]'] },
  { name: 'gemma', marks: ['<start_of_turn>'] },
  { name: 'deepseek-r1', marks: ['<｜User｜>', '</think>'] },
  { name: 'deepseek', marks: ['<｜User｜>'] },
  { name: 'command-r', marks: ['<|START_OF_TURN_TOKEN|>'] },
  { name: 'phi3', marks: ['<|user|>', '<|end|>'] },
  { name: 'phi3', marks: ["'<|' + message['role'] + '|>'", '<|end|>'] },
  { name: 'zephyr', marks: ['<|user|>', '<|assistant|>'] },
  { name: 'granite', marks: ['<|start_of_role|>'] },
  { name: 'openchat', marks: ['GPT4 Correct'] },
  { name: 'vicuna', marks: ['USER: ', 'ASSISTANT:'] },
  { name: 'alpaca', marks: ['### Instruction:'] },
];
