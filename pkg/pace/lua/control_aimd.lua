-- control_aimd: additive increase, multiplicative decrease; what LANE is compared with.

local control = {}

function control.start(lane, start, remembered)
  lane.pace, lane.searching = start, 1
  if remembered > 0 then lane.pace = min(start, 0.7 * remembered) end
end

function control.spend() end

-- grow doubles the pace every 8 s up to 8/s while searching; later it adds 0.5 % of the pace per second.
function control.grow(lane, dt, fastest)
  local growth = 0.005
  if lane.searching == 1 then growth = lane.pace < 8e6 and 0.0866 or 0.02 end
  lane.pace = min(fastest, lane.pace * math.exp(growth * dt))
end

function control.learn(lane)
  lane.pace, lane.searching = max(0.05e6, 0.85 * lane.pace), 0
  lane.wrote, lane.spent, lane.writes, lane.climb = 0, 0, 0, 0
end
