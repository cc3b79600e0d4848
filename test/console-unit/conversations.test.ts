/** The conversations and presets of the playground: bounded, and shared by tabs. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { indexedDB } from 'fake-indexeddb';
import {
  contains,
  Conversations,
  MAX_CONVERSATIONS,
  titleOf,
} from '../../console/src/pages/playground/conversations.ts';
import {
  EMPTY_DRAFT,
  newChat,
  sent,
  withoutTurns,
  type Draft,
} from '../../console/src/pages/playground/draft.ts';
import { MAX_PRESETS, Presets } from '../../console/src/pages/playground/presets.ts';
import { deleteRecords, signedOut, UserRecords } from '../../console/src/state/user-records.ts';

// The console uses that of the browser.
Object.assign(globalThis, { indexedDB });

let users = 0;

/** Returns the conversations of a user as several tabs see them. */
function tabsOf(userId = `user_${users++}`): { tab: () => Conversations; userId: string } {
  return { tab: () => new Conversations(new UserRecords(userId, 'conversation')), userId };
}

function talked(text: string, draft: Draft = newChat(EMPTY_DRAFT)): Draft {
  return sent({ ...draft, input: text });
}

const titles = async (conversations: Conversations) => (await conversations.list()).map(titleOf);

test('conversations are listed by their latest message, and named by the first one', async () => {
  const conversations = tabsOf().tab();
  const rivers = talked('\n Rivers of Europe\nin a list');
  await conversations.save(rivers, 1);
  await conversations.save(talked('a '.repeat(60)), 2);
  await conversations.save(newChat(EMPTY_DRAFT), 3);
  assert.deepEqual(
    (await titles(conversations)).map(({ length }) => length),
    [80, 'Rivers of Europe'.length],
  );
  await conversations.save({ ...rivers, system: 'Be brief.' }, 4);
  assert.equal((await titles(conversations))[1], 'Rivers of Europe');
  await conversations.save(talked('More', rivers), 5);
  assert.equal((await titles(conversations))[0], 'Rivers of Europe');
  await conversations.rename(rivers.id, '  Rivers ');
  const [renamed, other] = await conversations.list();
  assert.ok(renamed && other);
  assert.equal(titleOf(renamed), 'Rivers');
  assert.deepEqual(
    [contains(renamed, 'RIVERS of'), contains(other, 'RIVERS of'), contains(renamed, 'nothing')],
    [true, false, false],
  );
});

test('a conversation is opened as it was stored, and deleted until it is restored', async () => {
  const conversations = tabsOf().tab();
  const draft = { ...talked('Hello'), system: 'Be brief.', input: 'not stored' };
  await conversations.save(draft, 1);
  assert.ok(!JSON.stringify(await conversations.list()).includes('not stored'));
  const found = await conversations.read(draft.id);
  assert.deepEqual([found?.system, found?.columns[0]?.turns[0]?.text], ['Be brief.', 'Hello']);
  const restore = await conversations.remove(draft.id);
  assert.deepEqual([await conversations.list(), await conversations.read(draft.id)], [[], null]);
  await restore?.();
  assert.equal((await conversations.read(draft.id))?.columns[0]?.turns[0]?.text, 'Hello');
  assert.equal(await conversations.remove('unknown'), null);
  // Without messages, there is nothing to list.
  const again = await conversations.read(draft.id);
  assert.ok(again);
  await conversations.save(withoutTurns({ ...draft, ...conversations.show(again) }), 2);
  assert.deepEqual(await conversations.list(), []);
});

test('the oldest conversations are deleted above the maximum number', async () => {
  const conversations = tabsOf().tab();
  for (let index = 0; index < MAX_CONVERSATIONS; index++)
    assert.equal(await conversations.save(talked(`chat ${index}`), index), 0);
  assert.equal(await conversations.save(talked('one more'), 1000), 1);
  const left = await titles(conversations);
  assert.deepEqual([left.length, left.includes('chat 0')], [MAX_CONVERSATIONS, false]);
});

