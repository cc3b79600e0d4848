import assert from 'node:assert/strict';
import { test } from 'node:test';
import { MESSAGES_FIELDS } from '../../../src/protocols/anthropic/fields.ts';
import { MESSAGES } from '../../../src/protocols/anthropic/protocol.ts';
import { Notes } from '../../../src/core/notes.ts';
import type { Field } from '../../../src/protocols/field.ts';
import { FIELDS_OF } from '../../../src/protocols/openai/fields.ts';
import { CHAT, TEXT } from '../../../src/protocols/openai/protocols.ts';
import { RESPONSES_FIELDS } from '../../../src/protocols/responses/fields.ts';
import { RESPONSES } from '../../../src/protocols/responses/protocol.ts';
import { CALLER, CHAT_BODY, refuses, TEXT_BODY } from './samples.ts';

const APIS = [
  { protocol: CHAT, fields: FIELDS_OF.chat, body: CHAT_BODY },
  { protocol: TEXT, fields: FIELDS_OF.text, body: TEXT_BODY },
  { protocol: RESPONSES, fields: RESPONSES_FIELDS, body: { model: 'ns/m', input: 'Hi' } },
  { protocol: MESSAGES, fields: MESSAGES_FIELDS, body: { ...CHAT_BODY, max_tokens: 5 } },
];

/** Fields that change nothing in the text of a response, or nothing without a chat template. */
const HARMLESS = ['user', 'metadata', 'stream_options', 'include', 'chat_template_kwargs'];

const isTopLevel = ({ path, name }: Field): boolean => path === name;

test('a field that changes the response of one API is read or refused by each other API', () => {
  for (const { protocol, fields } of APIS) {
    const known = new Map(fields.map((field) => [field.path, field.use]));
    for (const other of APIS) {
      for (const field of other.fields.filter(isTopLevel)) {
        if (field.use !== 'generation' || HARMLESS.includes(field.name)) continue;
        // Other providers send these to chats, so they are noted there.
        if (protocol === CHAT && ['reasoning', 'thinking'].includes(field.name)) continue;
        const use = known.get(field.name);
        const isKnown = use === 'generation' || use === 'refused';
        // A prompt of a text completion has no reasoning to control.
        const isMoot =
          protocol === TEXT && ['reasoning', 'thinking', 'reasoning_effort'].includes(field.name);
        assert.ok(isKnown || isMoot || field.name === 'parallel_tool_calls', `${protocol.id}: ${field.name}`);
      }
    }
  }
});

test('a field of another API is refused with the field to use, which the API has, unless it changes nothing', () => {
  for (const { protocol, fields, body } of APIS) {
    const paths = new Set(fields.map(({ path }) => path));
    for (const { name, instead, neutral } of fields.filter(
      (field) => field.use === 'refused' && isTopLevel(field),
    )) {
      const parse = (value: unknown) => protocol.parse({ ...body, [name]: value }, CALLER);
      refuses(() => parse({ x: 1 }), 'unsupported_parameter', name, instead[0] ?? '');
      for (const value of [null, ...neutral]) parse(value);
      for (const path of instead)
        assert.ok(paths.has(path) || path.startsWith('tool_choice.'), `${protocol.id}: ${path}`);
    }
  }
  refuses(
    () => RESPONSES.parse({ model: 'ns/m', input: 'Hi', max_tokens: 5 }, CALLER),
    'unsupported_parameter',
    'max_tokens',
    '`max_output_tokens`',
  );
});

test('fields of other servers are ignored with a note, and are not taken for typing errors', () => {
  const names = [
    'min_tokens',
    'stop_token_ids',
    'ignore_eos',
    'top_a',
    'models',
    'user_id',
    'options',
    'template',
    'cache',
  ];
  for (const { protocol, body } of APIS) {
    for (const name of [...names, 'repeat_penalty', 'typical_p', 'mode', 'tool_ids', 'title', 'seeds_of']) {
      const notes = new Notes();
      protocol.parse({ ...body, [name]: 1 }, { ...CALLER, notes });
      assert.deepEqual(
        notes.list.map(({ path }) => path),
        [name],
        protocol.id,
      );
    }
    refuses(
      () => protocol.parse({ ...body, max_token: 1 }, CALLER),
      'unsupported_parameter',
      'max_token',
      '`max_',
    );
  }
});
