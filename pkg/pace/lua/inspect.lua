-- inspect: what is known about a lane, for people. Changes nothing.
--
-- KEYS  1 lane  2 user  3 project  4 usage
-- returns {holder, waiting, us of lease left, pace, then for the gates of calendar, user, project and
--          usage: closed '1' | '0', us until it opens, closures in a row, probe out '1' | '0'}

local lane = read(KEYS[1], LANE)
local held = lane.holder ~= '' and lane.lease > now
local out = {
  held and lane.holder or '', lane.waiting, int(held and lane.lease - now or 0), int(lane.pace),
}
for _, gate in ipairs({lane, read(KEYS[2], LEVEL), read(KEYS[3], LEVEL), read(KEYS[4], GATE)}) do
  local shut = gate.closed > 0
  out[#out + 1] = shut and '1' or '0'
  out[#out + 1] = int(shut and max(0, gate.opens - now) or 0)
  out[#out + 1] = int(shut and gate.closures or 0)
  out[#out + 1] = gate.probe > 0 and now < gate.probe + PROBE_LOST and '1' or '0'
end
return out
