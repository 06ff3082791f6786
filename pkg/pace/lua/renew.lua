-- renew: hold the lane for another lease.
--
-- KEYS  1 lane
-- ARGV  1 turn  2 lease us
-- returns {'held'} | {'lost'}; lost changes nothing

local lane = read(KEYS[1], LANE)
if not holds(lane, ARGV[1]) then return {'lost'} end
lane.lease = now + tonumber(ARGV[2])
write(KEYS[1], LANE, lane)
return {'held'}
