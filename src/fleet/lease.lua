-- The book of leases of one gate: decides one LeaseCall (lease.h says what is promised).
--
-- KEYS[1]  q:{gate}:s, a hash of decimal numbers:
--            last, run, quarantine   the clock, the server's run id, until when nothing is granted
--            l:<limit>               kind, amount, period, burst | its state; of slots s:<limit>
--            x:<limit>:<slice>       units of a log's slice
--            n:<node>                its last sequence and answer
--            h:<node>                the slots it has, by limit (MessagePack)
-- KEYS[2]  q:{gate}:l, a sorted set: nodes by their last word
-- ARGV and the answer: redis_book.cc writes and reads them.
--
-- All numbers are whole and below 2^53, since Lua counts in doubles. Amounts are at most
-- AMOUNT_MAX (kAmountMax), so counts with their debts at most twice that; instants and spans are
-- at most LATEST, 2^52, so a sum of two is exact.
local clock = redis.call('TIME')
local AMOUNT_MAX, LATEST, EXACT_BELOW = 1e15, 2 ^ 52, 2 ^ 53
local floor, ceil, min, max = math.floor, math.ceil, math.min, math.max
local book, words = KEYS[1], KEYS[2]

-- The call. Nothing is written before all of it has been read.
local at, bad = 0, nil
local KINDS = {bucket = 1, window = 1, counter = 1, stepped = 1, log = 1, slots = 1}
local function text()
  at = at + 1
  if not ARGV[at] or ARGV[at] == '' then bad = bad or at end
  return ARGV[at] or ''
end
local function whole(most)
  at = at + 1
  if ARGV[at] == '0' then return 0 end
  local n = tonumber(ARGV[at])
  if n and n >= 0 and n <= most and n % 1 == 0 then return n end
  bad = bad or at
  return 0
end

local node, sequence, run = text(), whole(LATEST), text()
local distrust, member_ttl, keep = whole(LATEST), whole(LATEST), whole(LATEST)
local quarantine, expire = whole(LATEST), whole(LATEST)
local asks = {}
for i = 1, whole(1000) do
  local first = at
  local ask = {limit = text(), kind = text(), amount = whole(AMOUNT_MAX), period = whole(LATEST),
    burst = whole(AMOUNT_MAX), ttl = whole(LATEST), want = whole(AMOUNT_MAX),
    least = whole(AMOUNT_MAX), back = whole(AMOUNT_MAX), back_until = whole(LATEST),
    owed = whole(AMOUNT_MAX), held = whole(AMOUNT_MAX)}
  if whole(1) == 1 then ask.witness = {whole(LATEST), whole(LATEST), whole(LATEST)} end
  ask.ends = {}
  for k = 1, whole(1000) do ask.ends[k] = whole(LATEST) end
  if bad then break end
  ask.spec = table.concat(ARGV, ' ', first + 2, first + 5)
  local slots = ask.kind == 'slots'
  ask.key = (slots and 's:' or 'l:') .. ask.limit
  if not KINDS[ask.kind] or not ask.spec:find('^%a+ %d+ %d+ %d+$') or ask.amount == 0
      or (ask.period == 0 and not slots) or (ask.want > 0 and ask.least == 0)
      or (ask.kind == 'log' and ask.ttl > ask.period) then
    bad = at
  end
  asks[i] = ask
end
if bad or at ~= #ARGV or sequence == 0 then
  return redis.error_reply('LEASE malformed argument ' .. (bad or at))
end

local function decimal(n) return n == 0 and '0' or string.format('%.0f', n) end

local fields = {'last', 'run', 'quarantine', 'n:' .. node, 'h:' .. node}
for i, ask in ipairs(asks) do fields[5 + i] = ask.key end
local found = redis.call('HMGET', book, unpack(fields))

-- A clock that runs back mints nothing.
local now = max(clock[1] * 1e6 + clock[2], tonumber(found[1] or 0))
local now_text = decimal(now)

