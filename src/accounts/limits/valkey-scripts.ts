import { createHash } from 'node:crypto';
import { CALENDAR, CALENDAR_WINDOWS, type CalendarWindow } from './calendar.ts';
import { KINDS, type LimitKind } from './kinds.ts';
import { PARTS } from './scope-limits.ts';

/** A script, run by its digest, or by its text if it is not loaded. */
export interface Script {
  readonly text: string;
  readonly sha: string;
}

/** If a read of the ledger takes longer than this many milliseconds, any instance may start another. */
const READING_MS = 5000;

/**
 * Milliseconds within which every instance restores its reservations after the store has lost its data. Until then,
 * the reservations are taken from the open rows of the ledger.
 */
const RESTORE_MS = 3000;

/** The fields of a kind of limit: what is settled, reserved by running requests, and reserved by open rows. */
function fieldsOf({ window, letter }: LimitKind): { settled?: string; reserved?: string; open?: string } {
  if (window === 'minute') return { settled: `${letter}s` };
  if (window === 'running') return { reserved: letter };
  return { settled: `${letter}s`, reserved: `${letter}h`, open: `o${letter}` };
}

/** All fields of counters, with the list of a scope that has the counter, and its position in the list. */
const COUNTERS = KINDS.flatMap((kind) =>
  Object.entries(fieldsOf(kind)).map(([list, field]) => ({ kind, list, at: 1 + kind.index, field })),
);

/**
 * The other fields that `load` reads. They are stored under short names, because a busy service writes them with each
 * request, and instances of other versions read them.
 */
const FIELDS = {
  /** The millisecond of the last update. */
  updated: 'at',
  /** The periods of the counters. */
  ...(Object.fromEntries(CALENDAR_WINDOWS.map((window) => [window, CALENDAR[window].field])) as Record<
    CalendarWindow,
    string
  >),
  /**
   * The generation in which settled consumption was read from the ledger; if missing, the counters contain only what was
   * settled since they were last reset.
   */
  generation: 'g',
  /** The millisecond from which the settled consumption must be read again. */
  stale_from: 'v',
  /** The millisecond until which the reservations of open rows count. */
  open_until: 'ou',
  /** The ticket of the read in progress, `<start in milliseconds> <generation>`. */
  ticket: 'w',
  /** Set if the hash is new, so that `STORE_COUNTS` also restores the reservations of open rows. */
  is_new: 'b',
  /** The instances with reservations, and when their leases expire. */
  leases: 'cs',
};
const NAMES = Object.keys(FIELDS);

/** Returns Lua for the value that `load` has read of a field. */
function stored(name: keyof typeof FIELDS): string {
  return `v[${1 + NAMES.indexOf(name)}]`;
}

/** Returns Lua for some of the counters. `value` is where `load` finds the value of the field. */
function lua(each: (counter: (typeof COUNTERS)[number], value: string) => string | false): string[] {
  return COUNTERS.map((counter, index) => each(counter, `v[${1 + NAMES.length + index}]`)).filter(
    (text) => text !== false,
  );
}

/** Returns Lua for each window with periods. */
function perWindow(each: (window: CalendarWindow, index: number) => string): string {
  return CALENDAR_WINDOWS.map(each).join(', ');
}

const ZEROS = `{${KINDS.map(() => 0).join(', ')}}`;

/**
 * Each scope of an account is one hash. A script works on the scopes of one account, which share a slot in a
 * cluster because the account ID is the hash tag. Instances of other versions read the same hashes. Fields:
 *
 * - those of `FIELDS`; the counters of each kind of limit: see `fieldsOf`. That of a bucket is empty without a limit, so that
 * a new limit counts what was used before
 * - `l<instance>/<request>`: the reservation of one running request, `tokens nano`, then its periods; deleted when
 * it is settled
 * - `x<request>`: a request that was settled during the read in progress
 *
 * Numbers are doubles in Lua, exact below 2^53; `%.0f` formats all digits.
 */
