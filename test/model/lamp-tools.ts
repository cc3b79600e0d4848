import assert from 'node:assert/strict';
import type { Tool, ToolCall, EngineEvent } from '../../src/core/generation.ts';

export const COLOR: Tool = {
  name: 'set_color',
  description: 'Sets the color of a lamp.',
  parameters: {
    type: 'object',
    properties: { color: { enum: ['red', 'green'] }, level: { type: 'integer', minimum: 1, maximum: 3 } },
    required: ['color', 'level'],
    additionalProperties: false,
  },
  strict: true,
};
export const OFF: Tool = {
  name: 'off',
  description: null,
  parameters: { type: 'object', properties: {}, additionalProperties: false },
  strict: true,
};

/** Returns the calls of a response, by choice. */
export function callsOf(events: readonly EngineEvent[], choice = 0): ToolCall[] {
  const calls: ToolCall[] = [];
  for (const event of events) {
    if (event.type === 'tool-call' && event.choice === choice) {
      assert.equal(event.call, calls.length);
      assert.match(event.id, /^call_[0-9A-Za-z]{24}$/);
      calls.push({ id: event.id, name: event.name, arguments: '' });
    }
    const call = event.type === 'tool-arguments' && event.choice === choice ? calls[event.call] : undefined;
    if (call !== undefined && event.type === 'tool-arguments') call.arguments += event.text;
  }
  return calls;
}

export function assertCall({ name, arguments: text }: ToolCall, tools: readonly Tool[]): void {
  assert.ok(tools.some((tool) => tool.name === name));
  const value: unknown = JSON.parse(text);
  if (name === 'off') assert.deepEqual(value, {});
  else {
    const { color, level, ...others } = value as Record<string, unknown>;
    assert.deepEqual(others, {});
    assert.ok(color === 'red' || color === 'green');
    assert.ok(level === 1 || level === 2 || level === 3);
  }
}
