-- inspect: what is known about a lane. Changes nothing.
--
-- KEYS  1 lane  2 user  3 project  4 usage
-- ARGV  1 begin of the Pacific day, us  2 begin of the next one, us
-- returns the places of state

return append_state({}, read(KEYS[1], LANE), KEYS, tonumber(ARGV[1]), tonumber(ARGV[2]))
