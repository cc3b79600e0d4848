/** Deeper levels are not indented further, so that the formatted text stays proportional to the arguments. */
const MAX_INDENT = 16;

/** A string, possibly without its end; a bracket, comma or colon; or a number or word. Skips white space. */
const TOKEN = /"(?:[^"\\]|\\.)*(?:"|\\?$)|[{}[\],:]|[^\s"{}[\],:]+/gs;

/** Indents JSON arguments, even if they are incomplete. Changes only white space outside of strings. */
export function formatArguments(json: string): string {
  let text = '';
  let depth = 0;
  let previous = '';
  for (const [token] of json.matchAll(TOKEN)) {
    const closes = token === '}' || token === ']';
    const opened = previous === '{' || previous === '[';
    if (closes) depth = Math.max(0, depth - 1);
    // Empty objects and lists stay on one line.
    if (closes ? !opened : opened || previous === ',') {
      text += `\n${'  '.repeat(Math.min(depth, MAX_INDENT))}`;
    }
    text += token === ':' ? ': ' : token;
    if (token === '{' || token === '[') depth++;
    previous = token;
  }
  return text;
}

/** Returns whether the arguments of a call are the JSON of an object. Empty arguments are accepted too. */
export function isCompleteCall({ arguments: json }: { arguments: string }): boolean {
  if (json === '') return true;
  try {
    const value: unknown = JSON.parse(json);
    return typeof value === 'object' && value !== null && !Array.isArray(value);
  } catch {
    return false;
  }
}