const PRELUDE = `
local today = math.floor(now / 86400000)

local KINDS = {${KINDS.map(({ unit, window }) => `{unit = '${unit}', window = '${window}'}`).join(', ')}}
local FIELD = {${Object.entries(FIELDS)
  .map(([name, field]) => `${name} = '${field}'`)
  .join(', ')}}
local OPEN_FIELDS = {${lua(({ list, at, field }) => list === 'open' && `[${at}] = '${field}'`).join(', ')}}

-- A limit is a list.
local BOUND, RATE, MOST = 1, 2, 3

-- Months since the year 0, from days since 1970: Howard Hinnant's civil_from_days.
local function month_of(day)
  local z = day + 719468
  local era = math.floor(z / 146097)
  local doe = z - era * 146097
  local yoe = math.floor((doe - math.floor(doe / 1460) + math.floor(doe / 36524) - math.floor(doe / 146096)) / 365)
  local mp = math.floor((5 * (doe - (365 * yoe + math.floor(yoe / 4) - math.floor(yoe / 100))) + 2) / 153)
  local year = yoe + era * 400
  if mp < 10 then return year * 12 + mp + 2 end
  return (year + 1) * 12 + mp - 10
end
local current = {${perWindow((window) => `${window} = ${CALENDAR[window].lua}`)}}

-- Formats a number; nil is an unknown one.
local function text(number) return number and string.format('%.0f', number) or '' end

-- Starts the current periods, unless they are being counted.
local function start_periods(s)
  for i, kind in ipairs(KINDS) do
    if current[kind.window] and s.period[kind.window] < current[kind.window] then
      s.settled[i], s.reserved[i], s.open[i] = 0, 0, 0
    end
  end
  for window, period in pairs(current) do s.period[window] = math.max(s.period[window], period) end
end

-- Adds the amounts of a request that was admitted in these periods to the reservations.
local function adjust_reserved(s, sign, amounts, period)
  for i, kind in ipairs(KINDS) do
    if kind.window ~= 'minute' and period[kind.window] == s.period[kind.window] then
      s.reserved[i] = s.reserved[i] + sign * amounts[kind.unit]
    end
  end
end

local function adjust_stored(s, sign, reservation)
  local n = {}
  for number in string.gmatch(reservation, '%d+') do n[#n + 1] = tonumber(number) end
  local amounts = {requests = 1, tokens = n[1], usd = n[2]}
  adjust_reserved(s, sign, amounts, {${perWindow((window, index) => `${window} = n[${3 + index}]`)}})
end

-- Returns a scope updated to this moment; 'exists': whether it is stored. Its lists are in the order of KINDS.
local function load(key)
  local v = redis.call('HMGET', key, ${[...Object.values(FIELDS), ...lua(({ field }) => field)].map((field) => `'${field}'`).join(', ')})
  local s = {key = key, exists = ${stored('updated')}, updated = tonumber(${stored('updated')}) or now,
    generation = tonumber(${stored('generation')}), stale_from = tonumber(${stored('stale_from')}),
    ticket = ${stored('ticket')}, is_new = ${stored('is_new')}, leases = ${stored('leases')} or '',
    period = {${perWindow((window) => `${window} = tonumber(${stored(window)}) or current.${window}`)}},
    settled = ${ZEROS}, reserved = ${ZEROS}, open = ${ZEROS}}
  ${lua(({ list, at, kind }, value) => `s.${list}[${at}] = tonumber(${value})${kind.window === 'minute' ? '' : ' or 0'}`).join('\n  ')}
  if (tonumber(${stored('open_until')}) or 0) < now then s.open = ${ZEROS} end
  start_periods(s)
  if s.exists and not (${lua(({ list, kind }, value) => list === 'settled' && kind.window !== 'minute' && value).join(' and ')}) then
    -- A version without one of these kinds has written the scope.
    s.generation, s.reserved = nil, ${ZEROS}
    redis.call('HDEL', key, FIELD.generation)
    local all = redis.call('HGETALL', key)
    for i = 1, #all, 2 do
      if string.sub(all[i], 1, 1) == 'l' then adjust_stored(s, 1, all[i + 1]) end
    end
  end
  return s
end

-- Refills the buckets. Those of new limits are not known until the consumption is read, and 's.lacks_bucket' is set.
local function refill(s, limits)
  local passed = math.max(0, now - s.updated)
  for i, kind in ipairs(KINDS) do
    if kind.window == 'minute' then
      local used = limits[i] and s.settled[i]
      s.lacks_bucket = s.lacks_bucket or (limits[i] and not used)
      s.settled[i] = used and math.max(0, used - passed * limits[i][RATE]) or nil
    end
  end
  s.updated = now
end

local function save(s, ttl)
  redis.call('HSET', s.key, ${perWindow((window) => `FIELD.${window}, text(s.period.${window})`)},
    FIELD.updated, text(s.updated), FIELD.leases, s.leases,
    ${lua(({ list, at, field }) => list !== 'open' && `'${field}', text(s.${list}[${at}])`).join(', ')})
  redis.call('PEXPIRE', s.key, ttl)
end

-- Schedules another read of the settled consumption for 'at'. A read excludes the requests whose reservations are stored,
-- because the store counts these when they are settled. If a reservation was restored, released or lost, its
-- request may have been counted twice or not at all.
local function read_again(s, at)
  if s.stale_from and s.stale_from <= at then return end
  s.stale_from = at
  redis.call('HSET', s.key, FIELD.stale_from, text(at))
end

-- Forgets the requests that were settled during a read.
local function forget_settled(key)
  for _, field in ipairs(redis.call('HKEYS', key)) do
    if string.sub(field, 1, 1) == 'x' then redis.call('HDEL', key, field) end
  end
end

-- Releases the reservations of 'dead' and of instances whose lease has expired.
local function release_dead(s, dead)
  local live, expired = {}, nil
  for instance, expires in string.gmatch(s.leases, '(%S+) (%d+)') do
    if instance == dead or tonumber(expires) < now then expired = expired or {}; expired[instance] = true
    else live[#live + 1] = instance .. ' ' .. expires end
  end
  if not expired then return false end
  s.leases = table.concat(live, ' ')
  local all = redis.call('HGETALL', s.key)
  for i = 1, #all, 2 do
    local instance = string.match(all[i], '^l(.+)/')
    if instance and expired[instance] then
      adjust_stored(s, -1, all[i + 1])
      redis.call('HDEL', s.key, all[i])
      read_again(s, now)
    end
  end
  return true
end

-- Renews the lease of an instance, unless most of it is left.
local function renew(s, instance, lease)
  local kept = {}
  for other, expires in string.gmatch(s.leases, '(%S+) (%d+)') do
    if other == instance and tonumber(expires) - now > lease * 0.7 then return end
    if other ~= instance then kept[#kept + 1] = other .. ' ' .. expires end
  end
  kept[#kept + 1] = instance .. ' ' .. text(now + lease)
  s.leases = table.concat(kept, ' ')
end
`;

