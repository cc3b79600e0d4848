import { type Alternatives, Gbnf, inSet, type Part } from './gbnf.ts';

/**
 * Simulates how llama.cpp checks tokens with a grammar (`llama-grammar.cpp`): it has a stack for each parse of the text,
 * and tries all tokens with each stack, one character at a time.
 */
export class Stacks {
  readonly #gbnf: Gbnf;
  readonly #rests = new Map<string, Rest>();
  readonly #parts = new Map<Part, number>();
  #stacks: readonly Stack[];

  constructor(gbnf: string) {
    this.#gbnf = new Gbnf(gbnf);
    this.#stacks = this.#advance([this.#rest({ kind: 'rule', name: 'root' }, 1, 1, null)]);
  }

  /** Counts how many stacks are visited to find which of `tokens` can be next. Stops at `max`. */
  visits(tokens: readonly (readonly number[])[], max: number): number {
    let visits = 0;
    const rejected = (stacks: readonly Stack[], tokens: readonly Token[]): readonly Token[] => {
      let remaining = tokens;
      for (const stack of tokens.length === 0 ? [] : stacks) {
        visits += 1;
        if (visits >= max) return [];
        if (stack === null) {
          remaining = remaining.filter(({ token, at }) => at < token.length);
          continue;
        }
        const fits = ({ token, at }: Token): boolean => at < token.length && stack.takes(token[at] ?? 0);
        const next = remaining.filter(fits).map(({ token, at }) => ({ token, at: at + 1 }));
        const failed = rejected(this.#advance([stack.rest]), next);
        remaining = [
          ...remaining.filter((token) => token.at < token.token.length && !fits(token)),
          ...failed.map(({ token, at }) => ({ token, at: at - 1 })),
        ];
      }
      return remaining;
    };
    rejected(
      this.#stacks,
      tokens.map((token) => ({ token, at: 0 })),
    );
    return visits;
  }

  get size(): number {
    return this.#stacks.length;
  }

  /** Advances by the next character. */
  accept(code: number): void {
    this.#stacks = this.#advance(
      this.#stacks.flatMap((stack) => (stack?.takes(code) === true ? [stack.rest] : [])),
    );
  }

  /** Expands rules until each stack has a character on top. */
  #advance(rests: readonly Rest[]): readonly Stack[] {
    const seen = new Set<Rest>();
    const stacks = new Map<string, Stack>();
    const open = [...rests];
    while (open.length > 0) {
      const rest = open.pop() ?? null;
      if (seen.has(rest)) continue;
      seen.add(rest);
      if (rest === null) {
        stacks.set('', null);
        continue;
      }
      const { part, min, max, next } = rest;
      if (min === 0) open.push(next);
      if (max === 0) continue;
      const after = max === 1 ? next : this.#rest(part, Math.max(0, min - 1), max - 1, next);
      if (part.kind === 'set') {
        stacks.set(`${this.#number(part)} ${after?.id}`, { takes: (code) => inSet(part, code), rest: after });
      } else if (part.kind === 'text') {
        const [first] = part.text;
        const tail = part.text.slice(1);
        if (first === undefined) open.push(after);
        else {
          const then = tail.length === 0 ? after : this.#rest(this.#tail(part), 1, 1, after);
          stacks.set(`${first} text ${then?.id}`, { takes: (code) => code === first, rest: then });
        }
      } else open.push(...this.#expand(part, after));
    }
    return [...stacks.values()];
  }

  #expand(part: Part & { kind: 'group' | 'rule' }, after: Rest): Rest[] {
    const choice: Alternatives =
      part.kind === 'group' ? part.choice : (this.#gbnf.rules.get(part.name) ?? []);
    return choice.map((sequence) =>
      sequence.reduceRight<Rest>((next, item) => this.#rest(item.part, item.min, item.max, next), after),
    );
  }

  readonly #tails = new Map<Part, Part>();

  #tail(part: Part & { kind: 'text' }): Part {
    const tail = this.#tails.get(part) ?? { kind: 'text', text: part.text.slice(1) };
    this.#tails.set(part, tail);
    return tail;
  }

  /** Returns the same object for equal arguments. */
  #rest(part: Part, min: number, max: number, next: Rest): Rest {
    const key = `${this.#number(part)} ${min} ${max} ${next?.id}`;
    const rest = this.#rests.get(key) ?? { id: this.#rests.size, part, min, max, next };
    this.#rests.set(key, rest);
    return rest;
  }

  #number(part: Part): number {
    const number = this.#parts.get(part) ?? this.#parts.size;
    this.#parts.set(part, number);
    return number;
  }
}

/** The rest of the grammar to match; null: nothing. */
type Rest = { id: number; part: Part; min: number; max: number; next: Rest } | null;

/** A stack with a set of characters on top; null: the text can end. */
type Stack = { takes(code: number): boolean; rest: Rest } | null;

/** A token and the number of its matched characters. */
interface Token {
  token: readonly number[];
  at: number;
}
