-- The token bucket of one agent, by Redis's clock.
--
-- KEYS[1]  quota:<agent>:tokens, a hash of tokens (float) and last_refill (Unix seconds, float)
-- ARGV     capacity, tokens a second, tokens wanted, seconds after which it may be forgotten
--
-- Answers 1 or 0. With 0 wanted it writes nothing and answers what the bucket holds, as text.
local capacity, rate, wanted = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local time = redis.call('TIME')
local now = time[1] + time[2] / 1e6

-- nil for what is no number, or nan, or infinite.
local function read(text)
  local number = tonumber(text)
  return number and number - number == 0 and number or nil
end
local function written(number) return string.format('%.17g', number) end

local stored = redis.call('HMGET', KEYS[1], 'tokens', 'last_refill')
local tokens, last = capacity, now
if stored[1] or stored[2] then
  -- Nothing is minted out of what cannot be read: no tokens, earned since now.
  tokens, last = math.max(read(stored[1]) or 0, 0), read(stored[2]) or now
  -- Another writer's clock may be ahead. Setting last_refill back would let it earn the difference
  -- again each time, so it stays, and the bucket rests until then; further ahead than the worst
  -- mistake about time zones it is no time at all.
  if last > now + 86400 then last = now end
  tokens = math.min(capacity, tokens + math.max(now - last, 0) * rate)
  last = math.max(last, now)
end
if wanted == 0 then return written(tokens) end

local admitted = tokens >= wanted
if admitted then tokens = tokens - wanted end
redis.call('HSET', KEYS[1], 'tokens', written(tokens), 'last_refill', written(last))
redis.call('EXPIRE', KEYS[1], ARGV[4] + math.ceil(last - now))
return admitted and 1 or 0
