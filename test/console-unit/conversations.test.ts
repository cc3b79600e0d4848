/** The conversations and presets of the playground: bounded, and shared by tabs. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { MAX_SAVED } from '../../console/src/components/saved-items.ts';
import { Conversations, MAX_CONVERSATIONS } from '../../console/src/pages/playground/conversations.ts';
import { changed, EMPTY_DRAFT, newChat, sent, type Draft } from '../../console/src/pages/playground/draft.ts';
import { presetsOf, type Presets } from '../../console/src/pages/playground/presets.ts';
import type { UserItems } from '../../console/src/state/user-items.ts';

/** Storage for up to `room` characters that two tabs share. */
function storage(room = Infinity): { tab: () => UserItems; texts: Map<string, string> } {
  const texts = new Map<string, string>();
  const tabs: { listeners: Set<(name: string, text: string | null) => void> }[] = [];
  const tab = (): UserItems => {
    const own = { listeners: new Set<(name: string, text: string | null) => void>() };
    tabs.push(own);
    const publish = (name: string, text: string | null) => {
      for (const other of tabs)
        if (other !== own) for (const listener of other.listeners) listener(name, text);
    };
    return {
      all: () => new Map(texts),
      read: (name) => texts.get(name) ?? null,
      write: (name, text) => {
        const others = [...texts].filter(([other]) => other !== name);
        if (others.reduce((sum, [, { length }]) => sum + length, text.length) > room) return false;
        texts.set(name, text);
        publish(name, text);
        return true;
      },
      remove: (name) => {
        if (texts.delete(name)) publish(name, null);
      },
      onChangedElsewhere: (listener) => {
        own.listeners.add(listener);
        return () => own.listeners.delete(listener);
      },
    };
  };
  return { tab, texts };
}

function talked(text: string, draft: Draft = EMPTY_DRAFT): Draft {
  return sent({ ...newChat(draft), input: text }).draft;
}

const titles = ({ list }: Conversations) => list.map(({ title }) => title);

test('conversations are listed by their latest message, and named by the first one', () => {
  const conversations = new Conversations(storage().tab());
  const rivers = talked('\n Rivers of Europe\nin a list');
  conversations.save(rivers, 1);
  conversations.save(talked('a '.repeat(60)), 2);
  conversations.save(newChat(EMPTY_DRAFT), 3);
  assert.equal(titles(conversations)[0]?.length, 80);
  assert.equal(titles(conversations)[1], 'Rivers of Europe');
  conversations.save({ ...rivers, system: 'Be brief.' }, 4);
  assert.equal(titles(conversations)[1], 'Rivers of Europe');
  const more = sent({
    ...changed(rivers, { type: 'switch_role', turn: rivers.columns[0]?.turns[1]?.id ?? '' }),
    input: 'More',
  }).draft;
  conversations.save(more, 5);
  assert.equal(titles(conversations)[0], 'Rivers of Europe');
  conversations.rename(rivers.id, '  Rivers ');
  assert.equal(titles(conversations)[0], 'Rivers');
  assert.deepEqual([...conversations.search('RIVERS of')], [rivers.id]);
  assert.deepEqual([...conversations.search('nothing')], []);
});

test('a conversation is opened as it was stored, and deleted until it is restored', () => {
  const { tab, texts } = storage();
  const conversations = new Conversations(tab());
  const draft = { ...talked('Hello'), system: 'Be brief.', prompt: 'not stored', input: 'not stored' };
  conversations.save(draft, 1);
  assert.ok(![...texts.values()].some((text) => text.includes('not stored')));
  const found = conversations.open(draft.id);
  assert.equal(found?.system, 'Be brief.');
  assert.equal(found?.columns[0]?.turns[0]?.text, 'Hello');
  const restore = conversations.remove(draft.id);
  assert.deepEqual([conversations.list, conversations.open(draft.id)], [[], null]);
  restore?.();
  assert.equal(conversations.open(draft.id)?.columns[0]?.turns[0]?.text, 'Hello');
  assert.equal(conversations.remove('unknown'), null);
});

