-- inspect: what is known about a lane, for people. Changes nothing.
--
-- KEYS  1 lane  2 user  3 project  4 usage
-- ARGV  1 begin of the Pacific day, us  2 begin of the next one, us
-- returns {holder, waiting, us of lease left, pace, then for the gates of calendar, user, project and
--          usage: closed '1' | '0', us until it opens, closures in a row, probe out '1' | '0',
--          then writes per second that the lane gets, in millionths, 0 while nobody can say, then for user and project:
--          units of the last 60 s, requests of the day}

local lane = read(KEYS[1], LANE)
local held = lane.holder ~= '' and lane.lease > now
local out = {
  held and lane.holder or '', lane.waiting, int(held and lane.lease - now or 0), int(lane.pace),
}
local user, project = read(KEYS[2], LEVEL), read(KEYS[3], LEVEL)
for _, gate in ipairs({lane, user, project, read(KEYS[4], GATE)}) do
  local shut = gate.closed > 0
  out[#out + 1] = shut and '1' or '0'
  out[#out + 1] = int(shut and max(0, gate.opens - now) or 0)
  out[#out + 1] = int(shut and gate.closures or 0)
  out[#out + 1] = gate.probe > 0 and now < gate.probe + PROBE_LOST and '1' or '0'
end
local speed = lane.searching == 1 and lane.bound <= 500 and 0 or lane.pace
if lane.bound > 500 and lane.beat > 0 then speed = min(speed, 1e12 / lane.beat) end
out[#out + 1] = int(speed)
for _, level in ipairs({user, project}) do
  today(level, tonumber(ARGV[1]), tonumber(ARGV[2]))
  out[#out + 1] = int(last_minute(level))
  out[#out + 1] = int(level.requests)
end
return out
