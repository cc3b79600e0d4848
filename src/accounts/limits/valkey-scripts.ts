import { createHash } from 'node:crypto';
import { UNITS } from './scope-limits.ts';

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

/**
 * Each scope of an account is one hash. A script works on the scopes of one account, which share a slot in a
 * cluster because the account ID is the hash tag. Fields:
 *
 * - `ds`, `ms`, `ns`: settled tokens of the day and of the month, and nano-dollars of the month
 * - `g`: the generation in which these three were read from the ledger; if missing, they contain only what was settled
 * since they were last reset
 * - `w`: the ticket of the read in progress, `<start in milliseconds> <generation>`
 * - `b`: set if the hash is new, so that `STORE_USAGE` also restores the buckets and the reservations of open rows
 * - `d`, `m`: the UTC day and month of the counters; `dh`, `mh`, `nh`: the same three amounts reserved by running
 * requests
 * - `rs`, `ts`: used units of the request and token buckets, as of the millisecond `at`; `f`: running requests
 * - `od`, `om`, `on`: the same three amounts reserved by open rows of the ledger, counted until the millisecond `ou`
 * - `l<instance>/<request>`: the reservation of one running request, `tokens nano day month`; deleted when it
 * is settled
 * - `x<request>`: a request that was settled during the read in progress
 * - `v`: the millisecond from which the settled usage must be read again
 * - `cs`: the instances with reservations, and when their leases expire
 *
 * Numbers are doubles in Lua, exact below 2^53; `%.0f` formats all digits.
 */
const PRELUDE = `
local today = math.floor(now / 86400000)

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
local this_month = month_of(today)

-- Several numbers share an argument, because sending an argument costs more than splitting it here.
local function numbers(packed)
  local list = {}
  for number in string.gmatch(packed, '%S+') do list[#list + 1] = tonumber(number) end
  return list
end

local function text(number) return string.format('%.0f', number) end

local FIELDS = {'g','w','b','v','d','m','ds','ms','ns','dh','mh','nh','rs','ts','at','f','od','om','on','ou','cs'}

-- Returns a scope updated to this moment; 'exists': whether it is stored.
local function load(key)
  local values = redis.call('HMGET', key, unpack(FIELDS))
  local s = {key = key, cs = values[21] or '', w = values[2], b = values[3]}
  for i, name in ipairs(FIELDS) do
    if name ~= 'cs' and name ~= 'w' and name ~= 'b' then s[name] = tonumber(values[i]) end
  end
  s.exists = s.at ~= nil
  s.d, s.m, s.at = s.d or today, s.m or this_month, s.at or now
  for _, name in ipairs({'ds','ms','ns','dh','mh','nh','rs','ts','f','od','om','on','ou'}) do s[name] = s[name] or 0 end
  if s.ou < now then s.od, s.om, s.on = 0, 0, 0 end
  if s.d < today then s.d, s.ds, s.dh, s.od = today, 0, 0, 0 end
  if s.m < this_month then s.m, s.ms, s.ns, s.mh, s.nh, s.om, s.on = this_month, 0, 0, 0, 0, 0, 0 end
  return s
end

local function refill(s, requests_a_minute, tokens_a_minute)
  local passed = math.max(0, now - s.at)
  s.rs = requests_a_minute < 0 and 0 or math.max(0, s.rs - passed * requests_a_minute)
  s.ts = tokens_a_minute < 0 and 0 or math.max(0, s.ts - passed * tokens_a_minute)
  s.at = now
end

local function adjust_reserved(s, sign, tokens, nano, day, month)
  s.f = s.f + sign
  if day == s.d then s.dh = s.dh + sign * tokens end
  if month == s.m then s.mh, s.nh = s.mh + sign * tokens, s.nh + sign * nano end
end

local function save(s, ttl)
  redis.call('HSET', s.key, 'd', s.d, 'm', s.m, 'ds', text(s.ds), 'ms', text(s.ms), 'ns', text(s.ns),
    'dh', text(s.dh), 'mh', text(s.mh), 'nh', text(s.nh), 'rs', text(s.rs), 'ts', text(s.ts), 'at', text(s.at),
    'f', s.f, 'cs', s.cs)
  redis.call('PEXPIRE', s.key, ttl)
end

-- Schedules another read of the settled usage for 'at'. A read excludes the requests whose reservations are stored,
-- because the store counts these when they are settled. If a reservation was restored, released or lost, its
-- request may have been counted twice or not at all.
local function read_again(s, at)
  if s.v and s.v <= at then return end
  s.v = at
  redis.call('HSET', s.key, 'v', text(at))
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
  for instance, expires in string.gmatch(s.cs, '(%S+) (%d+)') do
    if instance == dead or tonumber(expires) < now then expired = expired or {}; expired[instance] = true
    else live[#live + 1] = instance .. ' ' .. expires end
  end
  if not expired then return false end
  s.cs = table.concat(live, ' ')
  local all = redis.call('HGETALL', s.key)
  for i = 1, #all, 2 do
    local instance = string.match(all[i], '^l(.+)/')
    if instance and expired[instance] then
      local t, n, d, m = string.match(all[i + 1], '(%d+) (%d+) (%d+) (%d+)')
      adjust_reserved(s, -1, tonumber(t), tonumber(n), tonumber(d), tonumber(m))
      redis.call('HDEL', s.key, all[i])
      read_again(s, now)
    end
  end
  return true
end

-- Renews the lease of an instance, unless most of it is left.
local function renew(s, instance, lease)
  local kept = {}
  for other, expires in string.gmatch(s.cs, '(%S+) (%d+)') do
    if other == instance and tonumber(expires) - now > lease * 0.7 then return end
    if other ~= instance then kept[#kept + 1] = other .. ' ' .. expires end
  end
  kept[#kept + 1] = instance .. ' ' .. text(now + lease)
  s.cs = table.concat(kept, ' ')
end
`;

