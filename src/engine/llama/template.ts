import { Environment, Interpreter, Template } from '@huggingface/jinja';
import { ServiceError } from '../../errors.ts';
import type { Message } from '../../generation.ts';
import { MarkedContents, searchedLiterals, type TemplateSegment } from './template-markers.ts';

export interface RenderedPrompt {
  /** Whether the template starts with BOS, which is not in `segments`. */
  bos: boolean;
  /** Not empty, alternately trusted and untrusted. */
  segments: readonly TemplateSegment[];
}

/** The template is invalid, or cannot render a simple chat. */
export class ChatTemplateError extends Error {
  override readonly name = 'ChatTemplateError';
}

/**
 * A model's chat template (Jinja, from `tokenizer.chat_template`).
 *
 * Message contents do not pass through the template: it renders markers, and the output is split at the markers, so no
 * content can forge a turn of another role. Templates can still trim contents (white space at both ends is outside the
 * marker) and search for strings (`'</think>' in content`; these stay visible between markers). A request whose markers
 * the template splits is refused.
 */
export class ChatTemplate {
  /** The template's family, as in `architecture.instruct_type`; null: unknown. */
  readonly instructType: string | null;
  readonly #template: Template;
  readonly #special: { bos: string; eos: string };
  readonly #literals: RegExp | null;
  readonly #now: () => Date;

  /** `special`: texts of the model's tokens; empty: none. `now`: for `strftime_now`. Throws `ChatTemplateError`. */
  constructor(source: string, special: { bos: string; eos: string }, now: () => Date = () => new Date()) {
    try {
      this.#template = new Template(source);
    } catch (error) {
      throw new ChatTemplateError(`The chat template is invalid: ${messageOf(error)}`, { cause: error });
    }
    this.instructType =
      TEMPLATE_FAMILIES.find(({ marks }) => marks.every((mark) => source.includes(mark)))?.name ?? null;
    this.#special = special;
    this.#literals = searchedLiterals(this.#template.parsed);
    this.#now = now;
    this.#checkSimpleMessage();
  }

  /**
   * Renders the messages and the start of the assistant's turn. Throws 400 `invalid_value` at `messages` if the template
   * refuses them, for example a system message or two user messages in a row.
   */
  render(messages: readonly Message[]): RenderedPrompt {
    const contents = new MarkedContents(this.#literals);
    const marked = messages.map((message) => ({ ...message, content: contents.mark(message.content ?? '') }));
    const output = this.#execute(marked);
    const { bos } = this.#special;
    const startsWithBos = bos !== '' && output.startsWith(bos);
    const segments = contents.split(startsWithBos ? output.slice(bos.length) : output);
    if (segments === null)
      throw invalidMessages('The chat template of this model cannot separate these messages.');
    return { bos: startsWithBos, segments };
  }

  #execute(messages: readonly Message[]): string {
    try {
      // The value of a template is a string.
      return new Interpreter(this.#environment(messages)).run(this.#template.parsed).value as string;
    } catch (error) {
      if (error instanceof TemplateRefusal) throw invalidMessages(error.message);
      // The template rendered a simple chat at load, so these messages are the cause.
      throw invalidMessages('The chat template of this model cannot render these messages.', error);
    }
  }

  /** The names that Hugging Face's renderer provides. */
  #environment(messages: readonly Message[]): Environment {
    const environment = new Environment();
    const names: Record<string, unknown> = {
      ...CONSTANTS,
      raise_exception: (message: unknown) => {
        throw new TemplateRefusal(String(message));
      },
      range: pythonRange,
      strftime_now: (format: string) => strftime(this.#now(), format),
      messages,
      bos_token: this.#special.bos,
      eos_token: this.#special.eos,
      add_generation_prompt: true,
      tools: null,
      documents: null,
    };
    for (const [name, value] of Object.entries(names)) environment.set(name, value);
    return environment;
  }

  /** Finds unsupported templates at load, before the first request. */
  #checkSimpleMessage(): void {
    try {
      const { segments } = this.render([{ role: 'user', content: 'Hello' }]);
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

/** Thrown by a template with `raise_exception`. */
class TemplateRefusal extends Error {}

/** Maximum length of a template's error message in a response, in UTF-16 code units. */
const MAX_MESSAGE_LENGTH = 300;

function invalidMessages(message: string, cause?: unknown): ServiceError {
  return new ServiceError('invalid_value', message.slice(0, MAX_MESSAGE_LENGTH), {
    param: 'messages',
    cause,
  });
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
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

const CONSTANTS = { true: true, false: false, none: null, True: true, False: false, None: null };

/** Python's `range`. */
function pythonRange(first: number, second?: number, step = 1): number[] {
  const [start, end] = second === undefined ? [0, first] : [first, second];
  const numbers: number[] = [];
  if (step > 0) for (let value = start; value < end; value += step) numbers.push(value);
  if (step < 0) for (let value = start; value > end; value += step) numbers.push(value);
  return numbers;
}

/** Python's `strftime` in English, for the directives that templates use. */
function strftime(date: Date, format: string): string {
  return format.replace(/%[a-zA-Z%]/g, (directive) => DIRECTIVES[directive]?.(date) ?? directive);
}

const DIRECTIVES: Readonly<Record<string, (date: Date) => string>> = {
  '%Y': (date) => String(date.getFullYear()),
  '%y': (date) => String(date.getFullYear() % 100).padStart(2, '0'),
  '%m': (date) => String(date.getMonth() + 1).padStart(2, '0'),
  '%d': (date) => String(date.getDate()).padStart(2, '0'),
  '%B': (date) => date.toLocaleString('en-US', { month: 'long' }),
  '%b': (date) => date.toLocaleString('en-US', { month: 'short' }),
  '%A': (date) => date.toLocaleString('en-US', { weekday: 'long' }),
  '%a': (date) => date.toLocaleString('en-US', { weekday: 'short' }),
  '%H': (date) => String(date.getHours()).padStart(2, '0'),
  '%M': (date) => String(date.getMinutes()).padStart(2, '0'),
  '%S': (date) => String(date.getSeconds()).padStart(2, '0'),
  '%%': () => '%',
};
