-- report: what became of a granted request.
--
-- KEYS  1 lane  2 user  3 project  4 usage
-- ARGV  1 turn  2 lease us  3 token of the grant  4 ok | none | calendar | user | project | usage
--       5 Retry-After us, 0 for none
-- returns {'held', us until the gate that matters opens, pace, '1' when a gate closed} | {'lost'}
--
-- ok: the limiter let the request pass, whatever came of it. none: it says nothing about a limit
-- (5xx, timeout, never sent). The others name the scope of a throttle. lost changes nothing.

local turn, outcome = ARGV[1], ARGV[4]
local lane = read(KEYS[1], LANE)
if not holds(lane, turn) then return {'lost'} end
lane.lease = now + tonumber(ARGV[2])

local granted = tonumber(string.match(ARGV[3], '^%d+')) or 0
local probes = string.match(ARGV[3], '%a*$')
local retry_after = tonumber(ARGV[5])
local opens, closed = lane.opens, '0'

-- The spread of a fifth keeps probes from missing the end of the same window again and again.
local function doubling(longest)
  return function(closures) return min(longest, 2 * SEC * 2 ^ closures) * (1 + clock[2] % 1000 / 5000) end
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

if outcome == 'ok' then lane.wrote, lane.writes = lane.wrote + 1000, lane.writes + 1 end

settle(lane, 'calendar', 'c', doubling(16 * SEC), function()
  -- A lane that found no work after the gate opened was not closed in that time.
  control.learn(lane, min(now, lane.opens + 2 * SEC) - lane.closed)
  lane.last, lane.tat = now, max(now, min(lane.tat, now + 1e12 / lane.pace))
end)

for i, level in ipairs({{'user', 'u'}, {'project', 'p'}}) do
  local scope, letter = unpack(level)
  if concerns(scope, letter) then
    local record = read(KEYS[1 + i], LEVEL)
    settle(record, scope, letter, doubling(30 * SEC))
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
