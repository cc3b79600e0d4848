import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { withNewest } from '../../console/src/api/newest.ts';

type Row = { id: string; state?: string };

const page = (ids: string, cursor: string | null) => ({
  data: ids.split('').map((id): Row => ({ id })),
  next_cursor: cursor,
});
const known = (...pages: ReturnType<typeof page>[]) => ({ pages, pageParams: pages.map(() => null) });
const idsOf = ({ pages }: { pages: { data: Row[] }[] }) =>
  pages.map(({ data }) => data.map(({ id }) => id).join(''));

describe('the live request log', () => {
  test('adds new rows on top and keeps the loaded rows', () => {
    const all = withNewest(known(page('gfe', 'e'), page('dcb', 'b')), page('ihg', 'g'));
    assert.deepEqual(idsOf(all), ['ihgfe', 'dcb']);
    assert.equal(all.pages.at(-1)?.next_cursor, 'b');
  });

  test('updates known rows and drops those that no longer match the filters', () => {
    const now = { data: [{ id: 'h' }, { id: 'f', state: 'settled' }], next_cursor: 'f' };
    const all = withNewest(known(page('gfe', 'e')), now);
    assert.deepEqual(all.pages[0]?.data, [{ id: 'h' }, { id: 'f', state: 'settled' }, { id: 'e' }]);
  });

  test('replaces rows of several pages if the new page covers them', () => {
    assert.deepEqual(idsOf(withNewest(known(page('gf', 'f'), page('ed', 'd')), page('gfe', 'e'))), [
      'gfe',
      'd',
    ]);
  });

  test('starts over after a gap, if the new page is complete, or if no rows are loaded', () => {
    assert.deepEqual(idsOf(withNewest(known(page('cba', 'a')), page('zyx', 'x'))), ['zyx']);
    assert.deepEqual(idsOf(withNewest(known(page('cba', 'a')), page('dcba', null))), ['dcba']);
    assert.deepEqual(idsOf(withNewest(known(page('', 'c')), page('ed', 'd'))), ['ed']);
    // The new page searched further back than the loaded rows.
    assert.deepEqual(idsOf(withNewest(known(page('g', 'f')), page('g', 'c'))), ['g']);
  });
});