/**
 * Reserves a request if all limits have room (`take`), or only reads the counters (`look`). Keys: the scopes.
 * Arguments: mode (`take`, `look`), generation, instance, its lease, ID of the reservation, tokens, nano-dollars; then
 * one per scope: capacity and rate of requests, capacity and rate of tokens and the maximum reserved per request,
 * requests in flight, tokens per day and per month, nano-dollars, lifetime. -1: no such limit.
 *
 * Returns a list: the verdict (1: room; 0: no room; -1: settled usage unknown), milliseconds, day, month, then the
 * counters of each scope. For -1, the counters are replaced by the list of the IDs of the requests that the store
 * counts itself, and the `STORE_USAGE` ticket of each scope (`''`: its usage is known).
 */
const ADMIT = `
local mode, generation, instance, lease, name = ARGV[1], tonumber(ARGV[2]), ARGV[3], tonumber(ARGV[4]), ARGV[5]
local tokens, nano = tonumber(ARGV[6]), tonumber(ARGV[7])
local scopes, unknown, room = {}, false, true
for i, key in ipairs(KEYS) do
  local s, limits = load(key), numbers(ARGV[7 + i])
  s.limits, scopes[i] = limits, s
  refill(s, limits[2], limits[4])
  if s.exists and release_dead(s, nil) then save(s, limits[10]) end
  s.stale = not s.g or s.g < generation or (s.v and s.v <= now)
  if s.stale then unknown = true end
  local taken = limits[5] < 0 and 0 or math.min(tokens, limits[5])
  if (limits[1] >= 0 and s.rs + ${UNITS} > limits[1] * ${UNITS})
    or (limits[3] >= 0 and s.ts + taken * ${UNITS} > limits[3] * ${UNITS})
    or (limits[6] >= 0 and s.f >= limits[6])
    or (limits[7] >= 0 and s.ds + s.od + s.dh + tokens > limits[7])
    or (limits[8] >= 0 and s.ms + s.om + s.mh + tokens > limits[8])
    or (limits[9] >= 0 and s.ns + s.on + s.nh + nano > limits[9])
  then room = false end
  s.taken = taken
end

local result = {room and 1 or 0, now, today, this_month}
if unknown then
  result[1] = -1
  local counted, seen = {}, {}
  for i, s in ipairs(scopes) do
    local ticket = ''
    if s.stale then
      local started, generation_read = string.match(s.w or '', '(%d+) (%d+)')
      ticket = s.w
      if s.g or not ticket or now - tonumber(started) > ${READING_MS} or tonumber(generation_read) < generation then
        ticket = text(now) .. ' ' .. text(generation)
        s.ds, s.ms, s.ns = 0, 0, 0
        redis.call('HDEL', s.key, 'g', 'v')
        redis.call('HSET', s.key, 'w', ticket)
        forget_settled(s.key)
        if not s.exists then redis.call('HSET', s.key, 'b', '1') end
        save(s, s.limits[10])
      end
      for _, field in ipairs(redis.call('HKEYS', s.key)) do
        local request = string.match(field, '^l.*/(.*)') or string.match(field, '^x(.*)')
        if request and not seen[request] then seen[request] = true; counted[#counted + 1] = request end
      end
    end
    result[5 + i] = ticket
  end
  result[5] = counted
  return result
end

for i, s in ipairs(scopes) do
  if room and mode == 'take' then
    if s.limits[1] >= 0 then s.rs = s.rs + ${UNITS} end
    if s.limits[3] >= 0 then s.ts = s.ts + s.taken * ${UNITS} end
    adjust_reserved(s, 1, tokens, nano, s.d, s.m)
    renew(s, instance, lease)
    redis.call('HSET', s.key, 'l' .. name, text(tokens) .. ' ' .. text(nano) .. ' ' .. text(s.d) .. ' ' .. text(s.m))
    save(s, s.limits[10])
  end
  result[4 + i] = {s.rs, s.ts, s.f, s.ds, s.dh + s.od, s.ms, s.mh + s.om, s.ns, s.nh + s.on}
end
return result
`;

