import {
  CONVERT,
  LIGHT,
  ORDER,
  SEARCH,
  SIX,
  TICKET,
  TIMER,
  type ToolDefinition,
  TRANSLATE,
  WEATHER,
} from './definitions.ts';

export interface Question {
  kind: Kind;
  /** Fields of the request. */
  body: { messages: readonly object[]; tools: readonly ToolDefinition[]; tool_choice?: unknown };
  expected: Expected;
}

type Kind = 'one call' | 'choice' | 'parallel' | 'none needed' | 'forced' | 'nested' | 'strict' | 'results';

/** The correct answer: these calls in any order, or a text without calls. */
type Expected = { calls: readonly ExpectedCall[] } | { text: RegExp };

/**
 * Arguments that are not listed may have any value. Strings are compared without case. A regular expression must match
 * the value.
 */
export interface ExpectedCall {
  name: string;
  arguments: object;
}

const user = (content: string) => ({ role: 'user', content });
const call = (name: string, args: object): ExpectedCall => ({ name, arguments: args });

function ask(
  kind: Kind,
  tools: readonly ToolDefinition[],
  content: string,
  calls: readonly ExpectedCall[],
  choice?: unknown,
): Question {
  const messages = [user(content)];
  return {
    kind,
    body: { messages, tools, ...(choice !== undefined && { tool_choice: choice }) },
    expected: { calls },
  };
}

const weather = (city: string, unit?: string) => call('get_weather', { city, ...(unit && { unit }) });
const convert = (amount: number, from: string, to: string) => call('convert_currency', { amount, from, to });
const timer = (minutes: number) => call('set_timer', { minutes });
const translate = (text: string, language: string) => call('translate_text', { text, language });

const ONE_CALL = [
  ask('one call', [WEATHER], 'What is the weather in Paris?', [weather('Paris')]),
  ask('one call', [WEATHER], 'How warm is it in Oslo right now, in celsius?', [weather('Oslo', 'celsius')]),
  ask('one call', [TIMER], 'Set a timer for 25 minutes.', [timer(25)]),
  ask('one call', [TIMER], 'Remind me in half an hour.', [timer(30)]),
  ask('one call', [CONVERT], 'How many euros are 250 US dollars?', [convert(250, 'USD', 'EUR')]),
  ask('one call', [CONVERT], 'Convert 99.5 GBP to JPY.', [convert(99.5, 'GBP', 'JPY')]),
  ask('one call', [TRANSLATE], 'Translate "good morning" to Spanish.', [
    translate('good morning', 'Spanish'),
  ]),
  ask('one call', [SEARCH], 'Find headphones for at most 80 dollars.', [
    call('search_products', { query: /headphones/i, max_price: 80 }),
  ]),
];

const CHOICE = [
  ask('choice', SIX, 'Is it raining in Tokyo?', [weather('Tokyo')]),
  ask('choice', SIX, 'Set a timer for 10 minutes.', [timer(10)]),
  ask('choice', SIX, 'Convert 100 US dollars to Swiss francs.', [convert(100, 'USD', 'CHF')]),
  ask('choice', SIX, 'Translate "thank you" to German.', [translate('thank you', 'German')]),
  ask('choice', SIX, 'Search the shop for a red umbrella.', [
    call('search_products', { query: /umbrella/i }),
  ]),
  ask('choice', SIX, 'Do you have running shoes in stock for less than 120 dollars?', [
    call('search_products', { query: /running shoes/i, max_price: 120, in_stock: true }),
  ]),
  ask('choice', SIX, 'Email ann@example.com with the subject "Lunch" and the text "See you at noon."', [
    call('send_email', { to: 'ann@example.com', subject: 'Lunch', body: /see you at noon/i }),
  ]),
  ask('choice', SIX, 'What is the temperature in Cairo in fahrenheit?', [weather('Cairo', 'fahrenheit')]),
  ask('choice', SIX, 'How much is 5000 Japanese yen in Canadian dollars?', [convert(5000, 'JPY', 'CAD')]),
  ask('choice', SIX, 'How do you say "where is the station" in Italian? Use a tool.', [
    translate('where is the station', 'Italian'),
  ]),
];

