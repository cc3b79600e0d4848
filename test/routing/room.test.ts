import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { Room } from '../../src/routing/room.ts';

const slots = (count: number) => ({ slots: count, queued: null });
const queued = (count: number) => ({ slots: null, queued: count });

test('a replica has room for its slots, and for one choice more if it has 2 to 7', () => {
  for (const [count, limit] of [
    [1, 1],
    [2, 3],
    [7, 8],
    [8, 8],
    [64, 64],
  ] as const) {
    assert.equal(new Room(undefined).limit(slots(count), 0), limit);
  }
});

test('the configured maximum counts, whatever the server reports', () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 100 }), fc.nat(200), fc.nat(200), (maximum, count, inFlight) => {
      assert.equal(new Room(maximum).limit(slots(count), inFlight), maximum);
      assert.equal(new Room(maximum).limit(queued(count), inFlight), maximum);
    }),
  );
});

test('without slots or a queue, room is unlimited', () => {
  assert.equal(new Room(undefined).limit(null, 1000), Infinity);
  assert.equal(new Room(undefined).limit({ slots: null, queued: null }, 1000), Infinity);
});

test('the room of a server without slots falls to what it runs, and grows again while nothing waits there', () => {
  const room = new Room(undefined);
  assert.equal(room.limit(queued(0), 50), Infinity, 'nothing waits');
  assert.equal(room.limit(queued(20), 50), 32, '30 run, and 2 may wait');
  const report = queued(2);
  assert.equal(room.limit(report, 32), 32);
  assert.equal(room.limit(report, 32), 32, 'one report is considered once');
  assert.equal(room.limit(queued(0), 32), 36);
  assert.equal(room.limit(queued(0), 20), 36, 'it grows only when it is used');
});

test('the room of a server without slots is always at least 1', () => {
  fc.assert(
    fc.property(fc.array(fc.tuple(fc.nat(500), fc.nat(500))), (reports) => {
      const room = new Room(undefined);
      for (const [waiting, inFlight] of reports) assert.ok(room.limit(queued(waiting), inFlight) >= 1);
    }),
  );
});
