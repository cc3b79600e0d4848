/** The parts of a request that decide how its response is printed. */
export interface Printed {
  chat: boolean;
  streams: boolean;
  /** The response has several choices. */
  many: boolean;
  /** The response may call tools. */
  tools: boolean;
  /** The last chunk of the stream has usage and no choices. */
  usageApart: boolean;
}

/** Returns the Python lines that print `completion` or `stream`. */
export function pythonPrint({ chat, streams, many, tools, usageApart }: Printed): string[] {
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
export function typescriptPrint({ chat, streams, many, tools }: Printed): string[] {
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