const PARALLEL = [
  ask('parallel', [WEATHER], 'What is the weather in Rome and in Madrid?', [
    weather('Rome'),
    weather('Madrid'),
  ]),
  ask('parallel', [WEATHER], 'Compare the weather in Berlin, Vienna and Prague.', [
    weather('Berlin'),
    weather('Vienna'),
    weather('Prague'),
  ]),
  ask('parallel', [TIMER], 'Set two timers: one for 5 minutes and one for 12 minutes.', [
    timer(5),
    timer(12),
  ]),
  ask('parallel', [CONVERT], 'Convert 10 USD to EUR, and 20 USD to GBP.', [
    convert(10, 'USD', 'EUR'),
    convert(20, 'USD', 'GBP'),
  ]),
  ask('parallel', [TRANSLATE], 'Translate "hello" to French and to Polish.', [
    translate('hello', 'French'),
    translate('hello', 'Polish'),
  ]),
  ask('parallel', SIX, 'Tell me the weather in Lima and set a timer for 15 minutes.', [
    weather('Lima'),
    timer(15),
  ]),
  ask('parallel', SIX, 'Translate "cheers" to Dutch, and convert 40 EUR to USD.', [
    translate('cheers', 'Dutch'),
    convert(40, 'EUR', 'USD'),
  ]),
  ask('parallel', SIX, 'I need the weather in Delhi, the weather in Mumbai, and a timer for 3 minutes.', [
    weather('Delhi'),
    weather('Mumbai'),
    timer(3),
  ]),
];

function chatWithoutCalls(content: string, text: RegExp): Question {
  return { kind: 'none needed', body: { messages: [user(content)], tools: SIX }, expected: { text } };
}

const NONE_NEEDED = [
  chatWithoutCalls('Hello! How are you?', /\w/),
  chatWithoutCalls('What is 2 + 2?', /4|four/i),
  chatWithoutCalls('Which planet is closest to the sun?', /mercury/i),
  chatWithoutCalls('Write a haiku about autumn.', /\w/),
  chatWithoutCalls('Who wrote Romeo and Juliet?', /shakespeare/i),
  chatWithoutCalls('Explain in one sentence what a prime number is.', /divi|factor/i),
  chatWithoutCalls('Thank you, that is all for today.', /\w/),
  chatWithoutCalls('Write a Python function that adds two numbers.', /def /),
];

const named = (name: string) => ({ type: 'function', function: { name } });

const FORCED = [
  ask('forced', SIX, 'I am flying to Dublin tomorrow.', [weather('Dublin')], named('get_weather')),
  ask('forced', SIX, 'My pasta takes 9 minutes.', [timer(9)], named('set_timer')),
  ask('forced', SIX, 'The French word for "cat"', [translate('cat', 'French')], named('translate_text')),
  ask('forced', SIX, 'I want to buy a desk lamp.', [call('search_products', { query: /lamp/i })], 'required'),
  ask('forced', SIX, '75 euros in US dollars', [convert(75, 'EUR', 'USD')], 'required'),
  ask('forced', SIX, 'Is it cold in Helsinki?', [weather('Helsinki')], 'required'),
];

function order(name: string, street: string, city: string, items: readonly [string, number][]): ExpectedCall {
  return call('create_order', {
    customer: { name, address: { street, city } },
    items: items.map(([sku, quantity]) => ({ sku, quantity })),
  });
}

const NESTED = [
  ask('nested', [ORDER], 'Order 2 pieces of A-100 for Jane Doe, 5 Main Street, Boston.', [
    order('Jane Doe', '5 Main Street', 'Boston', [['A-100', 2]]),
  ]),
  ask('nested', [ORDER], 'Create an order: Max Lang, Ringstrasse 12, Vienna; 1 of K7 and 3 of K9.', [
    order('Max Lang', 'Ringstrasse 12', 'Vienna', [
      ['K7', 1],
      ['K9', 3],
    ]),
  ]),
  ask('nested', [ORDER], 'Ada Byron of 1 St James Square, London, wants ten pieces of X42.', [
    order('Ada Byron', '1 St James Square', 'London', [['X42', 10]]),
  ]),
  ask(
    'nested',
    [ORDER],
    'Customer Li Wei, 88 Harbour Road, Hong Kong. Items: 4 of TEA-1, 6 of TEA-2, 1 of POT-3.',
    [
      order('Li Wei', '88 Harbour Road', 'Hong Kong', [
        ['TEA-1', 4],
        ['TEA-2', 6],
        ['POT-3', 1],
      ]),
    ],
  ),
  ask('nested', [ORDER, WEATHER], 'Please order 1 piece of Z9 for Tom Hill, 7 Oak Lane, Leeds.', [
    order('Tom Hill', '7 Oak Lane', 'Leeds', [['Z9', 1]]),
  ]),
  ask('nested', [ORDER, TIMER], 'Order for Eva Novak at 3 Park Avenue in Brno: five of B-2.', [
    order('Eva Novak', '3 Park Avenue', 'Brno', [['B-2', 5]]),
  ]),
];

