-- One judge's budget for many processes: what was taken in each of the last sixty-one seconds, by this
-- server's clock. Sixty-one, since a second counts until the last moment of it is sixty seconds old.
--
-- KEYS  1 the window: a hash of a field a second, `sum` over them, `from` (the oldest that may be there),
--         `born` (a name for this window: another one means that Redis has forgotten) and `quiet`
--       2 what was spent for good
-- A field holds: calls, tokens, money, calls in flight, their estimated tokens, what those cost, what is
-- held for them, requests that came. Money is in billionths, so that sums are exact.

local WINDOW, POLL_MS, KEEP_S, QUIET_S = 61, 20, 3600, 2
local CALLS, TOKENS, MONEY, OPEN, OPEN_TOKENS, OPEN_COST, HELD, CAME = 1, 2, 3, 4, 5, 6, 7, 8
local key, total = KEYS[1], KEYS[2]

local function read(text)
  local values, n = {0, 0, 0, 0, 0, 0, 0, 0}, 0
  for number in string.gmatch(text or '', '%-?%d+') do
    n = n + 1
    values[n] = tonumber(number)
  end
  return values
end

local function written(values)
  local parts = {}
  for n = 1, 8 do parts[n] = string.format('%.0f', values[n]) end
  return table.concat(parts, ' ')
end

local function add(values, more, sign)
  for n = 1, 8 do values[n] = values[n] + sign * (more[n] or 0) end
end

local arg = {}
for n = 2, #ARGV do arg[n - 1] = tonumber(ARGV[n]) or 0 end

local time = redis.call('TIME')
local now = tonumber(time[1])
local head = redis.call('HMGET', key, 'sum', 'from', 'born', 'quiet')
local sum, from, born, quiet = read(head[1]), tonumber(head[2]), head[3], tonumber(head[4]) or 0
if not (from and born) or from > now then -- nothing yet, or the clock was set back
  if from or born then redis.call('DEL', key) end
  sum, from, born, quiet = read(nil), now, time[1] .. '.' .. time[2], 0
end

local limited_for_good = arg[1] > 0
local known = ARGV[3] -- the window that the caller knows
local spent, spent_before = 0, nil
if limited_for_good then
  spent_before = tonumber(redis.call('GET', total))
  spent = math.max(spent_before or 0, tonumber(ARGV[4]))
  -- Evicted, and the window was not: nothing is granted until all could bring the sum that they know.
  if head[3] and not spent_before then quiet = now + QUIET_S end
end

local at = from
while at <= now - WINDOW do
  local old = redis.call('HGET', key, at)
  if old then
    local values = read(old)
    add(sum, values, -1)
    spent = spent + values[HELD] -- of processes that have ended: as it was expected
    redis.call('HDEL', key, at)
  end
  at = at + 1
end
from = at

local function keep(second, values)
  local fields = {'sum', written(sum), 'from', from, 'born', born, 'quiet', quiet}
  if second then
    fields[9], fields[10] = second, written(values)
  end
  if redis.call('HSET', key, unpack(fields)) > 0 then redis.call('EXPIRE', key, KEEP_S) end
  if limited_for_good and spent ~= spent_before then
    redis.call('SET', total, string.format('%.0f', math.max(0, spent)))
  end
end

local function book(second, more)
  local values = read(redis.call('HGET', key, second))
  add(values, more, 1)
  add(sum, more, 1)
  return values
end

if ARGV[1] == 'settle' then
  -- 4 second, 5 estimated tokens, 6 held, 7 estimated cost, 8 tokens, 9 money it took
  local second, tokens, held, cost = arg[4], arg[5], arg[6], arg[7]
  if known ~= born then -- not booked here
    spent = spent + arg[9]
    keep()
  elseif second < from then -- left the window, and was booked as expected
    spent = spent + arg[9] - held
    keep()
  else
    spent = spent + arg[9]
    keep(second, book(second, {0, arg[8] - tokens, arg[9] - held, -1, -tokens, -cost, -held}))
  end
  return 1
end

-- 4-6 calls, tokens, money a minute (0: no limit), 7 tokens, 8 held, 9 estimated cost, 10 how far above
-- its estimate a call may be, 11 what it may take at most for all that is known, 12 whether it is known
-- what calls cost, 13 whether to wait for calls in flight, 14 requests that came,
-- 15-18 calls, tokens, money, requests of the caller in the last minute, by its own books
local now_values = {0, 0, 0, 0, 0, 0, 0, arg[14]}
if known ~= '' and known ~= born and (arg[15] > 0 or arg[18] > 0) then
  -- Redis has forgotten: each process brings what is its own, and nothing is granted until all could.
  add(now_values, {arg[15], arg[16], arg[17], 0, 0, 0, 0, arg[18]}, 1)
  quiet = now + QUIET_S
end

local function until_room()
  local tokens, held = arg[7], arg[8]
  if limited_for_good then
    local first = sum[OPEN] == 0 and arg[12] == 0
    if spent >= arg[1] or (spent + held > arg[1] and not first) then return -1 end
    if sum[OPEN] > 0 and spent + sum[HELD] + held > arg[1] then return POLL_MS end
  end
  if (arg[5] > 0 and tokens > arg[5]) or (arg[6] > 0 and held > arg[6]) then return -1 end
  if now < quiet then return 1000 end
  if (arg[4] > 0 and sum[CALLS] + 1 > arg[4])
    or (arg[5] > 0 and sum[TOKENS] + tokens > arg[5])
    or (arg[6] > 0 and sum[CALLS] > 0 and sum[MONEY] + held > arg[6]) then
    local oldest = from
    while oldest < now and redis.call('HEXISTS', key, oldest) == 0 do oldest = oldest + 1 end
    return math.max(1, (oldest + WINDOW - now) * 1000 - math.floor(tonumber(time[2]) / 1000))
  end
  return 0
end

local function surely_fits()
  -- Estimates may be wrong, and those of many calls in flight are wrong together; one alone may be.
  if sum[OPEN] == 0 then return true end
  local cost = sum[OPEN_COST] + arg[9]
  return (arg[1] == 0 or spent + arg[11] * cost <= arg[1])
    and (arg[5] == 0 or sum[TOKENS] + arg[7] + arg[10] * (sum[OPEN_TOKENS] + arg[7]) <= arg[5])
    and (arg[6] == 0 or sum[MONEY] + arg[8] + arg[10] * cost <= arg[6])
end

add(sum, now_values, 1)
local wait = until_room()
if wait == 0 and arg[13] == 1 and not surely_fits() then wait = POLL_MS end
add(sum, now_values, -1)
if wait == 0 then
  add(now_values, {1, arg[7], arg[8], 1, arg[7], arg[9], arg[8], 0}, 1)
end
local values = book(now, now_values)
keep(now, values)
return {wait, now, born, string.format('%.0f', spent), sum[CAME]}
