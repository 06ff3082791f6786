-- release: give the lane back, and tell what is known about it.
--
-- KEYS  1 lane  2 user  3 project  4 usage
-- ARGV  1 turn  2 '1' when the lane has run out of work  3 begin of the Pacific day, us  4 begin of the next one, us
--       5 requests that passed since the last call
-- returns {'free', then the places of state} | {'lost'}; lost changes nothing

local lane = read(KEYS[1], LANE)
if not holds(lane, ARGV[1]) then return {'lost'} end
lane.holder, lane.lease = '', now
passed(lane, tonumber(ARGV[5]))
if ARGV[2] == '1' then lane.idle = now end
write(KEYS[1], LANE, lane)
return append_state({'free'}, lane, KEYS, tonumber(ARGV[3]), tonumber(ARGV[4]))
