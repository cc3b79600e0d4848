/** The parts of a request that decide how its response is printed. */
export interface Printed {
  streams: boolean;
  /** The response has several choices. */
  many: boolean;
  /** The response may call tools. */
  tools: boolean;
  /** The last chunk of the stream has usage and no choices. */
  usageApart: boolean;
}

/** A chat or text completion. */
type Completion = Printed & { chat: boolean };

/** Returns the Python lines that print `completion` or `stream`. */
export function pythonPrint({ chat, streams, many, tools, usageApart }: Completion): string[] {
  if (!streams) {
    if (!chat) return pythonChoices(many, 'text');
    if (many) return pythonChoices(many, `message.content${tools ? ', choice.message.tool_calls' : ''}`);
    if (!tools) return pythonChoices(many, 'message.content');
    return [
      'message = completion.choices[0].message',
      'print(message.content)',
      'for call in message.tool_calls or []:',
      '    print(call.id, call.function.name, call.function.arguments)',
    ];
  }
  const text = chat ? 'delta.content or ""' : 'text';
  if (many) {
    return [
      'for chunk in stream:',
      '    for choice in chunk.choices:',
      `        print(choice.index, choice.${text}${tools ? ', choice.delta.tool_calls or ""' : ''})`,
    ];
  }
  const print = `print(chunk.choices[0].${text}, end="", flush=True)`;
  const body = tools
    ? [
        'delta = chunk.choices[0].delta',
        'print(delta.content or "", end="", flush=True)',
        'for call in delta.tool_calls or []:',
        '    if call.id:',
        '        print(f"\\n{call.id} {call.function.name} ", end="")',
        '    print(call.function.arguments or "", end="", flush=True)',
      ]
    : [print];
  const lines = usageApart ? ['if chunk.choices:', ...body.map((line) => `    ${line}`)] : body;
  return ['for chunk in stream:', ...lines.map((line) => `    ${line}`)];
}

function pythonChoices(many: boolean, fields: string): string[] {
  return many
    ? ['for choice in completion.choices:', `    print(choice.index, choice.${fields})`]
    : [`print(completion.choices[0].${fields})`];
}

/** Returns the TypeScript lines that print `completion` or `stream`. */
export function typescriptPrint({ chat, streams, many, tools }: Completion): string[] {
  if (!streams) {
    const text = chat ? 'message.content' : 'text';
    if (many) {
      const calls = tools ? ', choice.message.tool_calls' : '';
      return [`for (const choice of completion.choices) console.log(choice.index, choice.${text}${calls});`];
    }
    if (!tools) return [`console.log(completion.choices[0]?.${text});`];
    return [
      'const message = completion.choices[0]?.message;',
      'console.log(message?.content);',
      'for (const call of message?.tool_calls ?? []) {',
      "  if (call.type === 'function') console.log(call.id, call.function.name, call.function.arguments);",
      '}',
    ];
  }
  const text = chat ? 'delta.content' : 'text';
  if (many) {
    const calls = tools ? ", choice.delta.tool_calls ?? ''" : '';
    return [
      'for await (const chunk of stream) {',
      `  for (const choice of chunk.choices) console.log(choice.index, choice.${text}${chat ? " ?? ''" : ''}${calls});`,
      '}',
    ];
  }
  const body = tools
    ? [
        'const delta = chunk.choices[0]?.delta;',
        "process.stdout.write(delta?.content ?? '');",
        'for (const call of delta?.tool_calls ?? []) {',
        '  if (call.id) process.stdout.write(`\\n${call.id} ${call.function?.name} `);',
        "  process.stdout.write(call.function?.arguments ?? '');",
        '}',
      ]
    : [`process.stdout.write(chunk.choices[0]?.${text} ?? '');`];
  return ['for await (const chunk of stream) {', ...body.map((line) => `  ${line}`), '}'];
}

/** Returns the Python lines that print `response` or the `stream` of one. */
export function pythonPrintResponse({ streams, tools }: Printed): string[] {
  if (streams) {
    return [
      'for event in stream:',
      '    if event.type == "response.output_text.delta":',
      '        print(event.delta, end="", flush=True)',
      ...(tools
        ? [
            '    elif event.type == "response.output_item.done" and event.item.type == "function_call":',
            '        print(event.item.call_id, event.item.name, event.item.arguments)',
          ]
        : []),
    ];
  }
  const calls = [
    'for item in response.output:',
    '    if item.type == "function_call":',
    '        print(item.call_id, item.name, item.arguments)',
  ];
  return ['print(response.output_text)', ...(tools ? calls : [])];
}

