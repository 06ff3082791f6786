-- report: what became of a granted request.
--
-- KEYS  1 lane  2 user  3 project  4 usage
-- ARGV  1 turn  2 lease us  3 token of the grant  4 ok | none | calendar | user | project | usage
--       5 Retry-After us, 0 for none  6 requests that passed since the last call, before this one
-- returns {'held', us until the gate that matters opens, pace, '1' when a gate closed} | {'lost'}
--
-- ok: the limiter let the request pass, whatever came of it. none: it says nothing about a limit
-- (5xx, timeout, never sent). The others name the scope of a throttle. lost changes nothing.
--
-- A request that was no probe and passed is not reported but counted in the next call.

local turn, outcome = ARGV[1], ARGV[4]
local lane = read(KEYS[1], LANE)
if not holds(lane, turn) then return {'lost'} end
lane.lease = now + tonumber(ARGV[2])

local granted = tonumber(string.match(ARGV[3], '^%d+')) or 0
local probes = string.match(ARGV[3], '%a*$')
local retry_after = tonumber(ARGV[5])
local opens, closed = lane.opens, '0'

-- spread lengthens a pause by up to a part, so that probes do not miss the end of the same window again and again.
local function spread(pause, part) return pause * SEC * (1 + part * (clock[2] % 1000) / 1000) end

local function level_pause(closures) return spread(min(30, 2 * 2 ^ closures), 0.2) end

-- A calendar's pauses while its limit is searched. Many writes that were let through and then several throttles in a row
-- are a window of a minute far more often than anything else: the last pause ends when that can open, a minute after the
-- search began, and one probe fewer is spent before.
local function search_pause(closures)
  local rest = 61 * SEC - lane.spent - (now - lane.closed)
  if lane.writes >= 150 and closures == 1 and rest > 14 * SEC then return spread(10, 0.2) end
  if lane.writes >= 150 and closures == 2 and rest > 8 * SEC then return spread(rest / SEC, 0.05) end
  return spread(min(16, 2 * 2 ^ closures), 0.2)
end

-- And once its limit was met. What closes it for long then is a window: the fourth pause ends before a window of a minute
-- that was filled at an even pace can open, and the fifth soon after. A calendar that was closed for more than two
-- throttles the last time takes so many pauses as that was longer for granted. And after some work at a good pace a lone
-- throttle is as often noise as a limit: that is asked sooner.
local function lane_pause(closures)
  if lane.searching == 1 then return search_pause(closures) end
  local step = closures + max(0, min(3, lane.before - 2))
  if step == 0 and lane.writes >= 20 and (lane.spent < 25 * SEC or lane.pace > 1.3e6) then return spread(1.7, 0.2) end
  if step < 3 then return spread(2 * 2 ^ step, 0.2) end
  return spread(step == 3 and 13.5 or 17, 0.05)
end

local function usage_pause(closures)
  return ({15 * 60, 60 * 60, 4 * 60 * 60})[min(3, closures + 1)] * SEC
end

-- settle tells one gate the outcome. Only its own probe opens it again, and of all requests that were
-- under way when it closed one throttle counts.
local function settle(gate, scope, letter, pause, on_open)
  local probe = gate.probe > 0 and gate.probe == granted and string.find(probes, letter, 1, true)
  if probe then gate.probe = 0 end
  if outcome == 'ok' and probe then
    if on_open then on_open() end
    gate.closed, gate.closures = 0, 0
  elseif outcome == scope then
    if probe or (gate.closed == 0 and granted >= gate.throttled) then
      if gate.closed == 0 then gate.closed, gate.closures = now, 0 end
      gate.opens = now + max(retry_after, pause(gate.closures))
      gate.throttled, gate.closures, closed = now, gate.closures + 1, '1'
    elseif gate.closed > 0 then
      gate.opens = max(gate.opens, now + retry_after)
    end
    opens = gate.opens
  end
end

local function concerns(scope, letter)
  return outcome == scope or string.find(probes, letter, 1, true)
end

passed(lane, tonumber(ARGV[6]) + (outcome == 'ok' and 1 or 0))

settle(lane, 'calendar', 'c', lane_pause, function()
  lane.before = lane.searching == 1 and 0 or lane.closures
  -- A lane that found no work after the gate opened was not closed in that time.
  control.learn(lane, min(now, lane.opens + 2 * SEC) - lane.closed)
  lane.last, lane.tat = now, max(now, min(lane.tat, now + 1e12 / lane.pace))
end)

for i, level in ipairs({{'user', 'u'}, {'project', 'p'}}) do
  local scope, letter = unpack(level)
  if concerns(scope, letter) then
    local record = read(KEYS[1 + i], LEVEL)
    settle(record, scope, letter, level_pause)
    if outcome == scope then record.tat = max(record.tat, record.opens) end
    write(KEYS[1 + i], LEVEL, record)
  end
end

if concerns('usage', 'x') then
  local usage = read(KEYS[4], GATE)
  -- Creates of other lanes that left just before must not lengthen the pause: it lasts hours.
  settle(usage, 'usage', 'x', usage_pause)
  write(KEYS[4], GATE, usage)
end

write(KEYS[1], LANE, lane)
return {'held', int(max(0, opens - now)), int(lane.pace), closed}
