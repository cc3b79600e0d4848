import type { GrammarRules } from './grammar-rules.ts';

/** A member of an object in the notation of a format. */
export interface MemberRule {
  /** The GBNF expression of the name and the value. */
  expression: string;
  required: boolean;
}

/**
 * Maximum number of rules for the members of one object in any order. Each is for one set of the optional members that
 * can follow, so the number doubles with each of them.
 */
const MAX_STATES = 32;

/**
 * Whether optional members can be in any order: otherwise, a model that starts with a later one could not write the
 * earlier ones. If there are too many, they are in the order of the list.
 */
export function isAnyOrder(members: readonly Pick<MemberRule, 'required'>[]): boolean {
  const { optional, required } = parts(members);
  return (required.length + 1) * 2 ** optional.length <= MAX_STATES;
}

/**
 * Returns the rule of a list of at least one member, each at most once, or null if there are none. The required ones are
 * in the order of the list, and those before the first optional one come first. `rest` is the rule of what can follow
 * the members, or replace them if none is required; null: nothing.
 */
export function memberList(
  rules: GrammarRules,
  members: readonly MemberRule[],
  separator: string,
  rest: string | null = null,
): string | null {
  const { leading, optional, required } = parts(members);
  const list = isAnyOrder(members)
    ? anyOrder(rules, required, optional, separator, rest)
    : inOrder(rules, members.slice(leading.length), separator, { list: rest, mayBeEmpty: true });
  return inOrder(rules, leading, separator, list).list;
}

/** A rule of at least one member, and whether there may be none instead. */
interface MemberList {
  list: string | null;
  mayBeEmpty: boolean;
}

function parts<Member extends Pick<MemberRule, 'required'>>(members: readonly Member[]) {
  const first = members.findIndex(({ required }) => !required);
  const leading = first === -1 ? members : members.slice(0, first);
  const others = members.slice(leading.length);
  return {
    /** The required members before the first optional one. */
    leading,
    required: others.filter(({ required }) => required),
    optional: others.filter(({ required }) => !required),
  };
}

function anyOrder(
  rules: GrammarRules,
  required: readonly MemberRule[],
  optional: readonly MemberRule[],
  separator: string,
  rest: string | null,
): MemberList {
  const mayBeEmpty = required.length === 0;
  const alternatives = optional.map((member, index) => {
    const list = anyOrder(rules, required, optional.toSpliced(index, 1), separator, rest);
    return followedBy(member, list, separator);
  });
  const [next, ...later] = required;
  if (next !== undefined)
    alternatives.push(followedBy(next, anyOrder(rules, later, optional, separator, rest), separator));
  else if (rest !== null) alternatives.push(rest);
  return { list: alternatives.length === 0 ? null : rules.share(alternatives.join(' | ')), mayBeEmpty };
}

function inOrder(
  rules: GrammarRules,
  members: readonly MemberRule[],
  separator: string,
  last: MemberList,
): MemberList {
  return members.toReversed().reduce((following, member) => {
    const one = followedBy(member, following, separator);
    const skipped = member.required || following.list === null ? '' : ` | ${following.list}`;
    return { list: rules.share(one + skipped), mayBeEmpty: following.mayBeEmpty && !member.required };
  }, last);
}

function followedBy({ expression }: MemberRule, { list, mayBeEmpty }: MemberList, separator: string): string {
  if (list === null) return expression;
  return `${expression} ${mayBeEmpty ? `(${separator} ${list})?` : `${separator} ${list}`}`;
}
