-- acquire: take the lane for a turn, or queue up as the one who may take it next.
--
-- KEYS  1 lane
-- ARGV  1 turn  2 lease us  3 subscription  4 start pace  5 remembered pace, 0 for none
-- returns {'held', pace} | {'busy', us to wait}
--
-- The first subscription that finds the lane busy is remembered, and once the lane is free it alone
-- may take it for a while. Otherwise the turn that just ended could win it again and again.

local CLAIM = 6 * SEC   -- how long the lane is kept for the one who waits
local RETRY = 5 * SEC   -- below CLAIM, so that who waits comes in time

local turn, lease, subscription = ARGV[1], tonumber(ARGV[2]), ARGV[3]
local lane = read(KEYS[1], LANE)

-- Asking twice is harmless: the client repeats a call whose answer was lost.
if not holds(lane, turn) then
  if lane.holder ~= '' and lane.lease > now then
    if lane.waiting == '' then
      lane.waiting = subscription
      write(KEYS[1], LANE, lane)
    end
    return {'busy', int(min(RETRY, lane.lease - now))}
  end
  local claim = lane.lease + CLAIM
  if lane.waiting ~= '' and lane.waiting ~= subscription and now < claim then
    return {'busy', int(min(RETRY, claim - now))}
  end
  lane.holder, lane.waiting = turn, ''
end
lane.lease = now + lease
if lane.pace == 0 then control.start(lane, tonumber(ARGV[4]), tonumber(ARGV[5])) end
write(KEYS[1], LANE, lane)
return {'held', int(lane.pace)}