/**
 * Reserves a request if all limits have room. Keys: the scopes. Arguments: `{take, generation, instance, lease, id, amounts}`,
 * whether to reserve or only to read the counters, `lease` being that of the instance and `id` that of the reservation, with
 * its amounts by unit; then the `PackedLimits` of each scope.
 *
 * Returns a list: the verdict (1: room; 0: no room; -1: settled consumption unknown), milliseconds, the periods, then for each
 * scope what is settled and reserved of each kind. For -1, the counters are replaced by the list of the IDs of the
 * requests that the store counts itself, and the `STORE_COUNTS` ticket of each scope (`''`: its consumption is known).
 */
const ADMIT = `
local amounts, generation = call.amounts, call.generation
local scopes, unknown, room = {}, false, true
for i, key in ipairs(KEYS) do
  local s, scope = load(key), cjson.decode(ARGV[1 + i])
  s.lifetime, s.taken, scopes[i] = scope.lifetime, {}, s
  refill(s, scope.limits)
  if s.exists and release_dead(s, nil) then save(s, s.lifetime) end
  s.stale = not s.generation or s.generation < generation or (s.stale_from and s.stale_from <= now) or s.lacks_bucket
  if s.stale then unknown = true end
  for j, kind in ipairs(KINDS) do
    local limit = scope.limits[j]
    if limit then
      local amount, bound = amounts[kind.unit], limit[BOUND]
      if kind.window == 'minute' then
        amount, bound = math.min(amount, limit[MOST]) * ${PARTS}, bound * ${PARTS}
        s.taken[j] = amount
      end
      if amount > 0 and (s.settled[j] or 0) + s.reserved[j] + s.open[j] + amount > bound then room = false end
    end
  end
end

local result = {room and 1 or 0, now, {${perWindow((window) => `current.${window}`)}}}
if unknown then
  result[1] = -1
  local counted, seen = {}, {}
  for i, s in ipairs(scopes) do
    local ticket = ''
    if s.stale then
      local started, generation_read = string.match(s.ticket or '', '(%d+) (%d+)')
      ticket = s.ticket
      if s.generation or not ticket or now - tonumber(started) > ${READING_MS} or tonumber(generation_read) < generation then
        ticket = text(now) .. ' ' .. text(generation)
        for j, kind in ipairs(KINDS) do
          if s.period[kind.window] then s.settled[j] = 0 end
        end
        redis.call('HDEL', s.key, FIELD.generation, FIELD.stale_from)
        redis.call('HSET', s.key, FIELD.ticket, ticket)
        forget_settled(s.key)
        if not s.exists then redis.call('HSET', s.key, FIELD.is_new, '1') end
        save(s, s.lifetime)
      end
      for _, field in ipairs(redis.call('HKEYS', s.key)) do
        local request = string.match(field, '^l.*/(.*)') or string.match(field, '^x(.*)')
        if request and not seen[request] then seen[request] = true; counted[#counted + 1] = request end
      end
    end
    result[4 + i] = ticket
  end
  result[4] = counted
  return result
end

for i, s in ipairs(scopes) do
  if room and call.take then
    for j, amount in pairs(s.taken) do s.settled[j] = s.settled[j] + amount end
    adjust_reserved(s, 1, amounts, s.period)
    renew(s, call.instance, call.lease)
    redis.call('HSET', s.key, 'l' .. call.id, table.concat({text(amounts.tokens), text(amounts.usd),
      ${perWindow((window) => `text(s.period.${window})`)}}, ' '))
    save(s, s.lifetime)
  end
  local counts = {}
  for j in ipairs(KINDS) do counts[2 * j - 1], counts[2 * j] = s.settled[j] or 0, s.reserved[j] + s.open[j] end
  result[3 + i] = counts
end
return result
`;

