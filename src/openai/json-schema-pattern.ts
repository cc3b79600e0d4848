/** A construct of regular expressions that some servers do not enforce. */
export type PatternFeature =
  | 'no anchors'
  | 'an anchor in the middle'
  | 'a lookaround'
  | 'a back reference'
  | 'a word boundary'
  | 'a Unicode property'
  | 'a class escape'
  | 'an escaped character'
  | 'a quote, backslash or control character'
  | 'a negated class'
  | 'a dot'
  | 'a lazy quantifier'
  | 'a named group'
  | 'unsupported syntax';

/** Finds the constructs of a `pattern` that not every server enforces. */
export function patternFeatures(pattern: string): ReadonlySet<PatternFeature> {
  return new PatternScanner(pattern).scan();
}

const QUANTIFIER = /^(?:[*+?]|\{(\d+)(?:,(\d*))?\})/;
const GROUP = /^\((?:\?(?:(:)|(<?[=!])|(<[A-Za-z_]\w*>)|(.)))?/s;

class PatternScanner {
  readonly #pattern: string;
  readonly #found = new Set<PatternFeature>();
  #at = 0;
  #depth = 0;

  constructor(pattern: string) {
    this.#pattern = pattern;
  }

  scan(): ReadonlySet<PatternFeature> {
    const pattern = this.#pattern;
    let hasEndAnchor = false;
    /** Whether the previous item is an atom, which a quantifier may follow. */
    let atom = false;
    while (this.#at < pattern.length) {
      const character = pattern[this.#at];
      const quantifier = QUANTIFIER.exec(pattern.slice(this.#at));
      if (quantifier) {
        this.#quantifier(quantifier, atom);
        atom = false;
        continue;
      }
      atom = true;
      switch (character) {
        case '^':
        case '$':
          atom = false;
          if (character === '$' && this.#at === pattern.length - 1) hasEndAnchor = true;
          else if (character === '$' || this.#at > 0) this.#found.add('an anchor in the middle');
          this.#at++;
          break;
        case '(':
          atom = false;
          this.#group();
          break;
        case ')':
          if (--this.#depth < 0) this.#found.add('unsupported syntax');
          this.#at++;
          break;
        case '|':
          atom = false;
          this.#at++;
          break;
        case '[':
          this.#class();
          break;
        case '.':
          this.#found.add('a dot');
          this.#at++;
          break;
        case '{':
        case '}':
        case ']':
          this.#found.add('unsupported syntax');
          this.#at++;
          break;
        default:
          this.#character();
      }
    }
    if (!pattern.startsWith('^') || !hasEndAnchor) this.#found.add('no anchors');
    if (this.#depth !== 0) this.#found.add('unsupported syntax');
    return this.#found;
  }

  #quantifier([text, min, max]: RegExpExecArray, atom: boolean): void {
    this.#at += text.length;
    if (!atom || (max && Number(max) < Number(min))) this.#found.add('unsupported syntax');
    if (this.#pattern[this.#at] === '?') {
      this.#found.add('a lazy quantifier');
      this.#at++;
    }
  }

  #group(): void {
    const [text = '(', , lookaround, name, other] = GROUP.exec(this.#pattern.slice(this.#at)) ?? [];
    if (lookaround !== undefined) this.#found.add('a lookaround');
    if (name !== undefined) this.#found.add('a named group');
    if (other !== undefined) this.#found.add('unsupported syntax');
    this.#depth++;
    this.#at += text.length;
  }

  #class(): void {
    this.#at++;
    if (this.#pattern[this.#at] === '^') {
      this.#found.add('a negated class');
      this.#at++;
    }
    const from = this.#at;
    /** The code point that may be the start of a range. */
    let low: number | null = null;
    while (this.#at < this.#pattern.length && this.#pattern[this.#at] !== ']') {
      const range: boolean =
        this.#pattern[this.#at] === '-' && low !== null && this.#pattern[this.#at + 1] !== ']';
      if (range) this.#at++;
      const code = this.#character(true);
      if (range && (code === null || code < (low ?? 0))) this.#found.add('unsupported syntax');
      low = range ? null : code;
    }
    if (this.#at === from || this.#at >= this.#pattern.length) this.#found.add('unsupported syntax');
    this.#at++;
  }

  /** Reads a character or an escape. Returns its code point, or null if it matches several. */
  #character(inClass = false): number | null {
    if (this.#pattern[this.#at] === '\\') return this.#escape(inClass);
    const code = this.#pattern.codePointAt(this.#at) ?? 0; // The callers check that there is a character.
    this.#at += code > 0xffff ? 2 : 1;
    return this.#literal(code);
  }

  #escape(inClass: boolean): number | null {
    const rest = this.#pattern.slice(this.#at + 1);
    const [hex] = /^(?:x[\da-fA-F]{2}|u[\da-fA-F]{4}|u\{[\da-fA-F]{1,6}\})/.exec(rest) ?? [];
    if (hex !== undefined) {
      this.#at += 1 + hex.length;
      return this.#literal(parseInt(hex.replaceAll(/[xu{}]/g, ''), 16));
    }
    const code = rest.codePointAt(0);
    const letter = code === undefined ? '' : String.fromCodePoint(code);
    this.#at += 1 + letter.length;
    if (/^[dDwWsS]$/.test(letter)) this.#found.add('a class escape');
    else if (/^[pP]$/.test(letter)) this.#found.add('a Unicode property');
    else if (/^[bB]$/.test(letter) && !inClass) this.#found.add('a word boundary');
    else if (/^[1-9k]$/.test(letter)) this.#found.add('a back reference');
    else if (/^[bcfnrtv0]$/.test(letter)) this.#found.add('a quote, backslash or control character');
    else if (code === undefined || /^[a-zA-Z]$/.test(letter)) this.#found.add('unsupported syntax');
    else {
      // Only escapes of special characters are supported everywhere.
      const special = inClass ? /^[-\]]$/ : /^[-.*+?^$(){}|[\]]$/;
      if (!special.test(letter)) this.#found.add('an escaped character');
      return this.#literal(code);
    }
    return null;
  }

  #literal(code: number): number {
    if (code < 0x20 || code === 0x22 || code === 0x5c) {
      this.#found.add('a quote, backslash or control character');
    }
    return code;
  }
}