/**
 * Stores the usage read from the ledger. Keys: the scopes. Arguments: the day and month that were read; then two per
 * scope: its ticket, and settled tokens of the day and of the month, nano-dollars, the same three of open rows, used
 * units of the request and token buckets, lifetime. A ticket that is out of date changes nothing. The usage is stored
 * with the generation of its ticket, so that instances that have seen different generations do not undo each other's
 * reads.
 */
const STORE_USAGE = `
local day, month = tonumber(ARGV[1]), tonumber(ARGV[2])
for i, key in ipairs(KEYS) do
  local s, ticket, a = load(key), ARGV[1 + 2 * i], numbers(ARGV[2 + 2 * i])
  if ticket ~= '' and s.w == ticket then
    if s.d == day then s.ds = s.ds + a[1] end
    if s.m == month then s.ms, s.ns = s.ms + a[2], s.ns + a[3] end
    if s.b then
      s.rs, s.ts, s.at = s.rs + a[7], s.ts + a[8], now
      redis.call('HSET', key, 'od', text(s.d == day and a[4] or 0), 'om', text(s.m == month and a[5] or 0),
        'on', text(s.m == month and a[6] or 0), 'ou', text(now + ${RESTORE_MS}))
    end
    redis.call('HDEL', key, 'w', 'b')
    forget_settled(key)
    redis.call('HSET', key, 'g', string.match(ticket, '%d+$'))
    save(s, a[9])
  end
end
return 1
`;

/**
 * Replaces a reservation with what was used. Keys: the scopes. Arguments: ID of the reservation; its day and month,
 * tokens and nano-dollars used, and whether the request counts (1, or 0: it is returned to the request bucket); then
 * one per scope: rates of requests and tokens, tokens reserved from the bucket, lifetime (-1: it had no limits). If the
 * store has lost the reservation, nothing is returned to the buckets.
 */