test('a full storage keeps what it has, and the conversation counts as not stored', async () => {
  const records = new UserRecords<never>(`user_${users++}`, 'conversation');
  records.update = () => Promise.reject(new DOMException('full', 'QuotaExceededError'));
  const conversations = new Conversations(records);
  const draft = talked('first');
  await assert.rejects(conversations.save(draft, 1), { name: 'QuotaExceededError' });
  assert.ok(conversations.isChanged(draft));
});

test('the last change of several tabs is kept, and a tab without changes does not restore what another deleted', async () => {
  const { tab } = tabsOf();
  const [one, two] = [tab(), tab()];
  const draft = talked('from the first tab');
  await one.save(draft, 1);
  const read = await two.read(draft.id);
  assert.ok(read);
  await one.save(talked('mine', draft), 2);
  await two.save(talked('yours', { ...draft, ...two.show(read) }), 3);
  const [kept, ...others] = await one.list();
  assert.ok(kept && contains(kept, 'yours') && !contains(kept, 'mine'));
  assert.deepEqual(others, []);
  await one.remove(draft.id);
  await two.save({ ...draft, ...two.show(kept) }, 4);
  assert.deepEqual(await one.list(), []);
});

test('neither Undo of a deletion nor the removal of all messages loses what another tab wrote', async () => {
  const { tab } = tabsOf();
  const [one, two] = [tab(), tab()];
  const draft = talked('one');
  await one.save(draft, 1);
  const undo = await two.remove(draft.id);
  await one.save(talked('two', draft), 2);
  await undo?.();
  const texts = async () => JSON.stringify(await one.read(draft.id));
  assert.match(await texts(), /"two"/);
  await tab().save(withoutTurns(draft), 3);
  assert.match(await texts(), /"two"/);
});

test('the records of a user are deleted at sign-out, and a late write does not restore them', async () => {
  const [leaving, staying] = [tabsOf(), tabsOf()];
  const conversations = leaving.tab();
  await conversations.save(talked('private'), 1);
  await staying.tab().save(talked('kept'), 1);
  signedOut.add(leaving.userId);
  await deleteRecords((userId) => userId === leaving.userId);
  await conversations.save(talked('late'), 2);
  assert.deepEqual([await titles(conversations), await titles(staying.tab())], [[], ['kept']]);
});

test('presets are saved, replaced, renamed and deleted, in all tabs', async () => {
  const userId = `user_${users++}`;
  const [one, two] = [0, 1].map(() => new Presets(new UserRecords(userId, 'preset')));
  assert.ok(one && two);
  const names = async (presets: Presets) => (await presets.list()).map(({ name, system }) => [name, system]);
  const { settings } = EMPTY_DRAFT;
  assert.equal(await one.save({ name: ' Terse ', system: 'a', settings }), null);
  assert.equal(await one.save({ name: 'Careful', system: 'b', settings: { ...settings, user: 'me' } }), null);
  assert.equal(await one.save({ name: 'Terse', system: 'c', settings }), null);
  assert.match((await one.save({ name: ' ', system: '', settings })) ?? '', /name/);
  assert.deepEqual(await names(two), [
    ['Careful', 'b'],
    ['Terse', 'c'],
  ]);
  const [careful, terse] = await two.list();
  assert.ok(careful && terse);
  assert.equal(careful.settings.user, 'me');
  assert.match((await two.rename(terse, 'Careful')) ?? '', /already used/);
  assert.equal(await two.rename(terse, 'Brief'), null);
  await two.remove(careful);
  assert.deepEqual(await names(one), [['Brief', 'c']]);
  for (let count = 1; count < MAX_PRESETS; count++)
    await one.save({ name: `${count}`, system: '', settings });
  assert.match((await one.save({ name: 'one more', system: '', settings })) ?? '', /at most 50/);
  assert.equal(await one.save({ name: 'Brief', system: 'd', settings }), null);
});