/**
 * Stores the consumption read from the ledger. Keys: the scopes. Arguments: `{periods}`, those that were read; then
 * the `PackedCounts` of each scope. A ticket that is out of date changes nothing. The consumption is stored with the generation of its
 * ticket, so that instances that have seen different generations do not undo each other's reads.
 */
const STORE_COUNTS = `
for i, key in ipairs(KEYS) do
  local s, consumption = load(key), cjson.decode(ARGV[1 + i])
  if consumption.ticket ~= '' and s.ticket == consumption.ticket then
    for j, kind in ipairs(KINDS) do
      local is_current = call.periods[kind.window] == s.period[kind.window]
      if kind.window == 'minute' then s.settled[j] = s.settled[j] or consumption.settled[j] or nil
      elseif is_current then s.settled[j] = s.settled[j] + consumption.settled[j] end
      if s.is_new and OPEN_FIELDS[j] then
        redis.call('HSET', key, OPEN_FIELDS[j], text(is_current and consumption.reserved[j] or 0))
      end
    end
    if s.is_new then
      s.updated = now
      redis.call('HSET', key, FIELD.open_until, text(now + ${RESTORE_MS}))
    end
    redis.call('HDEL', key, FIELD.ticket, FIELD.is_new)
    forget_settled(key)
    redis.call('HSET', key, FIELD.generation, string.match(consumption.ticket, '%d+$'))
    save(s, consumption.lifetime)
  end
end
return 1
`;

/**
 * Replaces a reservation with what was used. Keys: the scopes. Arguments: `{id, periods, amounts, used}`, the ID of
 * the reservation, the periods of its admission, its amounts by unit and those used; then the `PackedLimits` of each scope at
 * its admission, `{}` if it had none. If the store has lost the reservation, nothing is returned to the buckets.
 */
