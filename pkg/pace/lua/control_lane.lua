-- control_lane: the LANE controller, which searches a calendar's unknown limit.
--
-- It doubles the pace every 8 s until the first throttle, later grows slowly at first and faster the
-- longer nothing is throttled, and after each closure sets the pace to what Google accepted since
-- the closure before. A bucket is empty at both ends of that interval and a window is full, so
-- accepted / elapsed, closed time included, is the limit itself.

local control = {}
local AGE = 60 * SEC    -- older work fades out of the measurement
local ENOUGH = 50       -- writes that make one interval a measurement of its own
local LONG = 5          -- throttles in a row that say less about a limit than about what a window still held

-- start sets the pace of a lane that nobody remembers, or starts below what was remembered.
function control.start(lane, start, remembered)
  lane.pace, lane.searching = start, 1
  if remembered > 0 then lane.pace = min(start, 0.7 * remembered) end
end

-- spend counts paced time.
function control.spend(lane, gap)
  lane.spent = lane.spent + gap
  if lane.spent > AGE then
    lane.wrote, lane.spent = lane.wrote * AGE / lane.spent, AGE
  end
end

-- grow raises the pace after dt seconds in which nothing but the pace held the lane back.
function control.grow(lane, dt, fastest)
  lane.climb = lane.climb + dt * SEC
  local doubling = 0.0866 -- ln 2 / 8 s
  local growth = min(doubling, 0.0016 * 2 ^ (lane.climb / (45 * SEC)))
  if lane.searching == 1 then growth = lane.pace < 8e6 and doubling or 0.02 end
  lane.pace = min(fastest, lane.pace * math.exp(growth * dt))
end

-- learn sets the pace when the gate opens, after it was closed for so long.
function control.learn(lane, closed)
  -- A lone throttle after some work at a good pace is as often noise as a limit, and of a short interval the pause is a
  -- large part: it counts less, so that noise does not grind the pace down.
  if lane.closures == 1 and lane.writes >= 20 and lane.writes < ENOUGH and lane.spent < 25 * SEC then
    closed = 0.4 * closed
  end
  local wrote, elapsed = lane.wrote, lane.spent + closed
  local accepted = wrote * 1e9 / elapsed
  if lane.writes >= ENOUGH and lane.closures == 1 and lane.searching == 0 then
    -- One throttle, and the first probe passed: perhaps noise, so it costs a tenth at most.
    lane.pace = min(lane.pace, max(0.9 * lane.pace, accepted))
  elseif lane.writes >= ENOUGH and lane.closures == 1 then
    -- The same while the pace was doubling: a limit far more often than noise. What was accepted holds a full bucket,
    -- so the true limit is a little lower; a pace that is too high meets it again soon.
    lane.pace, lane.searching = min(0.99 * lane.pace, max(0.7 * lane.pace, 0.97 * accepted)), 0
  else
    local least = 0
    if lane.writes < ENOUGH then
      least = 0.7 * lane.pace
      accepted = (wrote + lane.wrote1) * 1e9 / (elapsed + lane.spent1)
    elseif lane.closures >= LONG and lane.searching == 0 then
      least = 0.5 * lane.pace
    end
    lane.pace = max(0.05e6, min(0.99 * lane.pace, max(least, 0.97 * accepted)))
    lane.searching = 0
  end
  lane.wrote1, lane.spent1 = wrote, elapsed
  lane.wrote, lane.spent, lane.writes, lane.climb = 0, 0, 0, 0
end
