-- release: give the lane back.
--
-- KEYS  1 lane
-- ARGV  1 turn  2 '1' when the lane has run out of work
-- returns {'free'} | {'lost'}; lost changes nothing

local lane = read(KEYS[1], LANE)
if not holds(lane, ARGV[1]) then return {'lost'} end
lane.holder, lane.lease = '', now
if ARGV[2] == '1' then lane.idle = now end
write(KEYS[1], LANE, lane)
return {'free'}
