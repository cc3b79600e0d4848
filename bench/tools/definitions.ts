/** A tool of an OpenAI request. */
export interface ToolDefinition {
  type: 'function';
  function: { name: string; description: string; strict?: true; parameters: ObjectSchema };
}

/** The keywords that the tools use. */
export type Schema =
  | { type: 'string'; description?: string; enum?: readonly string[] }
  | { type: 'integer' | 'number'; description?: string }
  | { type: 'boolean'; description?: string }
  | { type: 'array'; items: Schema; description?: string }
  | ObjectSchema;

export interface ObjectSchema {
  type: 'object';
  properties: Readonly<Record<string, Schema>>;
  required: readonly string[];
  additionalProperties?: false;
}

const text = (description: string): Schema => ({ type: 'string', description });
const integer = (description: string): Schema => ({ type: 'integer', description });

function tool(
  name: string,
  description: string,
  properties: ObjectSchema['properties'],
  required: readonly string[] = Object.keys(properties),
): ToolDefinition {
  return {
    type: 'function',
    function: { name, description, parameters: { type: 'object', properties, required } },
  };
}

function strict({ function: { name, description, parameters } }: ToolDefinition): ToolDefinition {
  return {
    type: 'function',
    function: { name, description, strict: true, parameters: { ...parameters, additionalProperties: false } },
  };
}

export const WEATHER = tool(
  'get_weather',
  'Get the current weather in a city.',
  { city: text('Name of the city'), unit: { type: 'string', enum: ['celsius', 'fahrenheit'] } },
  ['city'],
);
const EMAIL = tool('send_email', 'Send an email.', {
  to: text('Email address of the recipient'),
  subject: text('Subject line'),
  body: text('Text of the email'),
});
export const CONVERT = tool('convert_currency', 'Convert an amount of money to another currency.', {
  amount: { type: 'number', description: 'Amount to convert' },
  from: text('ISO 4217 code of the currency to convert from, such as USD'),
  to: text('ISO 4217 code of the currency to convert to, such as EUR'),
});
export const TIMER = tool('set_timer', 'Set a timer.', { minutes: integer('Duration in minutes') });
export const SEARCH = tool(
  'search_products',
  'Search the products of the shop.',
  {
    query: text('Words to search for'),
    max_price: { type: 'number', description: 'Maximum price in dollars' },
    in_stock: { type: 'boolean', description: 'Whether to return only products in stock' },
  },
  ['query'],
);
export const TRANSLATE = tool('translate_text', 'Translate a text to another language.', {
  text: text('Text to translate'),
  language: text('Target language in English, such as French'),
});

/** The six tools that a model chooses from. */
export const SIX = [WEATHER, EMAIL, CONVERT, TIMER, SEARCH, TRANSLATE];

export const ORDER = tool('create_order', 'Create an order for a customer.', {
  customer: {
    type: 'object',
    properties: {
      name: text('Full name'),
      address: {
        type: 'object',
        properties: { street: text('Street and number'), city: text('City') },
        required: ['street', 'city'],
      },
    },
    required: ['name', 'address'],
  },
  items: {
    type: 'array',
    items: {
      type: 'object',
      properties: { sku: text('Article number'), quantity: integer('Number of pieces') },
      required: ['sku', 'quantity'],
    },
  },
});
export const LIGHT = strict(
  tool('set_light', 'Set the light of a room.', {
    room: { type: 'string', enum: ['kitchen', 'bedroom', 'office'] },
    color: { type: 'string', enum: ['red', 'green', 'blue', 'white'] },
    brightness: integer('Brightness in percent'),
  }),
);
export const TICKET = strict(
  tool('create_ticket', 'Create a support ticket.', {
    title: text('Short title'),
    priority: { type: 'string', enum: ['low', 'medium', 'high'] },
    tags: { type: 'array', items: { type: 'string', enum: ['billing', 'login', 'network'] } },
  }),
);
