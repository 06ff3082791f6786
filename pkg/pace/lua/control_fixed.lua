-- control_fixed: a pace that never changes, behind the same gate; what LANE is compared with.

local control = {}

function control.start(lane, start) lane.pace = start end

function control.spend() end

function control.grow() end

function control.learn(lane) lane.wrote, lane.spent, lane.writes, lane.climb = 0, 0, 0, 0 end
