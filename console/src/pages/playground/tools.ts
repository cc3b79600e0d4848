import { isObject, readJson } from '../../format/json.ts';

/** An element of `tools` in a request. */
interface Tool {
  type: 'function';
  function: Readonly<Record<string, unknown>> & { name: string };
}

/**
 * Parses an array of tools, or of functions, which are tools without `{"type": "function", "function": …}`. The service
 * checks their fields when a request is sent.
 */
export function readTools(text: string): { tools: readonly Tool[] } | { error: string } {
  if (text.trim() === '') return { tools: [] };
  const read = readJson(text);
  if ('error' in read) return read;
  if (!Array.isArray(read.value)) return { error: 'Enter a JSON array of functions.' };
  const tools: Tool[] = [];
  for (const [index, value] of read.value.entries()) {
    const tool: unknown = isObject(value) && !('function' in value) ? toolOf(value) : value;
    if (!isTool(tool)) return { error: `tools[${index}] must be a function with a name.` };
    tools.push(tool);
  }
  return { tools };
}

function toolOf(bare: Readonly<Record<string, unknown>>): object {
  const { type: _, ...own } = bare;
  return { type: 'function', function: own };
}

function isTool(value: unknown): value is Tool {
  return isObject(value) && isObject(value['function']) && typeof value['function']['name'] === 'string';
}

/** Returns the names of the functions; none if the tools are invalid. */
export function toolNames(text: string): string[] {
  const read = readTools(text);
  return 'tools' in read ? read.tools.map((tool) => tool.function.name) : [];
}

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
