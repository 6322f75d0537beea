/**
 * The operations of turn.ts in Lua, so that Redis does a whole turn at once. The conformance suite holds both to the
 * same answers.
 */

import { LASTING } from "./reservation-id.js";

/**
 * KEYS[1]: prefix of all keys. ARGV: owner, lease in ms, the time in ms since 1970 ("": Redis's own clock), operations
 * as JSON. Numbers are formatted by hand, since Lua writes those above 10¹⁴ with fewer digits.
 */
export const TURN_SCRIPT = `
local prefix, owner, leaseMs = KEYS[1], ARGV[1], tonumber(ARGV[2])
local now = tonumber(ARGV[3])
if now == nil then
  local time = redis.call('TIME')
  now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
end
local MAX, UNITS, HOUR = 9000000000000000, 60000, 3600000
local DAY = 24 * HOUR
local function text(number) return string.format('%.0f', number) end

-- Days since 1970 of the first day of a month, and the month of a day (the proleptic Gregorian calendar, years that begin in March).
local function firstDay(year, month)
  if month <= 2 then year = year - 1 end
  local era = math.floor(year / 400)
  local yearOfEra = year - era * 400
  local dayOfYear = math.floor((153 * ((month + 9) % 12) + 2) / 5)
  return era * 146097 + yearOfEra * 365 + math.floor(yearOfEra / 4) - math.floor(yearOfEra / 100) + dayOfYear - 719468
end
local function monthOf(day)
  local shifted = day + 719468
  local era = math.floor(shifted / 146097)
  local dayOfEra = shifted - era * 146097
  local yearOfEra = math.floor((dayOfEra - math.floor(dayOfEra / 1460) + math.floor(dayOfEra / 36524)
    - math.floor(dayOfEra / 146096)) / 365)
  local dayOfYear = dayOfEra - (365 * yearOfEra + math.floor(yearOfEra / 4) - math.floor(yearOfEra / 100))
  local index = math.floor((5 * dayOfYear + 2) / 153)
  local month = index < 10 and index + 3 or index - 9
  return yearOfEra + era * 400 + (month <= 2 and 1 or 0), month
end
local function unitOf(key) return string.sub(key, -7) == '-tokens' and 'tokens' or 'money' end
local function windowOf(key) return (string.gsub(string.match(key, '[^/]*$'), '%-tokens$', '')) end
local function windowStart(window)
  if window == 'hour' then return now - now % HOUR end
  if window == 'day' then return now - now % DAY end
  if window == 'total' then return 0 end
  local year, month = monthOf(math.floor(now / DAY))
  return firstDay(year, month) * DAY
end
local function windowEnd(window, start)
  if window == 'hour' then return start + HOUR end
  if window == 'day' then return start + DAY end
  local year, month = monthOf(math.floor(start / DAY))
  if month == 12 then year, month = year + 1, 0 end
  return firstDay(year, month + 1) * DAY
end
local function untilEnd(window, start)
  if window == 'total' then return 0 end
  return math.max(0, windowEnd(window, start) - now)
end
-- Longer than the window, or than the bucket takes to fill: an expired meter equals a new one. 0: it does not expire.
local LIVES = { hour = 2 * DAY, day = 3 * DAY, month = 65 * DAY, total = 0 }

local meters, changed = {}, {}
local function meter(key)
  local found = meters[key]
  if found == nil then
    local values = redis.call('HMGET', prefix .. ':m:' .. key, 'at', 'used', 'held')
    found = { at = tonumber(values[1]) or 0, used = tonumber(values[2]) or 0, held = tonumber(values[3]) or 0 }
    meters[key] = found
  end
  return found
end
local function write()
  for key, life in pairs(changed) do
    local m = meters[key]
    redis.call('HSET', prefix .. ':m:' .. key, 'at', text(m.at), 'used', text(m.used), 'held', text(m.held))
    if life > 0 then redis.call('PEXPIRE', prefix .. ':m:' .. key, text(life)) end
  end
end
-- Both return what a meter is now. It is written only with the change that follows.
local function rolled(key)
  local m = meter(key)
  local start = windowStart(windowOf(key))
  if start <= m.at then return m end
  return { at = start, used = 0, held = m.held }
end
local function refilled(key, limit)
  local m = meter(key)
  if now <= m.at then return m end
  return { at = now, used = math.max(0, m.used - (now - m.at) * limit), held = 0 }
end
local function setBudget(key, used, held)
  meters[key] = { at = rolled(key).at, used = math.min(MAX, used), held = math.max(0, held) }
  changed[key] = LIVES[windowOf(key)]
end
local function take(key, limit, count)
  local m = refilled(key, limit)
  meters[key] = { at = m.at, used = math.max(0, m.used + count * UNITS), held = 0 }
  m = meters[key]
  changed[key] = 2 * UNITS + (limit > 0 and math.ceil(m.used / limit) or 0)
end
local function place(key, by)
  local m = meter(key)
  m.held = math.max(0, m.held + by)
  changed[key] = 0
end
local function waitMs(m, limit, count)
  if limit == 0 then return UNITS end
  return math.max(0, math.ceil((m.used + count * UNITS - limit * UNITS) / limit))
end

local function levels(claims)
  local result = { {}, {}, {}, {} }
  for _, claim in ipairs(claims.budgets) do
    local m = rolled(claim[1])
    table.insert(result[1], { m.used, m.held, m.at })
  end
  for _, claim in ipairs(claims.requests) do table.insert(result[2], refilled(claim[1], claim[2]).used) end
  for _, claim in ipairs(claims.tokens) do table.insert(result[3], refilled(claim[1], claim[2]).used) end
  for _, claim in ipairs(claims.places) do table.insert(result[4], meter(claim[1]).held) end
  return result
end
local function reservation(id)
  local values = redis.call('HMGET', prefix .. ':r:' .. id, 'owner', 'money', 'tokens', 'held', 'budget_tokens')
  if not values[1] then return nil end
  local amounts = { money = tonumber(values[2]), tokens = tonumber(values[5]) or 0 }
  return { id = id, owner = values[1], amounts = amounts, tokens = tonumber(values[3]), held = cjson.decode(values[4]) }
end
local function settle(r, used, tokens)
  for _, claim in ipairs(r.held.money) do
    local m, unit = rolled(claim[1]), unitOf(claim[1])
    setBudget(claim[1], m.used + used[unit], m.held - r.amounts[unit])
  end
  for _, claim in ipairs(r.held.tokens) do take(claim[1], claim[2], tokens - r.tokens) end
  for _, claim in ipairs(r.held.places) do place(claim[1], -1) end
  redis.call('DEL', prefix .. ':r:' .. r.id)
  redis.call('SREM', prefix .. ':o:' .. r.owner, r.id)
end

local function refusal(least, tokens, claims)
  for i, claim in ipairs(claims.budgets) do
    local m = rolled(claim[1])
    if claim[2] - m.used - m.held < least[unitOf(claim[1])] then
      return { 1, i - 1, untilEnd(windowOf(claim[1]), m.at) }
    end
  end
  for i, claim in ipairs(claims.places) do
    if meter(claim[1]).held >= claim[2] then return { 2, i - 1, 0 } end
  end
  for i, claim in ipairs(claims.requests) do
    local wait = waitMs(refilled(claim[1], claim[2]), claim[2], 1)
    if wait > 0 then return { 3, i - 1, wait } end
  end
  for i, claim in ipairs(claims.tokens) do
    local wait = waitMs(refilled(claim[1], claim[2]), claim[2], math.min(tokens, claim[2]))
    if wait > 0 then return { 4, i - 1, wait } end
  end
  return nil
end

local function isLasting(id) return string.sub(id, 1, ${LASTING.length}) == '${LASTING}' end
local handlers = {}
function handlers.reserve(o)
  local claims = o.claims
  local before = reservation(o.id)
  if before then return { 0, { before.amounts.money, before.amounts.tokens }, levels(claims) } end
  local refused = refusal(o.least, o.tokens, claims)
  if refused then return { refused, levels(claims) } end
  local amounts = o.want
  for _, claim in ipairs(claims.budgets) do
    local m, unit = rolled(claim[1]), unitOf(claim[1])
    amounts[unit] = math.min(amounts[unit], claim[2] - m.used - m.held)
  end
  for _, claim in ipairs(claims.budgets) do
    local m = rolled(claim[1])
    setBudget(claim[1], m.used, m.held + amounts[unitOf(claim[1])])
  end
  for _, claim in ipairs(claims.requests) do take(claim[1], claim[2], 1) end
  for _, claim in ipairs(claims.tokens) do take(claim[1], claim[2], o.tokens) end
  for _, claim in ipairs(claims.places) do place(claim[1], 1) end
  redis.call('HSET', prefix .. ':r:' .. o.id, 'owner', owner, 'money', text(amounts.money),
    'budget_tokens', text(amounts.tokens), 'tokens', text(o.tokens), 'held', o.held)
  if not isLasting(o.id) then redis.call('SADD', prefix .. ':o:' .. owner, o.id) end
  return { 0, { amounts.money, amounts.tokens }, levels(claims) }
end
function handlers.resize(o)
  local r = reservation(o.id)
  if not r then return { 2, 0 } end
  local before, budgets = r.amounts[o.unit], {}
  for _, claim in ipairs(r.held.money) do
    if unitOf(claim[1]) == o.unit then table.insert(budgets, claim) end
  end
  local room, isHeld = MAX, 0
  for _, claim in ipairs(budgets) do
    local m = rolled(claim[1])
    local free = math.max(0, claim[2] - m.used - m.held)
    if before + free < o.least and m.held > before then isHeld = 1 end
    room = math.min(room, free)
  end
  local amount = math.min(o.want, before + room)
  if amount < o.least then return { 1, isHeld } end
  for _, claim in ipairs(budgets) do
    local m = rolled(claim[1])
    setBudget(claim[1], m.used, m.held + amount - before)
  end
  redis.call('HSET', prefix .. ':r:' .. o.id, o.unit == 'money' and 'money' or 'budget_tokens', text(amount))
  return { 0, amount }
end
function handlers.settle(o)
  local r = reservation(o.id)
  if not r then return 0 end
  settle(r, o, o.tokens)
  return 1
end
function handlers.charge(o)
  for _, claim in ipairs(o.claims.budgets) do
    local m = rolled(claim[1])
    setBudget(claim[1], m.used + o[unitOf(claim[1])], m.held)
  end
  for _, claim in ipairs(o.claims.requests) do take(claim[1], claim[2], 1) end
  for _, claim in ipairs(o.claims.tokens) do take(claim[1], claim[2], o.tokens) end
  return 1
end
function handlers.read(o) return levels(o.claims) end
function handlers.recover()
  local recovered = {}
  for _, gone in ipairs(redis.call('ZRANGEBYSCORE', prefix .. ':owners', '-inf', text(now))) do
    for _, id in ipairs(redis.call('SMEMBERS', prefix .. ':o:' .. gone)) do
      local r = reservation(id)
      if r then
        settle(r, r.amounts, r.tokens)
        table.insert(recovered, { id, r.amounts.money, r.tokens })
      end
    end
    redis.call('DEL', prefix .. ':o:' .. gone)
    redis.call('ZREM', prefix .. ':owners', gone)
  end
  return recovered
end
function handlers.count()
  local sum = 0
  for _, each in ipairs(redis.call('ZRANGE', prefix .. ':owners', 0, -1)) do
    sum = sum + redis.call('SCARD', prefix .. ':o:' .. each)
  end
  return sum
end

redis.call('ZADD', prefix .. ':owners', text(now + leaseMs), owner)
local results = {}
for _, operation in ipairs(cjson.decode(ARGV[4])) do table.insert(results, handlers[operation.op](operation)) end
write()
return results
`;
