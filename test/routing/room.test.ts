import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from '../support/fast-check.ts';
import { Room } from '../../src/routing/replica.ts';

const slots = (count: number) => ({ slots: count, slotsInUse: null, queued: null });
const load = (running: number | null, queued: number) => ({ slots: null, slotsInUse: running, queued });

test('a replica has room for its slots, and for one more choice if it has 2 to 7 slots', () => {
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

test('a replica in whose slots requests take turns has room for more of them than slots', () => {
  for (const count of [1, 2, 32]) {
    assert.equal(new Room(undefined).limit({ ...slots(count), takesTurns: true }, 0), 32);
  }
  assert.equal(new Room(undefined).limit({ ...slots(64), takesTurns: true }, 0), 64);
  assert.equal(new Room(3).limit({ ...slots(1), takesTurns: true }, 0), 3);
});

test('the configured maximum applies, whatever the server reports', () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 100 }), fc.nat(200), fc.nat(200), (maximum, count, inFlight) => {
      assert.equal(new Room(maximum).limit(slots(count), inFlight), maximum);
      assert.equal(new Room(maximum).limit(load(null, count), inFlight), maximum);
    }),
  );
});

test('without slots or a queue, room is unlimited', () => {
  assert.equal(new Room(undefined).limit(null, 1000), Infinity);
  assert.equal(new Room(undefined).limit({ slots: null, slotsInUse: null, queued: null }, 1000), Infinity);
});

test('a server that reports no slots still has room', () => {
  assert.equal(new Room(undefined).limit(slots(0), 0), 1);
});

test('the room of a server without slots grows with each response while nothing waits there', () => {
  const room = new Room(undefined);
  assert.equal(room.limit(load(0, 0), 0), 32);
  room.responseStarted(31);
  assert.equal(room.limit(load(31, 0), 31), 32, 'it was not full');
  for (let inFlight = 32; inFlight < 100; inFlight++) room.responseStarted(inFlight);
  const report = load(100, 0);
  assert.equal(room.limit(report, 100), 100);
  assert.equal(room.limit(load(98, 2), 100), 100);
  room.responseStarted(100);
  assert.equal(room.limit(load(98, 2), 100), 100, 'requests wait there');
});

test('the room of a server without slots drops to its running requests when requests keep waiting', () => {
  const room = new Room(undefined);
  assert.equal(room.limit(load(0, 0), 0), 32);
  assert.equal(room.limit(load(0, 32), 32), 32, 'they have just arrived');
  const report = load(16, 16);
  assert.equal(room.limit(report, 32), 18, '16 run, and 2 may wait');
  assert.equal(room.limit(report, 18), 18, 'one report is considered once');
  assert.equal(room.limit(load(16, 2), 18), 18);
  assert.equal(room.limit(load(16, 3), 18), 18, 'only for a moment');
  assert.equal(room.limit(load(16, 0), 18), 18);
});

test('while a server does not report its load, its last room applies, but at least 32', () => {
  for (const [running, expected] of [
    [38, 40],
    [2, 32],
  ] as const) {
    const room = new Room(undefined);
    for (const report of [load(running, 9), load(running, 9)]) room.limit(report, running + 9);
    assert.equal(room.limit(load(running, 0), 1), running + 2);
    assert.equal(room.limit({ slots: null, slotsInUse: null, queued: null }, 1), expected);
    room.responseStarted(expected);
    assert.equal(room.limit(null, 1), expected);
  }
});

test('with several instances, the room of each is its share of the running requests', () => {
  const room = new Room(undefined);
  for (const report of [load(20, 20), load(20, 20)]) room.limit(report, 10);
  assert.equal(room.limit(load(20, 0), 10), 7, 'a quarter of 20, and 2');
});

test('the room of a server without slots is always at least 1', () => {
  fc.assert(
    fc.property(fc.array(fc.tuple(fc.nat(500), fc.nat(500), fc.nat(500))), (reports) => {
      const room = new Room(undefined);
      for (const [running, waiting, inFlight] of reports) {
        assert.ok(room.limit(load(running, waiting), inFlight) >= 1);
        assert.ok(room.limit(load(null, waiting), inFlight) >= 1);
      }
    }),
  );
});
