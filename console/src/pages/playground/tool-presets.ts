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
        {
          query: { type: 'string' },
          filters: {
            type: 'object',
            properties: {
              categories: {
                type: 'array',
                items: { type: 'string', enum: ['books', 'clothing', 'kitchen'] },
              },
              price: {
                type: 'object',
                description: 'Price range in USD',
                properties: { min: { type: 'number' }, max: { type: 'number' } },
              },
              in_stock: { type: 'boolean' },
            },
          },
        },
        ['query'],
      ),
      tool('get_order', 'Returns the items and the status of an order.', { order_id: { type: 'string' } }, [
        'order_id',
      ]),
      tool(
        'place_order',
        'Places an order. Returns the order ID and the total.',
        {
          items: {
            type: 'array',
            items: {
              type: 'object',
              properties: { product_id: { type: 'string' }, quantity: { type: 'integer' } },
              required: ['product_id', 'quantity'],
            },
          },
          address: {
            type: 'object',
            properties: {
              street: { type: 'string' },
              city: { type: 'string' },
              postal_code: { type: 'string' },
              country: { type: 'string', description: 'Two-letter country code' },
            },
            required: ['street', 'city', 'country'],
          },
        },
        ['items', 'address'],
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
