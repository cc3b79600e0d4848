/** How a response is printed in a language. Lines that begin with `?` are only there if the response may call tools. */
interface Printing {
  whole: string;
  /** Prints `stream`. */
  stream: string;
}

/** The parts of a request that decide how its response is printed. */
export interface Printed {
  streams: boolean;
  tools: boolean;
}

export function printOf({ whole, stream }: Printing, { streams, tools }: Printed): string {
  return (streams ? stream : whole)
    .trim()
    .replaceAll(/^\?(.*\n?)/gm, tools ? '$1' : '')
    .trimEnd();
}

/** How the clients of an API print a response. */
export interface Printings {
  python: Printing;
  typescript: Printing;
}

/** Chat completions. The last chunk of a stream with usage has no choices. */
export const CHAT: Printings = {
  python: {
    whole: `
for choice in completion.choices:
    print(choice.message.content)
?    for call in choice.message.tool_calls or []:
?        print(call.id, call.function.name, call.function.arguments)`,
    stream: `
for chunk in stream:
    for choice in chunk.choices:
        print(choice.delta.content or "", end="", flush=True)
?        for call in choice.delta.tool_calls or []:
?            if call.id:
?                print(f"\\n{call.id} {call.function.name} ", end="")
?            print(call.function.arguments or "", end="", flush=True)`,
  },
  typescript: {
    whole: `
for (const { message } of completion.choices) {
  console.log(message.content);
?  for (const call of message.tool_calls ?? []) {
?    if (call.type === 'function') console.log(call.id, call.function.name, call.function.arguments);
?  }
}`,
    stream: `
for await (const chunk of stream) {
  for (const { delta } of chunk.choices) {
    process.stdout.write(delta.content ?? '');
?    for (const call of delta.tool_calls ?? []) {
?      if (call.id) process.stdout.write(\`\\n\${call.id} \${call.function?.name} \`);
?      process.stdout.write(call.function?.arguments ?? '');
?    }
  }
}`,
  },
};

export const TEXT: Printings = {
  python: {
    whole: `
for choice in completion.choices:
    print(choice.text)`,
    stream: `
for chunk in stream:
    for choice in chunk.choices:
        print(choice.text, end="", flush=True)`,
  },
  typescript: {
    whole: `
for (const choice of completion.choices) console.log(choice.text);`,
    stream: `
for await (const chunk of stream) {
  process.stdout.write(chunk.choices[0]?.text ?? '');
}`,
  },
};

export const RESPONSE: Printings = {
  python: {
    whole: `
print(response.output_text)
?for item in response.output:
?    if item.type == "function_call":
?        print(item.call_id, item.name, item.arguments)`,
    stream: `
for event in stream:
    if event.type == "response.output_text.delta":
        print(event.delta, end="", flush=True)
?    elif event.type == "response.output_item.done" and event.item.type == "function_call":
?        print(event.item.call_id, event.item.name, event.item.arguments)`,
  },
  typescript: {
    whole: `
console.log(response.output_text);
?for (const item of response.output) {
?  if (item.type === 'function_call') console.log(item.call_id, item.name, item.arguments);
?}`,
    stream: `
for await (const event of stream) {
  if (event.type === 'response.output_text.delta') process.stdout.write(event.delta);
?  else if (event.type === 'response.output_item.done' && event.item.type === 'function_call')
?    console.log(event.item.call_id, event.item.name, event.item.arguments);
}`,
  },
};

export const MESSAGE: Printings = {
  python: {
    whole: `
for block in message.content:
    if block.type == "text":
        print(block.text)
?    elif block.type == "tool_use":
?        print(block.id, block.name, block.input)`,
    stream: `
for event in stream:
    if event.type == "content_block_delta" and event.delta.type == "text_delta":
        print(event.delta.text, end="", flush=True)
?    elif event.type == "content_block_start" and event.content_block.type == "tool_use":
?        print(f"\\n{event.content_block.id} {event.content_block.name} ", end="")
?    elif event.type == "content_block_delta" and event.delta.type == "input_json_delta":
?        print(event.delta.partial_json, end="", flush=True)`,
  },
  typescript: {
    whole: `
for (const block of message.content) {
  if (block.type === 'text') console.log(block.text);
?  else if (block.type === 'tool_use') console.log(block.id, block.name, block.input);
}`,
    stream: `
for await (const event of stream) {
  if (event.type === 'content_block_delta' && event.delta.type === 'text_delta')
    process.stdout.write(event.delta.text);
?  else if (event.type === 'content_block_start' && event.content_block.type === 'tool_use')
?    process.stdout.write(\`\\n\${event.content_block.id} \${event.content_block.name} \`);
?  else if (event.type === 'content_block_delta' && event.delta.type === 'input_json_delta')
?    process.stdout.write(event.delta.partial_json);
}`,
  },
};

/** Embeddings, which are never streamed. */
export const EMBEDDINGS: Printings = {
  python: {
    whole: `
for item in response.data:
    print(item.index, item.embedding)`,
    stream: '',
  },
  typescript: {
    whole: `
for (const { index, embedding } of response.data) console.log(index, embedding);`,
    stream: '',
  },
};
