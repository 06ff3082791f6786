// Package pace hands out the right to write to a Google calendar: who may write, and when.
//
// A lane is one calendar of one Google project. [Pacer.Acquire] gives a lane to one turn at a time,
// under a lease; [Lease.Reserve] then gives each request its send time, and [Lease.Report] feeds
// Google's answer back. Everything is decided in Lua scripts on one Redis, so that any number of
// writers share one view, and by the clock of Redis alone.
//
// The package guarantees:
//
//   - At any moment at most one turn holds a lane. What a turn does after it lost the lease changes
//     nothing and returns [ErrLeaseLost].
//   - Requests keep below the known limits of the user and the project, and below the calendar's
//     unknown limit as far as it has been learned. The pace stays between 0.05/s and Config.MaxPace.
//   - A throttle closes the gate of the scope that Google named, for 2 s
//     growing to 30 s (a calendar's for 1.7 s growing to 17 s), each up to a fifth longer, or for
//     Retry-After. After that one probe leaves, and only its success opens the gate.
//   - A used-up usage limit ("quotaExceeded") closes the account's creates for 15 min, 1 h, then 4 h,
//     with one probe each time. Updates and deletes go on and no pace is cut.
//   - Nothing waits for ever: every "later" names the time to ask again, and a probe whose answer
//     never came is given up after 30 s.
//   - Without Redis nothing is granted: every call returns an error that is [ErrUnavailable].
//
// Redis may lose everything at any time. Then lanes start again at Config.StartPace, or below the
// pace that the caller remembers, and turns find that they lost their lease.
//
// All keys of a project share one hash slot and expire after seven days without use. The scripts run
// on Redis 7 or newer, Valkey, Redis Cluster and miniredis.
package pace