const SETTLE = `
local name, used = ARGV[1], numbers(ARGV[2])
local day, month, tokens, nano, counts = unpack(used)
for i, key in ipairs(KEYS) do
  if redis.call('EXISTS', key) == 1 then
    local s = load(key)
    local rate_r, rate_t, taken, ttl = unpack(numbers(ARGV[2 + i]))
    local reservation = redis.call('HGET', key, 'l' .. name)
    if reservation then
      local t, n = string.match(reservation, '(%d+) (%d+)')
      adjust_reserved(s, -1, tonumber(t), tonumber(n), day, month)
      redis.call('HDEL', key, 'l' .. name)
    else read_again(s, now + ${RESTORE_MS}) end
    if s.w then redis.call('HSET', key, 'x' .. string.match(name, '/(.*)'), '1') end
    if day == s.d then s.ds = s.ds + tokens end
    if month == s.m then s.ms, s.ns = s.ms + tokens, s.ns + nano end
    if ttl >= 0 then
      refill(s, rate_r, rate_t)
      if reservation and counts == 0 then s.rs = math.max(0, s.rs - ${UNITS}) end
      if rate_t >= 0 then
        local beyond = tokens - taken
        if not reservation then beyond = math.max(0, beyond) end
        s.ts = math.max(0, s.ts + beyond * ${UNITS})
      end
    else
      ttl = math.max(redis.call('PTTL', key), 60000)
    end
    save(s, ttl)
  end
end
return 1
`;

/**
 * Stores the reservations of an instance that are not in the store yet, and releases those of the dead instance.
 * Keys: one scope. Arguments: instance, its lease, dead instance or `''`, lifetime (-1: do not create the scope); then
 * pairs of a reservation's ID and amounts.
 */
const RESTORE_RESERVATIONS = `
local instance, lease, dead, ttl = ARGV[1], tonumber(ARGV[2]), ARGV[3], tonumber(ARGV[4])
local s = load(KEYS[1])
if not s.exists then
  if ttl < 0 then return 0 end
  redis.call('HSET', KEYS[1], 'b', '1')
end
release_dead(s, dead)
for i = 5, #ARGV, 2 do
  if redis.call('HSETNX', KEYS[1], 'l' .. ARGV[i], ARGV[i + 1]) == 1 then
    local t, n, d, m = string.match(ARGV[i + 1], '(%d+) (%d+) (%d+) (%d+)')
    adjust_reserved(s, 1, tonumber(t), tonumber(n), tonumber(d), tonumber(m))
    read_again(s, now + ${RESTORE_MS})
  end
end
renew(s, instance, lease)
save(s, math.max(redis.call('PTTL', KEYS[1]), ttl))
return 1
`;

/**
 * The heartbeat of an instance. Keys: the instances, the generation. Arguments: instance, milliseconds until it
 * expires, 1 to raise the generation. Returns the generation and the number of instances.
 */
const HEARTBEAT = `
redis.call('ZADD', KEYS[1], now + tonumber(ARGV[2]), ARGV[1])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - 1)
redis.call('PEXPIRE', KEYS[1], 86400000)
local generation = tonumber(redis.call('GET', KEYS[2]))
if not generation then generation = now elseif ARGV[3] == '1' then generation = math.max(generation + 1, now) end
redis.call('SET', KEYS[2], text(generation), 'PX', 86400000)
return {generation, redis.call('ZCARD', KEYS[1])}
`;

/** Sets `now`, in milliseconds, to the time of the store. */
const STORE_CLOCK = `
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)`;

export interface Scripts {
  readonly admit: Script;
  readonly storeUsage: Script;
  readonly settle: Script;
  readonly restoreReservations: Script;
  readonly heartbeat: Script;
}

/**
 * Returns the scripts. `clock` is Lua that sets `now`, in milliseconds; tests pass a clock that they move themselves.
 */
export function limitScripts(clock = STORE_CLOCK): Scripts {
  return {
    admit: script(clock, ADMIT),
    storeUsage: script(clock, STORE_USAGE),
    settle: script(clock, SETTLE),
    restoreReservations: script(clock, RESTORE_RESERVATIONS),
    heartbeat: script(clock, HEARTBEAT),
  };
}

function script(clock: string, body: string): Script {
  return scriptOf(clock + PRELUDE + body);
}

/** Returns a Lua script with its checksum, which identifies it in the store. */
export function scriptOf(text: string): Script {
  return { text, sha: createHash('sha1').update(text).digest('hex') };
}
