import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  EMPTY_DRAFT,
  isRunning,
  sent,
  withModel,
  type Draft,
} from '../../console/src/pages/playground/draft.ts';
import {
  refusalOf,
  takesImages,
  withoutLargeImages,
} from '../../console/src/pages/playground/image-files.ts';
import { requestOf } from '../../console/src/pages/playground/request.ts';
import { translate } from '../../console/src/snippets/translate.ts';
import { MESSAGES } from '../../src/protocols/anthropic/protocol.ts';
import { type ChatRequest, imagesOf } from '../../src/core/generation.ts';
import { Notes } from '../../src/core/notes.ts';
import { CHAT } from '../../src/protocols/openai/protocols.ts';
import type { Protocol } from '../../src/core/protocol.ts';
import { RESPONSES } from '../../src/protocols/responses/protocol.ts';
import { dataUri, PIXEL, png } from '../images/samples.ts';
import { sealing } from '../protocols/responses/samples.ts';

const MODEL = 'acme/vision';
const START = withModel(EMPTY_DRAFT, 0, MODEL);
const attached = (draft: Draft, ...images: string[]) => ({ ...draft, images: [...draft.images, ...images] });

function bodyOf(draft: Draft): Readonly<Record<string, unknown>> {
  const [column] = draft.columns;
  assert.ok(column);
  return requestOf(draft, column, {});
}

const part = (url: string) => ({ type: 'image_url', image_url: { url } });

test('images are sent before the text of their message, also without a text', () => {
  const draft = attached({ ...START, input: 'What is this? ' }, PIXEL);
  assert.deepEqual(bodyOf(draft)['messages'], [
    { role: 'user', content: [part(PIXEL), { type: 'text', text: 'What is this?' }] },
  ]);
  const next = sent(attached(START, PIXEL, PIXEL));
  assert.deepEqual([isRunning(next), next.images], [true, []]);
  assert.deepEqual(bodyOf(next)['messages'], [{ role: 'user', content: [part(PIXEL), part(PIXEL)] }]);
});

test('only what the API takes can be added, to models that take images', () => {
  const file = { name: 'a.png', type: 'image/png', size: 10_485_760 };
  assert.equal(refusalOf(file), null);
  assert.match(refusalOf({ ...file, size: file.size + 1 }) ?? '', /a\.png is larger than/);
  for (const type of ['image/heic', 'image/svg+xml', 'application/pdf', ''])
    assert.match(refusalOf({ ...file, type }) ?? '', /not a PNG, JPEG, GIF or WebP image/);
  const models = ['text+image->text', 'text->text', 'text->embedding', null].map((modality, index) => ({
    id: `${index}`,
    modality,
  }));
  assert.deepEqual(
    ['0', '1', '2', '3', 'another'].map((id) => takesImages(models, id)),
    [true, false, false, false, false],
  );
});

/** What a model is asked by a request of which nothing is ignored. */
function messagesOf(protocol: Protocol, body: Readonly<Record<string, unknown>>): unknown {
  const options = { maxChoices: 1, notes: new Notes(true), sealer: sealing.of('account') };
  const request = protocol.parse(body, options).generation as ChatRequest; // A chat in every language.
  const images = imagesOf(request).map(({ at, digest }) => ({ at, digest }));
  return { images, texts: request.messages.map(({ content }) => content) };
}

test('code for each API has the images in their place', () => {
  const draft = sent(attached({ ...START, input: 'First' }, PIXEL, dataUri(png(2, 2))));
  const turns = draft.columns[0]?.turns.map((turn) =>
    turn.role === 'user' ? turn : { ...turn, text: 'Yes' },
  );
  const answered = { ...draft, columns: [{ model: MODEL, turns: turns ?? [] }] };
  const body = bodyOf(attached({ ...answered, input: 'Second' }, PIXEL));
  const chat = messagesOf(CHAT, body);
  assert.deepEqual(messagesOf(RESPONSES, translate(body, 'responses')), chat);
  assert.deepEqual(messagesOf(MESSAGES, translate(body, 'messages')), chat);
});

test('code has placeholders for the data of large images', () => {
  const large = dataUri(png(1, 1, [1, 1], 3000));
  const body = bodyOf(attached({ ...START, input: 'a' }, PIXEL, large, large));
  const { request, placeholders } = withoutLargeImages(body);
  assert.equal(placeholders, 2);
  const shown = [PIXEL, 'data:image/png;base64,BASE64_OF_IMAGE_1', 'data:image/png;base64,BASE64_OF_IMAGE_2'];
  assert.deepEqual(request['messages'], [
    { role: 'user', content: [...shown.map(part), { type: 'text', text: 'a' }] },
  ]);
  const small = bodyOf(attached(START, PIXEL));
  assert.equal(withoutLargeImages(small).request, small);
});