const RELEASE = `
local period, amounts, used = call.periods, call.amounts, call.used
for i, key in ipairs(KEYS) do
  if redis.call('EXISTS', key) == 1 then
    local s, scope = load(key), cjson.decode(ARGV[1 + i])
    local stored = redis.call('HDEL', key, 'l' .. call.id) == 1
    if stored then adjust_reserved(s, -1, amounts, period) else read_again(s, now + ${RESTORE_MS}) end
    if s.ticket then redis.call('HSET', key, 'x' .. string.match(call.id, '/(.*)'), '1') end
    if scope.limits then refill(s, scope.limits) end
    for j, kind in ipairs(KINDS) do
      local limit = scope.limits and scope.limits[j]
      if limit and kind.window == 'minute' then
        local beyond = used[kind.unit] - math.min(amounts[kind.unit], limit[MOST])
        if not stored then beyond = math.max(0, beyond) end
        s.settled[j] = s.settled[j] and math.max(0, s.settled[j] + beyond * ${PARTS})
      elseif s.period[kind.window] and period[kind.window] == s.period[kind.window] then
        s.settled[j] = s.settled[j] + used[kind.unit]
      end
    end
    save(s, scope.lifetime or math.max(redis.call('PTTL', key), 60000))
  end
end
return 1
`;

/**
 * Stores the reservations of an instance that are not in the store yet, and releases those of the dead instance.
 * Keys: one scope. Arguments: `{instance, lease, dead, lifetime}`, `dead` being `''` if there is none and `lifetime` -1 if the
 * scope is not to be created; then pairs of a reservation's ID and amounts.
 */
const RESTORE_RESERVATIONS = `
local s = load(KEYS[1])
if not s.exists then
  if call.lifetime < 0 then return 0 end
  redis.call('HSET', KEYS[1], FIELD.is_new, '1')
end
release_dead(s, call.dead)
for i = 2, #ARGV, 2 do
  if redis.call('HSETNX', KEYS[1], 'l' .. ARGV[i], ARGV[i + 1]) == 1 then
    adjust_stored(s, 1, ARGV[i + 1])
    read_again(s, now + ${RESTORE_MS})
  end
end
renew(s, call.instance, call.lease)
save(s, math.max(redis.call('PTTL', KEYS[1]), call.lifetime))
return 1
`;

/**
 * The heartbeat of an instance. Keys: the instances, the generation. Argument: `{instance, lasts, raise}`, how
 * long the instance lasts and whether to raise the generation. Returns the generation and the number of instances.
 */
const HEARTBEAT = `
redis.call('ZADD', KEYS[1], text(now + call.lasts), call.instance)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - 1)
redis.call('PEXPIRE', KEYS[1], 86400000)
local generation = tonumber(redis.call('GET', KEYS[2]))
if not generation then generation = now elseif call.raise then generation = math.max(generation + 1, now) end
redis.call('SET', KEYS[2], text(generation), 'PX', 86400000)
return {generation, redis.call('ZCARD', KEYS[1])}
`;

/** Sets `now`, in milliseconds, to the time of the store. */
const STORE_CLOCK = `
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)`;

export interface Scripts {
  readonly admit: Script;
  readonly storeCounts: Script;
  readonly release: Script;
  readonly restoreReservations: Script;
  readonly heartbeat: Script;
}

/**
 * Returns the scripts. Their first argument is an object in JSON, which they read as `call`. `clock` is Lua that sets `now`,
 * in milliseconds; tests pass a clock that they move themselves.
 */
export function limitScripts(clock = STORE_CLOCK): Scripts {
  return {
    admit: script(clock, ADMIT),
    storeCounts: script(clock, STORE_COUNTS),
    release: script(clock, RELEASE),
    restoreReservations: script(clock, RESTORE_RESERVATIONS),
    heartbeat: script(clock, HEARTBEAT),
  };
}

function script(clock: string, body: string): Script {
  return scriptOf(`${clock}${PRELUDE}\nlocal call = cjson.decode(ARGV[1])${body}`);
}

/** Returns a Lua script with its checksum, which identifies it in the store. */
export function scriptOf(text: string): Script {
  return { text, sha: createHash('sha1').update(text).digest('hex') };
}
