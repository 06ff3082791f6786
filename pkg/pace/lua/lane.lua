-- lane: the opening that every script of this package starts with.
--
-- It gives the scripts the clock, the records and the gates. A moment is microseconds since 1970 by
-- the clock of Redis, a pace is millionths of a write per second, and 0 stands for "never" or "none".

local min, max = math.min, math.max
local SEC = 1e6
local AHEAD = 2 * SEC          -- no send time further away is handed out
local PROBE_LOST = 30 * SEC    -- a probe without an answer for this long is given up
local KEEP = 7 * 24 * 3600     -- seconds until an unused record expires
local RENEW = 3600 * SEC       -- how often those of a used one begin anew

local clock = redis.call('TIME')
local now = clock[1] * SEC + clock[2]

-- %.0f because the default format would print these numbers as 1.7e+15.
local function int(x) return string.format('%.0f', x) end

-- A gate closes on a throttle and reopens when one probe has passed.
local GATE = {
  'closed',     -- moment it closed, 0 while open
  'throttled',  -- moment of the last throttle that counted
  'opens',      -- moment from which a probe may leave
  'closures',   -- throttles in a row
  'probe',      -- moment the probe was granted, 0 when none is out
}

-- A level is a quota whose size is known: a user's or a project's.
local LEVEL = {
  'tat', 'express',
  'minute', 'units', 'before',  -- minute that is counted, units asked for in it, and in the one before
  'day', 'requests',            -- begin of the Pacific day that is counted, and requests in it
  unpack(GATE),
}

local LANE = {
  'holder', 'lease',     -- turn that works the lane, and until when
  'waiting',             -- first subscription that found the lane busy
  'pace', 'tat',         -- and the moment from which the pace allows the next write
  'last',                -- send time of the last grant
  'paced',               -- 1: the lane was sent away by its own pace since the last grant
  'searching',           -- 1: no limit met yet
  'wrote', 'spent',      -- thousandths of writes accepted, and paced time, since the gate opened
  'wrote1', 'spent1',    -- the same of the interval before
  'writes',              -- writes accepted since the gate opened, not aged
  'climb',               -- paced time since the gate opened, not aged
  'before',              -- throttles in a row when the gate was closed the last time, 0 when that ended the search
  'beat',                -- usual time between two grants, pauses of a closed gate included; 0 unknown
  'bound',               -- how often a level was the brake of late, in thousandths of the grants
  'uslot', 'uunits',     -- send time held at the user level, and what was charged for it
  'pslot', 'punits',     -- the same at the project level
  'fresh',               -- writes since the lane became active
  'idle',                -- moment the lane ran out of work
  unpack(GATE),
}

local TEXT = {holder = true, waiting = true}
local MOMENTS = {
  'lease', 'tat', 'last', 'uslot', 'pslot', 'idle', 'express', 'closed', 'throttled', 'opens', 'probe',
}

-- write stores what changed since the record was read, and puts its end off.
local function write(key, fields, record)
  local args, was = {'seen', int(now)}, record.was
  for i, field in ipairs(fields) do
    local value = record[field]
    if value ~= was[i] then
      args[#args + 1] = field
      args[#args + 1] = TEXT[field] and value or int(value)
    end
  end
  local prolong = math.abs(now - was.kept) >= RENEW
  if prolong then
    args[#args + 1] = 'kept'
    args[#args + 1] = args[2]
  end
  redis.call('HSET', key, unpack(args))
  if prolong then redis.call('EXPIRE', key, KEEP) end
end

-- read fetches a record. A failover can move the clock back; then every moment moves by as much, at
-- once and for good, so that no pace, lease or gate lasts longer than it was meant to.
local function read(key, fields)
  local stored = redis.call('HMGET', key, 'seen', 'kept', unpack(fields))
  local was = {kept = tonumber(stored[2] or 0)}
  local record, back = {was = was}, tonumber(stored[1] or 0) - now
  for i, field in ipairs(fields) do
    local value = stored[i + 2]
    value = TEXT[field] and (value or '') or tonumber(value or 0)
    record[field], was[i] = value, value
  end
  if back <= 0 then return record end
  for _, field in ipairs(MOMENTS) do
    if (record[field] or 0) > 0 then record[field] = max(1, record[field] - back) end
  end
  write(key, fields, record)
  return read(key, fields)
end

-- roll moves a level's counts on to the present minute.
local function roll(level)
  local minute = math.floor(now / (60 * SEC))
  if minute ~= level.minute then
    level.before = minute == level.minute + 1 and level.units or 0
    level.minute, level.units = minute, 0
  end
end

-- today moves a level's count of a day on. The caller knows the zone: it gives the begin of its day and of the next,
-- of which this clock may have reached the one and not the other. A day only ever ends for good.
local function today(level, begins, ends)
  local day = now < ends and begins or ends
  if day > level.day then level.day, level.requests = day, 0 end
end

-- last_minute estimates the units of the last 60 s.
local function last_minute(level)
  roll(level)
  return level.units + level.before * (1 - now % (60 * SEC) / (60 * SEC))
end

-- holds tells whether the turn still has the lane. A lease that ran out is lost even when nobody
-- took the lane since.
local function holds(lane, turn) return lane.holder == turn and lane.lease > now end

-- passed counts requests that the limiter let pass, of which the turn tells with its next call.
local function passed(lane, requests)
  lane.wrote, lane.writes = lane.wrote + 1000 * requests, lane.writes + requests
end

-- gate_state returns open | shut | probing | probe, and for shut and probing when to ask again.
-- "probe" means that the caller may be the one probe.
local function gate_state(gate)
  if gate.closed == 0 then return 'open' end
  if now < gate.opens then return 'shut', gate.opens end
  if gate.probe > 0 and now < gate.probe + PROBE_LOST then return 'probing', now + SEC / 2 end
  return 'probe'
end
