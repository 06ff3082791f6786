-- reserve: the next send time of the turn that holds the lane, under the limits of its calendar, its
-- user and its project, and for a create under the user's usage limit.
--
-- KEYS  1 lane  2 user  3 project  4 usage
-- ARGV  1 turn  2 lease us  3 units of the request  4 '1' for a create
--       5 us per unit of the user  6 us per unit of the project  7 fastest pace
--       8 begin of the Pacific day, us  9 begin of the next one, us
--       10 requests of the project's day after which this one waits for the next day, 0 for none
--       11 writes that the lane has left, this one included  12 requests that passed since the last call
-- returns {'go' | 'later', us to wait, scope, concurrency, pace, token, us until the write after this one} | {'lost'};
-- lost changes nothing
--
-- The last is set where user or project have no send time soon for the lane's next write: that is booked at once, so that
-- the turn need not ask in order to be sent away.
--
-- scope says what holds a "later" back: calendar, user, project, usage, day, or probe while
-- somebody's probe is out. token goes back to report: the moment of the grant, then a letter for each gate
-- that this request probes (c calendar, u user, p project, x usage).

local SMALL = 6 -- writes of a lane that may pass the others
local turn, units, left = ARGV[1], tonumber(ARGV[3]), tonumber(ARGV[11])
local lane = read(KEYS[1], LANE)
if not holds(lane, turn) then return {'lost'} end
lane.lease = now + tonumber(ARGV[2])
passed(lane, tonumber(ARGV[12]))

local probes = ''
local changed = {} -- records of levels, by key; written once, with the answer

local function answer(verb, at, scope, following)
  write(KEYS[1], LANE, lane)
  for key, record in pairs(changed) do write(key, LEVEL, record) end
  local parallel = max(1, min(4, math.ceil(0.285e-6 * lane.pace)))
  if lane.closed > 0 then parallel = 1 end
  return {verb, int(max(0, at - now)), scope, int(parallel), int(lane.pace), int(now) .. probes,
    int(following and following - now or 0)}
end

-- small tells whether a write may pass the others, when so many are left, that one included.
local function small(remaining) return lane.fresh < 4 and lane.fresh + remaining <= SMALL end

-- The usage limit comes first: a create that must wait takes no slot and no probe from the others.
local usage
if ARGV[4] == '1' then
  usage = read(KEYS[4], GATE)
  local gate, ask = gate_state(usage)
  if ask then return answer('later', ask, 'usage') end
  if gate == 'probe' then probes = probes .. 'x' end
end

-- The day comes next, for the same reason.
local begins, ends, most = tonumber(ARGV[8]), tonumber(ARGV[9]), tonumber(ARGV[10])
if most > 0 and now < ends then
  local project = read(KEYS[3], LEVEL)
  today(project, begins, ends)
  if project.requests >= most then return answer('later', ends, 'day') end
end

-- Calendar: the limit that is searched. Never reserved far ahead, because the pace may change.
local at = max(now, lane.tat)
local calendar, ask = gate_state(lane)
if calendar == 'shut' then return answer('later', ask, 'calendar') end
if calendar == 'probing' then return answer('later', ask, 'probe') end
if calendar == 'probe' then
  at, probes = now, probes .. 'c'
elseif at > now + AHEAD then
  lane.paced = 1
  return answer('later', at, 'calendar')
end

-- User and project: known limits at a constant pace, so that a slot far away never goes stale. The
-- lane keeps at most one slot of each until it is used.
if lane.idle > 0 then
  if now - lane.idle > 30 * SEC then lane.fresh = 0 end
  lane.idle = 0
end

local function level(key, slot, charged, letter, per_unit)
  local l = read(key, LEVEL)
  local gate, again = gate_state(l)
  if gate == 'shut' then return again, 'shut' end
  if gate == 'probing' then return again, 'probing' end

  if lane[slot] > 0 and lane[slot] >= max(l.opens, now - 10 * SEC) then
    local missing = units - lane[charged]
    if missing > 0 then
      l.tat, lane[charged] = l.tat + missing * per_unit, units
      changed[key] = l
    end
  else
    local free = max(now, l.tat)
    l.tat = free + units * per_unit
    -- Express: the first writes of a lane that had no work, and has only a few now, pass the backlog of the others, on a
    -- credit of a fifth of the pace and a burst of six. They are charged all the same.
    if free > now and small(left) then
      local credit = max(l.express, now - 30 * per_unit) + 5 * units * per_unit
      if credit <= now then free, l.express = now, credit end
    end
    if gate == 'probe' then free = now end
    lane[slot], lane[charged] = free, units
    changed[key] = l
  end
  if gate == 'probe' then probes = probes .. letter end
  return lane[slot], gate, l
end

local user_at, user_gate, user = level(KEYS[2], 'uslot', 'uunits', 'u', tonumber(ARGV[5]))
if user_gate == 'probing' then return answer('later', user_at, 'probe') end
if user_gate == 'shut' or user_at > now + AHEAD then return answer('later', user_at, 'user') end

local project_at, project_gate, project = level(KEYS[3], 'pslot', 'punits', 'p', tonumber(ARGV[6]))
if project_gate == 'probing' then return answer('later', project_at, 'probe') end
if project_gate == 'shut' or project_at > now + AHEAD then return answer('later', project_at, 'project') end

-- Granted.
local paced_at = max(now, lane.tat)
at = max(at, user_at, project_at)
lane.uslot, lane.uunits, lane.pslot, lane.punits = 0, 0, 0, 0
lane.fresh = lane.fresh + 1
if usage and usage.closed > 0 then
  usage.probe = now
  write(KEYS[4], GATE, usage)
end
for i, l in ipairs({user, project}) do
  if l.closed > 0 then l.probe = now end
  roll(l)
  today(l, begins, ends)
  l.units, l.requests = l.units + units, l.requests + 1
  changed[KEYS[1 + i]] = l
end

-- What the lane gets in fact, for people: a calendar may share its user's quota with others.
local beat = at - lane.last
if lane.last > 0 and beat > 0 and beat < 120 * SEC then
  lane.beat = lane.beat > 0 and lane.beat + (beat - lane.beat) / 30 or beat
end
lane.bound = lane.bound + ((at > paced_at and 1000 or 0) - lane.bound) / 30

local spacing = 1e12 / lane.pace
if calendar == 'probe' then
  lane.probe, lane.tat = now, at + spacing
else
  local gap = max(0, min(at - lane.last, 2 * spacing))
  control.spend(lane, gap)
  -- Only a pace that was the brake may grow: an idle or a user-bound lane proves nothing.
  if lane.tat > now or lane.paced == 1 then
    control.grow(lane, min(gap, spacing) / SEC, tonumber(ARGV[7]))
  end
  lane.tat, lane.paced = max(lane.tat, at) + spacing, 0
end
lane.last = at

-- The write after this one is taken to cost as much.
local following
if left > 1 and not small(left - 1) then
  for i, l in ipairs({user, project}) do
    local slot, charged, per_unit = unpack(({{'uslot', 'uunits', tonumber(ARGV[5])}, {'pslot', 'punits', tonumber(ARGV[6])}})[i])
    if l.closed == 0 and l.tat > now + AHEAD then
      following, lane[slot], lane[charged] = l.tat, l.tat, units
      l.tat = l.tat + units * per_unit
      break
    end
  end
end
return answer('go', at, '', following)