test('the oldest conversations are deleted above the maximum number and size', () => {
  const { tab } = storage();
  const conversations = new Conversations(tab());
  for (let index = 0; index < MAX_CONVERSATIONS; index++) {
    assert.equal(conversations.save(talked(`chat ${index}`), index).removed, 0);
  }
  assert.equal(conversations.save(talked('one more'), 1000).removed, 1);
  assert.ok(!titles(conversations).includes('chat 0'));
  assert.equal(conversations.list.length, MAX_CONVERSATIONS);
  assert.ok(conversations.save(talked('x'.repeat(3_990_000)), 1001).removed > 100);
  const before = conversations.list.length;
  assert.deepEqual(conversations.save(talked('y'.repeat(4_100_000)), 1002), { isStored: false, removed: 0 });
  assert.equal(conversations.list.length, before);
});

test('a full storage keeps what it has', () => {
  const conversations = new Conversations(storage(5000).tab());
  assert.ok(conversations.save(talked('first'), 1).isStored);
  const large = talked('x'.repeat(5000));
  assert.deepEqual(conversations.save(large, 2), { isStored: false, removed: 0 });
  assert.ok(conversations.isChanged(large));
  assert.deepEqual(titles(conversations), ['first']);
});

test('tabs see the conversations of each other and do not restore deleted ones', () => {
  const { tab } = storage();
  const [one, two] = [new Conversations(tab()), new Conversations(tab())];
  const seen: string[] = [];
  two.follow((id) => seen.push(id));
  one.follow(() => undefined);
  const draft = talked('from the first tab');
  one.save(draft, 1);
  assert.deepEqual(titles(two), ['from the first tab']);
  assert.deepEqual(seen, [draft.id]);
  two.save(talked('from the second tab'), 2);
  assert.deepEqual(titles(one), ['from the second tab', 'from the first tab']);
  two.remove(draft.id);
  assert.ok(one.save(draft, 3).isStored);
  assert.deepEqual(titles(one), ['from the second tab']);
  // After a reload of the first tab, too.
  const reloaded = new Conversations(tab());
  assert.equal(reloaded.resume(draft), null);
  reloaded.save(draft, 4);
  assert.deepEqual(titles(reloaded), ['from the second tab']);
});

test('invalid stored values are ignored', () => {
  const { tab, texts } = storage();
  for (const text of ['', '7', '{', '[]', '{"name": 3}']) texts.set(`conversation.${text}`, text);
  texts.set('other', '{}');
  const conversations = new Conversations(tab());
  assert.deepEqual(titles(conversations), ['New chat']);
  assert.equal(conversations.open('{'), null);
});

test('presets are saved, replaced, renamed and deleted, in all tabs', () => {
  const { tab, texts } = storage();
  const [one, two] = [presetsOf(tab()), presetsOf(tab())];
  let changes = 0;
  two.subscribe(() => changes++);
  const names = ({ list }: Presets) => list.map(({ name, system }) => [name, system]);
  const { settings } = EMPTY_DRAFT;
  assert.equal(one.save({ name: ' Terse ', system: 'a', settings }), null);
  assert.equal(one.save({ name: 'Careful', system: 'b', settings: { ...settings, user: 'me' } }), null);
  assert.equal(one.save({ name: 'Terse', system: 'c', settings }), null);
  assert.match(one.save({ name: ' ', system: '', settings }) ?? '', /name/);
  assert.deepEqual(names(two), [
    ['Careful', 'b'],
    ['Terse', 'c'],
  ]);
  assert.equal(two.list[0]?.settings.user, 'me');
  assert.equal(two.list, two.list);
  assert.equal(changes, 3);
  assert.match(two.rename('Terse', 'Careful') ?? '', /already used/);
  assert.equal(two.rename('Terse', 'Brief'), null);
  two.remove('Careful');
  assert.deepEqual(names(presetsOf(tab())), [['Brief', 'c']]);
  for (let count = 1; count < MAX_SAVED; count++) one.save({ name: `${count}`, system: '', settings });
  assert.match(one.save({ name: 'one more', system: '', settings }) ?? '', /at most 50/);
  for (const bad of ['', '{', '{}', '[7, {"name": 1}]']) {
    texts.set('presets', bad);
    assert.deepEqual(presetsOf(tab()).list, []);
  }
});
