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

describe('a log that is live', () => {
  test('has new rows on top, and what was read below stays', () => {
    const all = withNewest(known(page('gfe', 'e'), page('dcb', 'b')), page('ihg', 'g'));
    assert.deepEqual(idsOf(all), ['ihgfe', 'dcb']);
    assert.equal(all.pages.at(-1)?.next_cursor, 'b');
  });

  test('takes rows that are known as they are now, and drops those that pass the filters no more', () => {
    const now = { data: [{ id: 'h' }, { id: 'f', state: 'settled' }], next_cursor: 'f' };
    const all = withNewest(known(page('gfe', 'e')), now);
    assert.deepEqual(all.pages[0]?.data, [{ id: 'h' }, { id: 'f', state: 'settled' }, { id: 'e' }]);
  });

  test('reaches over pages where the newest one does', () => {
    assert.deepEqual(idsOf(withNewest(known(page('gf', 'f'), page('ed', 'd')), page('gfe', 'e'))), [
      'gfe',
      'd',
    ]);
  });

  test('begins anew where rows between are not known, where all is known, and where nothing was', () => {
    assert.deepEqual(idsOf(withNewest(known(page('cba', 'a')), page('zyx', 'x'))), ['zyx']);
    assert.deepEqual(idsOf(withNewest(known(page('cba', 'a')), page('dcba', null))), ['dcba']);
    assert.deepEqual(idsOf(withNewest(known(page('', 'c')), page('ed', 'd'))), ['ed']);
    // A search that has looked further back than what was known.
    assert.deepEqual(idsOf(withNewest(known(page('g', 'f')), page('g', 'c'))), ['g']);
  });
});
