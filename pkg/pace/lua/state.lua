-- state: what is known about a lane, for people. It opens the scripts that answer it.
--
-- Places: holder, waiting, us of lease left, pace, then for the gates of calendar, user, project and
-- usage: closed '1' | '0', us until it opens, closures in a row, probe out '1' | '0',
-- then writes per second that the lane gets, in millionths, 0 while nobody can say, then for user and project:
-- units of the last 60 s, requests of the day.

-- append_state adds the places to an answer. The keys are those of all four records; begins and ends are those of the
-- Pacific day, in us.
local function append_state(out, lane, keys, begins, ends)
  local held = lane.holder ~= '' and lane.lease > now
  local function add(value) out[#out + 1] = value end
  add(held and lane.holder or '')
  add(lane.waiting)
  add(int(held and lane.lease - now or 0))
  add(int(lane.pace))
  local user, project = read(keys[2], LEVEL), read(keys[3], LEVEL)
  for _, gate in ipairs({lane, user, project, read(keys[4], GATE)}) do
    local shut = gate.closed > 0
    add(shut and '1' or '0')
    add(int(shut and max(0, gate.opens - now) or 0))
    add(int(shut and gate.closures or 0))
    add(gate.probe > 0 and now < gate.probe + PROBE_LOST and '1' or '0')
  end
  local speed = lane.searching == 1 and lane.bound <= 500 and 0 or lane.pace
  if lane.bound > 500 and lane.beat > 0 then speed = min(speed, 1e12 / lane.beat) end
  add(int(speed))
  for _, level in ipairs({user, project}) do
    today(level, begins, ends)
    add(int(last_minute(level)))
    add(int(level.requests))
  end
  return out
end