const light = (room: string, color: string, brightness: number) =>
  call('set_light', { room, color, brightness });

const STRICT = [
  ask('strict', [LIGHT], 'Make the kitchen light red at 40 percent.', [light('kitchen', 'red', 40)]),
  ask('strict', [LIGHT], 'Set the office to blue, full brightness.', [light('office', 'blue', 100)]),
  ask('strict', [LIGHT], 'Bedroom: white light, 5 percent.', [light('bedroom', 'white', 5)]),
  ask('strict', [LIGHT], 'Turn the bedroom green at half brightness.', [light('bedroom', 'green', 50)]),
  ask('strict', [TICKET], 'Create a high priority ticket titled "Cannot log in" with the tag login.', [
    call('create_ticket', { title: 'Cannot log in', priority: 'high', tags: ['login'] }),
  ]),
  ask('strict', [TICKET], 'Create a ticket titled "Wrong invoice", low priority, tagged billing.', [
    call('create_ticket', { title: 'Wrong invoice', priority: 'low', tags: ['billing'] }),
  ]),
  ask('strict', [LIGHT, TICKET], 'Create a medium priority ticket titled "Slow Wi-Fi", tagged network.', [
    call('create_ticket', { title: 'Slow Wi-Fi', priority: 'medium', tags: ['network'] }),
  ]),
];

/** A second turn: the user's question, the calls of the model with their results, and optionally another question. */
function followUp(
  content: string,
  turns: readonly { name: string; arguments: object; result: object }[],
  expected: Expected,
  next?: string,
): Question {
  const calls = turns.map((turn, index) => ({
    id: `call_${index}`,
    type: 'function',
    function: { name: turn.name, arguments: JSON.stringify(turn.arguments) },
  }));
  const results = turns.map(({ result }, index) => ({
    role: 'tool',
    tool_call_id: `call_${index}`,
    content: JSON.stringify(result),
  }));
  const messages: object[] = [
    user(content),
    { role: 'assistant', content: null, tool_calls: calls },
    ...results,
  ];
  if (next !== undefined) messages.push({ role: 'assistant', content: 'Done.' }, user(next));
  return { kind: 'results', body: { messages, tools: SIX }, expected };
}

const RESULTS = [
  followUp(
    'What is the weather in Paris?',
    [{ name: 'get_weather', arguments: { city: 'Paris' }, result: { temperature: 17, sky: 'cloudy' } }],
    { text: /17/ },
  ),
  followUp(
    'What is the weather in Rome and in Madrid?',
    [
      { name: 'get_weather', arguments: { city: 'Rome' }, result: { temperature: 24 } },
      { name: 'get_weather', arguments: { city: 'Madrid' }, result: { temperature: 31 } },
    ],
    { text: /24[^]*31|31[^]*24/ },
  ),
  followUp(
    'How many euros are 250 US dollars?',
    [
      {
        name: 'convert_currency',
        arguments: { amount: 250, from: 'USD', to: 'EUR' },
        result: { amount: 231.48, currency: 'EUR' },
      },
    ],
    { text: /231[.,]48/ },
  ),
  followUp(
    'Find headphones for at most 80 dollars.',
    [
      {
        name: 'search_products',
        arguments: { query: 'headphones', max_price: 80 },
        result: { products: [{ name: 'Aria 2', price: 59.9 }] },
      },
    ],
    { text: /Aria 2/ },
  ),
  followUp(
    'Translate "good morning" to Spanish.',
    [
      {
        name: 'translate_text',
        arguments: { text: 'good morning', language: 'Spanish' },
        result: { text: 'buenos días' },
      },
    ],
    { text: /buenos d[ií]as/i },
  ),
  followUp(
    'Set a timer for 25 minutes.',
    [{ name: 'set_timer', arguments: { minutes: 25 }, result: { id: 7 } }],
    { calls: [weather('Bergen')] },
    'What is the weather in Bergen?',
  ),
  followUp(
    'What is the weather in Lyon?',
    [{ name: 'get_weather', arguments: { city: 'Lyon' }, result: { temperature: 12 } }],
    { calls: [timer(45)] },
    'Now set a timer for 45 minutes.',
  ),
];

export const QUESTIONS: readonly Question[] = [
  ...ONE_CALL,
  ...CHOICE,
  ...PARALLEL,
  ...NONE_NEEDED,
  ...FORCED,
  ...NESTED,
  ...STRICT,
  ...RESULTS,
];