/** Returns the TypeScript lines that print `response` or the `stream` of one. */
export function typescriptPrintResponse({ streams, tools }: Printed): string[] {
  if (streams) {
    const calls = [
      "  else if (event.type === 'response.output_item.done' && event.item.type === 'function_call')",
      '    console.log(event.item.call_id, event.item.name, event.item.arguments);',
    ];
    return [
      'for await (const event of stream) {',
      "  if (event.type === 'response.output_text.delta') process.stdout.write(event.delta);",
      ...(tools ? calls : []),
      '}',
    ];
  }
  const calls = [
    'for (const item of response.output) {',
    "  if (item.type === 'function_call') console.log(item.call_id, item.name, item.arguments);",
    '}',
  ];
  return ['console.log(response.output_text);', ...(tools ? calls : [])];
}

/** Returns the Python lines that print `message` or the `stream` of one. */
export function pythonPrintMessage({ streams, tools }: Printed): string[] {
  if (streams) {
    const calls = [
      '    elif event.type == "content_block_start" and event.content_block.type == "tool_use":',
      '        print(f"\\n{event.content_block.id} {event.content_block.name} ", end="")',
      '    elif event.type == "content_block_delta" and event.delta.type == "input_json_delta":',
      '        print(event.delta.partial_json, end="", flush=True)',
    ];
    return [
      'for event in stream:',
      '    if event.type == "content_block_delta" and event.delta.type == "text_delta":',
      '        print(event.delta.text, end="", flush=True)',
      ...(tools ? calls : []),
    ];
  }
  const calls = ['    elif block.type == "tool_use":', '        print(block.id, block.name, block.input)'];
  return [
    'for block in message.content:',
    '    if block.type == "text":',
    '        print(block.text)',
    ...(tools ? calls : []),
  ];
}

/** Returns the TypeScript lines that print `message` or the `stream` of one. */
export function typescriptPrintMessage({ streams, tools }: Printed): string[] {
  if (streams) {
    const calls = [
      "  else if (event.type === 'content_block_start' && event.content_block.type === 'tool_use')",
      '    process.stdout.write(`\\n${event.content_block.id} ${event.content_block.name} `);',
      "  else if (event.type === 'content_block_delta' && event.delta.type === 'input_json_delta')",
      '    process.stdout.write(event.delta.partial_json);',
    ];
    return [
      'for await (const event of stream) {',
      "  if (event.type === 'content_block_delta' && event.delta.type === 'text_delta')",
      '    process.stdout.write(event.delta.text);',
      ...(tools ? calls : []),
      '}',
    ];
  }
  const calls = ["  else if (block.type === 'tool_use') console.log(block.id, block.name, block.input);"];
  return [
    'for (const block of message.content) {',
    "  if (block.type === 'text') console.log(block.text);",
    ...(tools ? calls : []),
    '}',
  ];
}

/** Returns the Python lines that print the cosines of several texts with the first one, or the length of one vector. */
export function pythonPrintEmbeddings({ many }: Printed): string[] {
  if (!many) return ['print(len(response.data[0].embedding))'];
  return [
    'first, *others = [item.embedding for item in response.data]',
    'for other in others:',
    '    product = sum(a * b for a, b in zip(first, other))',
    '    lengths = sum(a * a for a in first) * sum(b * b for b in other)',
    '    print("cosine", product / lengths**0.5)',
  ];
}

/** Returns the TypeScript lines that print the same. */
export function typescriptPrintEmbeddings({ many }: Printed): string[] {
  if (!many) return ['console.log(response.data[0]?.embedding.length);'];
  return [
    'const [first = [], ...others] = response.data.map(({ embedding }) => embedding);',
    'for (const other of others) {',
    '  const product = first.reduce((sum, number, index) => sum + number * (other[index] ?? 0), 0);',
    "  console.log('cosine', product / (Math.hypot(...first) * Math.hypot(...other)));",
    '}',
  ];
}