if found[4] then
  local last = found[4]:match('^%d+')
  if sequence < tonumber(last) then return now_text .. ' 0 0 1' end
  if sequence == tonumber(last) then
    redis.call('ZADD', words, now_text, node)
    return found[4]:sub(#last + 2)
  end
end

-- A server that is not the one before may have lost its last writes.
local new_run = found[2] and found[2] ~= run
local until_then = tonumber(found[3] or 0)
if new_run then
  until_then = max(until_then, now + quarantine)
elseif not found[2] and distrust > 0 then
  until_then = max(until_then, now + distrust)
end
local quarantined = until_then > now

-- a × b ÷ c, rounded. A product beyond 2^53 is not exact, but the error of a quotient below 2^52
-- is less than 1.
local function scaled_up(a, b, c)
  local product = a * b
  return min(ceil(product / c) + (product < EXACT_BELOW and 0 or 1), LATEST)
end
local function scaled_down(a, b, c)
  local product = a * b
  return min(max(floor(product / c) - (product < EXACT_BELOW and 0 or 1), 0), LATEST)
end

local function has_burst(limit) return limit.kind == 'bucket' or limit.kind == 'stepped' end
local function capacity(limit) return has_burst(limit) and limit.burst or limit.amount end

-- A log's slices are numbered by expiry ÷ width, and count until a period after their end.
local function width(limit) return ceil(limit.period / 400) end
local function first_slice(limit) return max(floor((now - limit.period) / width(limit)), 0) end
local function slice_field(limit, slice) return 'x:' .. limit.limit .. ':' .. decimal(slice) end

local function fresh(ask)
  local limit = {limit = ask.limit, spec = ask.spec, kind = ask.kind, amount = ask.amount,
    period = ask.period, burst = ask.burst, 0, 0, 0}
  if ask.kind == 'counter' or ask.kind == 'stepped' then
    limit[1] = now
  elseif ask.kind == 'log' then
    limit[1], limit[3] = first_slice(limit), first_slice(limit)
  end
  return limit
end

-- Removes the slices of a log from its oldest to `last`, and gives their sum.
local function drop_slices(limit, last)
  local sum, slices = 0, {}
  for slice = limit[1], min(last, limit[3]) do slices[#slices + 1] = slice_field(limit, slice) end
  if #slices == 0 then return 0 end
  for _, units in ipairs(redis.call('HMGET', book, unpack(slices))) do
    sum = sum + tonumber(units or 0)
  end
  redis.call('HDEL', book, unpack(slices))
  return sum
end

local function add_slice(limit, units, slice)
  units = max(min(units, limit.amount + AMOUNT_MAX - limit[2]), 0)
  redis.call('HINCRBY', book, slice_field(limit, slice), decimal(units))
  limit[2] = limit[2] + units
  limit[3] = max(limit[3], slice)
end

-- A counter's or a stepped bucket's state at `now`.
local function rolled(limit, state)
  local passed = max(floor((now - state[1]) / limit.period), 0)
  if passed == 0 then return state end
  local start = state[1] + passed * limit.period
  if limit.kind == 'counter' then return {start, 0, passed == 1 and state[2] or 0} end
  return {start, max(state[2] - passed * limit.amount, 0), state[3]}
end

local function roll(limit)
  if limit.kind == 'window' then
    if limit[1] <= now then limit[1], limit[2], limit[3] = 0, 0, 0 end
  elseif limit.kind == 'counter' or limit.kind == 'stepped' then
    limit[1], limit[2], limit[3] = unpack(rolled(limit, limit))
  elseif limit.kind == 'log' then
    local first = first_slice(limit)
    if first > limit[1] then
      limit[2] = limit[2] - drop_slices(limit, first - 1)
      limit[1] = first
      limit[3] = max(limit[3], first)
    end
  end
end

-- When the window, or the step, that a grant is made in ends; 0 if there is none.
local function end_of(limit, ends)
  if limit.kind == 'counter' or limit.kind == 'stepped' then return limit[1] + limit.period end
  if limit.kind ~= 'window' then return LATEST end
  if limit[1] > now then return limit[1] end
  if #ends == 0 then return now + limit.period end
  for _, instant in ipairs(ends) do
    if instant > now then return instant end
  end
  return 0
end

-- What is left.
local function free_of(limit)
  if limit.kind == 'bucket' then
    -- The worth of a whole burst is rounded up, since it is to fit: a microsecond's refill.
    local worth = scaled_up(limit.burst, limit.period, limit.amount)
    local room = worth - max(limit[1] - now, 0)
    if room < 0 then return -scaled_up(-room, limit.amount, limit.period) end
    local units = scaled_down(room, limit.amount, limit.period)
    if scaled_up(units, limit.period, limit.amount) > room then
      units = scaled_down(max(room - 2, 0), limit.amount, limit.period)
    end
    return min(units, limit.burst)
  end
  if limit.kind == 'counter' then
    local overlap = limit.period - max(now - limit[1], 0)
    return limit.amount - limit[2] - scaled_up(limit[3], overlap, limit.period)
  end
  return capacity(limit) - limit[2]
end

-- Units that are spent by `until_when`.
local function charge(limit, units, until_when, ends)
  if limit.kind == 'bucket' then
    local cost = scaled_up(units, limit.period, limit.amount)
    limit[1] = min(max(limit[1], now) + cost, LATEST)
  elseif limit.kind == 'log' then
    add_slice(limit, units, floor(until_when / width(limit)))
  else
    if limit.kind == 'window' then
      local ends_at = end_of(limit, ends)
      if ends_at == 0 then return end
      limit[1] = ends_at
    end
    limit[2] = min(limit[2] + units, capacity(limit) + AMOUNT_MAX)
  end
end

-- Unused units of a grant that would live until `until_when`.
local function credit(limit, units, until_when)
  if limit.kind == 'bucket' then
    if limit[1] > now then
      limit[1] = max(now, limit[1] - scaled_down(units, limit.period, limit.amount))
    end
  elseif limit.kind == 'log' then
    local field = slice_field(limit, floor(until_when / width(limit)))
    units = min(units, tonumber(redis.call('HGET', book, field) or 0))
    if units > 0 then redis.call('HINCRBY', book, field, decimal(-units)) end
    limit[2] = limit[2] - units
  elseif limit.kind ~= 'slots' then
    limit[2] = max(limit[2] - units, 0)
  end
end

-- The limit as `ask` has it. Windows and steps of the same length go on, and what was counted in
-- them stays counted; anything else begins with what the old one had left.
local function adapted(limit, ask)
  roll(limit)
  local same_kind = limit.kind == ask.kind
  local same_period = same_kind and limit.period == ask.period
  if limit.kind == 'slots'
      or (same_period and (limit.amount == ask.amount or not has_burst(limit))) then
    limit.spec, limit.amount, limit.burst = ask.spec, ask.amount, ask.burst
    return limit
  end
  local new = fresh(ask)
  if limit.kind == 'stepped' and same_period then new[1] = limit[1] end
  local left = same_kind and min(free_of(limit), capacity(new)) or 0
  if limit.kind == 'log' then drop_slices(limit, limit[3]) end
  charge(new, capacity(new) - left, now + ask.ttl, ask.ends)
  return new
end

-- The highest state that somebody has seen.
local function merge(limit, witness)
  if limit.kind == 'bucket' then
    limit[1] = max(limit[1], witness[1])
  elseif limit.kind == 'window' then
    if witness[1] > now then
      limit[1], limit[2] = max(limit[1], witness[1]), max(limit[2], witness[2])
    end
  elseif limit.kind == 'counter' or limit.kind == 'stepped' then
    witness = rolled(limit, witness)
    if witness[2] == 0 and witness[3] == 0 then return end
    -- Of two grids the later one: nothing fades or arrives early.
    local unused = limit[2] == 0 and limit[3] == 0
    for i = 1, 3 do limit[i] = unused and witness[i] or max(limit[i], witness[i]) end
  elseif limit.kind == 'log' then
    local newest = min(witness[3], floor((now + limit.period) / width(limit)))
    if newest >= limit[1] and witness[2] > limit[2] then
      add_slice(limit, witness[2] - limit[2], max(limit[3], newest, floor(now / width(limit))))
    end
  end
end

local limits = {}
local function read(key, stored, ask)
  local spec, a, b, c = stored:match('^(.*)|(%d+) (%-?%d+) (%d+)$')
  local limit = {limit = key:sub(3), spec = spec, tonumber(a), tonumber(b), tonumber(c)}
  if ask and ask.spec == spec then
    limit.kind, limit.amount = ask.kind, ask.amount
    limit.period, limit.burst = ask.period, ask.burst
  else
    local kind, amount, period, burst = spec:match('^(%a+) (%d+) (%d+) (%d+)$')
    limit.kind, limit.amount = kind, tonumber(amount)
    limit.period, limit.burst = tonumber(period), tonumber(burst)
  end
  limits[key] = limit
  return limit
end
for i, ask in ipairs(asks) do
  local stored = found[5 + i]
  if stored and not limits[ask.key] then read(ask.key, stored, ask) end
end

-- The members; whoever has been silent for too long has nothing any more.
redis.call('ZADD', words, now_text, node)
local members = redis.call('ZCOUNT', words, decimal(now - member_ttl), '+inf')
local silent = {}
if redis.call('ZCARD', words) > members then
  silent = redis.call('ZRANGEBYSCORE', words, '-inf', '(' .. decimal(now - keep))
end
for _, gone in ipairs(silent) do
  local slots = redis.call('HGET', book, 'h:' .. gone)
  for limit, units in pairs(slots and cmsgpack.unpack(slots) or {}) do
    local key = 's:' .. limit
    local loaded = limits[key] or read(key, redis.call('HGET', book, key))
    loaded[2] = loaded[2] - units
  end
  redis.call('HDEL', book, 'n:' .. gone, 'h:' .. gone)
  redis.call('ZREM', words, gone)
end

local had = found[5] and cmsgpack.unpack(found[5]) or {}
local has = {}  -- slots, as this call says it
for _, ask in ipairs(asks) do
  local limit = limits[ask.key]
  limit = limit and adapted(limit, ask) or fresh(ask)
  limits[ask.key] = limit
  if ask.witness then merge(limit, ask.witness) end
  if ask.back_until > now and not new_run and not quarantined then
    credit(limit, ask.back, ask.back_until)
  end
  if ask.kind == 'slots' then
    if not has[ask.limit] then limit[2] = limit[2] - (had[ask.limit] or 0) end
    has[ask.limit] = (has[ask.limit] or 0) + ask.held
    limit[2] = limit[2] + ask.held
  elseif ask.owed > 0 then
    charge(limit, ask.owed, now, ask.ends)
  end

  ask.units, ask.expires = 0, 0
  if not quarantined and ask.want > 0 then
    local free, ends_at = free_of(limit), end_of(limit, ask.ends)
    local share = floor(free / (2 * members))
    if ask.kind == 'bucket' then
      share = floor(free / members)
    elseif ask.kind == 'slots' then
      share = members == 1 and free or floor(free / 2)
    end
    local units = min(ask.want, max(ask.least, share))
    if units <= free and units >= ask.least and ends_at > 0 then
      ask.units, ask.expires = units, min(now + ask.ttl, ends_at)
      charge(limit, units, ask.expires, ask.ends)
      if ask.kind == 'slots' then has[ask.limit] = has[ask.limit] + units end
    elseif ask.kind == 'slots' and has[ask.limit] < ceil(limit.amount / members) then
      limit[3] = now
    end
  end
end

local states = {}
for key, limit in pairs(limits) do
  states[key] = decimal(limit[1]) .. ' ' .. decimal(limit[2]) .. ' ' .. decimal(limit[3])
end
local answer = {now_text, decimal(members), decimal(max(until_then - now, 0)), '0'}
for i, ask in ipairs(asks) do
  answer[4 * i + 1] = decimal(ask.units)
  answer[4 * i + 2] = decimal(ask.expires)
  answer[4 * i + 3] = decimal(free_of(limits[ask.key]))
  answer[4 * i + 4] = states[ask.key]
end
answer = table.concat(answer, ' ')

local stored = {'last', now_text, 'run', run, 'quarantine', decimal(until_then),
  'n:' .. node, decimal(sequence) .. ' ' .. answer}
for key, limit in pairs(limits) do
  stored[#stored + 1] = key
  stored[#stored + 1] = limit.spec .. '|' .. states[key]
end
if next(has) then
  for limit, units in pairs(has) do had[limit] = units end
  stored[#stored + 1] = 'h:' .. node
  stored[#stored + 1] = cmsgpack.pack(had)
end
redis.call('HSET', book, unpack(stored))
local milliseconds = decimal(ceil(expire / 1000))
redis.call('PEXPIRE', book, milliseconds)
redis.call('PEXPIRE', words, milliseconds)
return answer
