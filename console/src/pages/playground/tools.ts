import { isObject, readJson } from '../../format/json.ts';

/** The bounds of the API: see `docs/api.md`. */
export const MAX_TOOLS = 1024;
/** Maximum size of all tools, in characters of JSON. */
export const MAX_TOOLS_LENGTH = 1_048_576;
/** Maximum length of the description of a function, in code points. */
export const MAX_DESCRIPTION_LENGTH = 65_536;
const NAME = /^[A-Za-z0-9_-]{1,64}$/;

/** An element of `tools` in a request. */
interface Tool {
  type: 'function';
  function: Readonly<Record<string, unknown>> & { name: string };
}

/**
 * Parses an array of tools, or of functions, which are tools without `{"type": "function", "function": …}`. Errors name the
 * path of the value. The service checks schemas; it reports their errors when a request is sent.
 */
export function readTools(text: string): { tools: readonly Tool[] } | { error: string } {
  if (text.trim() === '') return { tools: [] };
  const read = readJson(text);
  if ('error' in read) return read;
  if (!Array.isArray(read.value)) return { error: 'Enter a JSON array of functions.' };
  if (read.value.length > MAX_TOOLS) return { error: `Use at most ${MAX_TOOLS} functions.` };
  const tools: Tool[] = [];
  const names = new Set<string>();
  for (const [index, value] of read.value.entries()) {
    const tool = readTool(value, `tools[${index}]`);
    if ('error' in tool) return tool;
    const { name } = tool.function;
    if (names.has(name)) {
      const at = isObject(value) && 'function' in value ? 'function.name' : 'name';
      return toolError(`tools[${index}].${at}`, `is already used: ${name}`);
    }
    names.add(name);
    tools.push(tool);
  }
  return JSON.stringify(tools).length > MAX_TOOLS_LENGTH
    ? { error: `Use at most ${MAX_TOOLS_LENGTH} characters of JSON.` }
    : { tools };
}

/** Returns the names of the functions; none if the tools are invalid. */
export function toolNames(text: string): string[] {
  const read = readTools(text);
  return 'tools' in read ? read.tools.map((tool) => tool.function.name) : [];
}

const TOOL_FIELDS = ['type', 'function', 'cache_control'];
const FUNCTION_FIELDS = ['name', 'description', 'parameters', 'strict'];

function readTool(value: unknown, path: string): Tool | { error: string } {
  if (!isObject(value)) return toolError(path, 'must be an object');
  if ('type' in value && value['type'] !== 'function') return toolError(`${path}.type`, 'must be "function"');
  if (!('function' in value)) {
    const { type: _, ...bare } = value;
    return readFunction(bare, path);
  }
  if (!('type' in value)) return toolError(`${path}.type`, 'is missing; it must be "function"');
  const unknown = unknownField(value, TOOL_FIELDS);
  if (unknown !== undefined) return toolError(`${path}.${unknown}`, 'is not a field of tools');
  const tool = isObject(value['function'])
    ? readFunction(value['function'], `${path}.function`)
    : toolError(`${path}.function`, 'must be an object');
  return 'error' in tool ? tool : { ...value, ...tool };
}

function readFunction(value: Readonly<Record<string, unknown>>, path: string): Tool | { error: string } {
  const { name, description = null, parameters = null, strict = null } = value;
  const unknown = unknownField(value, FUNCTION_FIELDS);
  if (unknown !== undefined) return toolError(`${path}.${unknown}`, 'is not a field of functions');
  if (name === undefined) return toolError(`${path}.name`, 'is missing');
  if (typeof name !== 'string' || !NAME.test(name)) {
    return toolError(`${path}.name`, 'must be 1 to 64 letters, digits, _ or -');
  }
  if (description !== null) {
    if (typeof description !== 'string') return toolError(`${path}.description`, 'must be a string');
    // Counts the code points only if the number of UTF-16 units exceeds the maximum, which is rare.
    if (
      description.length > MAX_DESCRIPTION_LENGTH &&
      Array.from(description).length > MAX_DESCRIPTION_LENGTH
    ) {
      return toolError(`${path}.description`, `must be at most ${MAX_DESCRIPTION_LENGTH} characters long`);
    }
  }
  if (parameters !== null && !isObject(parameters)) {
    return toolError(`${path}.parameters`, 'must be a JSON Schema object');
  }
  if (strict !== null && typeof strict !== 'boolean')
    return toolError(`${path}.strict`, 'must be true or false');
  return { type: 'function', function: { ...value, name } };
}

/** Returns a field that the API would refuse. It takes null for a field that is missing. */
function unknownField(
  value: Readonly<Record<string, unknown>>,
  known: readonly string[],
): string | undefined {
  return Object.keys(value).find((name) => value[name] !== null && !known.includes(name));
}

function toolError(path: string, what: string): { error: string } {
  return { error: `${path} ${what}.` };
}

/** Example tools of the editor, as JSON. */
export const TOOL_PRESETS: readonly { title: string; text: string }[] = [
  {
    title: 'Weather',
    text: formatted([
      tool(
        'get_weather',
        'Returns the current weather in a city.',
        {
          city: { type: 'string', description: 'City and country, such as "Zurich, Switzerland"' },
          unit: { type: 'string', enum: ['celsius', 'fahrenheit'] },
        },
        ['city'],
      ),
    ]),
  },
  {
    title: 'Shop',
    text: formatted([
      tool(
        'search_products',
        'Searches the product catalog.',
        { query: { type: 'string' }, max_price: { type: 'number', description: 'In USD' } },
        ['query'],
      ),
      tool('get_order', 'Returns the items and the status of an order.', { order_id: { type: 'string' } }, [
        'order_id',
      ]),
      tool(
        'place_order',
        'Places an order. Returns the order ID and the total.',
        {
          product_ids: { type: 'array', items: { type: 'string' } },
          address: {
            type: 'object',
            properties: { street: { type: 'string' }, city: { type: 'string' } },
            required: ['street', 'city'],
          },
        },
        ['product_ids', 'address'],
      ),
    ]),
  },
];

function tool<Properties extends Readonly<Record<string, object>>>(
  name: string,
  description: string,
  properties: Properties,
  required: readonly (keyof Properties)[],
): object {
  const parameters = { type: 'object', properties, required };
  return { type: 'function', function: { name, description, parameters } };
}

function formatted(tools: readonly object[]): string {
  return JSON.stringify(tools, null, 2);
}
